"""The world of a policy: the tools, a limit of calls and tokens, and the record of what was seen.

A policy is a callable ``policy(task, world) -> bool``: it asks by ``world.call(tool, arguments)``
and says in the end whether it found evidence (False abstains). It reads ``task.question`` and, if
it follows a script, ``task.oracle_plan``; the gold evidence is not for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .answers import Answer, Item, Report
from .eval_tasks import Passage, Task
from .questions import Questions
from .tool_answers import tokens_of, told
from .tool_specs import TOKENS_DEFAULT
from .toolset import answer_tool, corpus_tools

BUDGETS = (500, 1000, 2000, 4000, 8000)


class OutOfCallsError(Exception):
    """The world gives no more answers."""


class Turn(msgspec.Struct, frozen=True):
    """A call and what it showed. `names` are ids and entities that it told of, `terms` the
    document frequencies that it reported, `costs` the tokens of each passage.
    """

    tool: str
    args: dict[str, Any]
    passages: tuple[Passage, ...]
    tokens: int
    costs: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    relaxed: bool = False
    total: int = 0
    problem: str = ""


class World:
    """The tools of a corpus, bounded and recorded.

    Attributes
    ----------
    turns : list of Turn
        What was asked so far.
    calls_left : int
    passages : int
        How many the corpus has.
    """

    def __init__(
        self,
        asked: Questions[Answer],
        *,
        calls_max: int = 6,
        tokens_max: int | None = None,
        answer_tokens: int = TOKENS_DEFAULT,
        passages: int = 1,
    ) -> None:
        self.asked, self.answer_tokens = asked, answer_tokens
        self.calls_left, self.tokens_left = calls_max, tokens_max
        self.turns: list[Turn] = []
        self.passages = passages
        self._contracts = {name: tool.contract for name, tool in corpus_tools(asked).items()}

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer to a valid call. Raises OutOfCallsError; ValueError and KeyError for a call
        that the tool refuses.
        """
        room = self.answer_tokens
        if self.tokens_left is not None:
            room = min(room, self.tokens_left)
        if self.calls_left < 1 or room < 256:
            raise OutOfCallsError
        self.calls_left -= 1
        given = self._contracts[tool].validate(dict(arguments)).value
        answer = answer_tool(self.asked, tool, {"max_tokens": room, **given})
        self.record(turn_of(tool, dict(arguments), answer))
        return answer

    def record(self, turn: Turn) -> None:
        """Counts a turn that was asked elsewhere (a peer's)."""
        self.turns.append(turn)
        if self.tokens_left is not None:
            self.tokens_left -= turn.tokens


def turn_of(tool: str, arguments: dict[str, Any], answer: Answer) -> Turn:
    """What a call showed, as the model gets it."""
    shown = told(answer)
    report = answer.report
    names = {item.chunk_id for item in answer.items}
    names |= {named.id for item in answer.items for named in item.entities}
    names |= {edge.to for item in answer.items for edge in item.related}
    names |= {line.id for line in answer.lines}
    return Turn(
        tool,
        arguments,
        tuple(passage for item in answer.items for passage in _passages(item)),
        tokens_of(shown),
        tuple(
            cost
            for item in shown["evidence"]
            for cost in (tokens_of(item), *(0 for _ in item.get("also", ())))
        ),
        frozenset(names),
        _absent(report),
        bool(answer.items) and all(item.relaxed for item in answer.items),
        report.total,
        "" if report.problem is None else report.problem.code,
    )


def _absent(report: Report) -> frozenset[str]:
    """The terms and names of which the answer tells that they are nowhere."""
    absent = {count.term for count in report.terms if count.df == 0}
    if report.no_hit is not None and report.no_hit.reason.startswith("unknown"):
        absent.update(report.no_hit.guilty)
    return frozenset(absent)


def _passages(item: Item) -> list[Passage]:
    """An item, and the other places that its text stands at."""
    own = Passage(
        *(item.path, item.span[0], item.span[1], item.excerpt, item.cut),
        id=item.chunk_id,
        section=item.section_id,
    )
    same = [Passage(s.path, *s.span, item.excerpt, item.cut, s.chunk_id) for s in item.also]
    return [own, *same]


Policy = Callable[[Task, World], bool]


def asked_model(
    model: Callable[[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]], Any],
) -> Policy:
    """The policy of a callable such as a language model's loop.

    ``model(question, call)`` asks by ``call(tool, arguments)``, which gives the answer as a model
    sees it (or ``{"status": "refused", ...}`` for arguments that are not valid), and returns its
    answer; None or "" abstains.
    """

    def policy(task: Task, world: World) -> bool:
        def call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            try:
                return told(world.call(tool, arguments))
            except (ValueError, KeyError) as error:
                return {"status": "refused", "message": str(error)}

        return bool(model(task.question, call))

    return policy
