"""Tasks with gold evidence, and what of the evidence a set of passages holds.

A task is a line of JSON: ``id``, ``question``, ``evidence`` (a list of ``{"path", "quote", "start",
"end"}``; raw bytes, half open), ``must_include`` (texts), ``answerable``, ``oracle_plan`` (a list
of ``{"tool", "args"}``) and, if there is one, ``question_hard`` (the same in other words).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


class Quote(msgspec.Struct, frozen=True):
    """Bytes that an answer has to rest on."""

    path: str
    quote: str
    start: int
    end: int


class Step(msgspec.Struct, frozen=True):
    """A call of a scripted plan; an argument ``@hit[N]`` is the id of the last answer's N-th."""

    tool: str
    args: dict[str, Any]


class Task(msgspec.Struct, frozen=True):
    """A question with the evidence that answers it; fields that are not named here are ignored."""

    id: str
    question: str
    evidence: tuple[Quote, ...] = ()
    must_include: tuple[str, ...] = ()
    answerable: bool = True
    oracle_plan: tuple[Step, ...] = ()
    question_hard: str | None = None
    kind: str = ""

    @property
    def gold_paths(self) -> frozenset[str]:
        """The documents that hold the evidence."""
        return frozenset(quote.path for quote in self.evidence)


class Passage(msgspec.Struct, frozen=True):
    """What an answer showed: raw bytes [start, end) of a document, as `text`.

    `cut` says that `text` shows a part of them only.
    """

    path: str
    start: int
    end: int
    text: str
    cut: bool = False
    id: str = ""
    section: str = ""

    def spans(self, quote: Quote) -> bool:
        """Whether the quote's bytes lie inside."""
        inside = self.start <= quote.start and quote.end <= self.end
        return inside and self.path == quote.path

    def shows(self, quote: Quote) -> bool:
        """Whether a reader of `text` sees the quote."""
        return self.spans(quote) and (not self.cut or _plain(quote.quote) in _plain(self.text))


# What Markdown and HTML add to the words of a raw quote; its rendered text has none of it.
_TAG, _MARKUP, _LINK = re.compile(r"</?[a-zA-Z][^<>]*>"), re.compile(r"[\\*`_]"), r"\]\([^()\s]*\)"
_LINKS = re.compile(_LINK)


def _plain(text: str) -> str:
    r"""The words of raw or rendered text.

    >>> _plain("max\\_connect <code>0</code>\n *x*") == _plain("max_connect 0 x")
    True
    """
    text = _MARKUP.sub("", _LINKS.sub("", _TAG.sub("", text)))
    return " ".join(text.replace("[", "").replace("]", "").split())


def load_tasks(path: str | os.PathLike[str]) -> list[Task]:
    """The tasks of a file of JSON lines; ValueError names the line that is none."""
    tasks, seen = [], set()
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                task = msgspec.convert(json.loads(line), Task)
            except (msgspec.ValidationError, json.JSONDecodeError) as error:
                raise ValueError(f"{os.fspath(path)}:{number}: no task: {error}") from error
            if task.id in seen:
                raise ValueError(f"{os.fspath(path)}:{number}: the id {task.id!r} is there twice")
            seen.add(task.id)
            tasks.append(task)
    if not tasks:
        raise ValueError(f"{os.fspath(path)}: no task in it")
    return tasks


def hard_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that have one, asked by their question in other words."""
    return [
        msgspec.structs.replace(task, question=task.question_hard)
        for task in tasks
        if task.question_hard
    ]


def missing(task: Task, passages: Sequence[Passage]) -> list[str]:
    """What the passages do not show of the task's quotes and texts; [] is success.

    Each quote must be shown, at its place; each of `must_include` must stand in some text, in any
    case and without regard to markup.
    """
    lacking = [quote.quote for quote in task.evidence if not any(p.shows(quote) for p in passages)]
    texts = [_plain(passage.text).casefold() for passage in passages]
    for wanted in task.must_include if task.answerable else ():
        if not any(_plain(wanted).casefold() in text for text in texts):
            lacking.append(wanted)
    return lacking


def share(task: Task, passages: Sequence[Passage], shown: bool = True) -> float:
    """The share of the quotes that the passages show, or with `shown` off only span."""
    if not task.evidence:
        return 1.0
    found = [
        any(p.shows(quote) if shown else p.spans(quote) for p in passages)
        for quote in task.evidence
    ]
    return sum(found) / len(found)
