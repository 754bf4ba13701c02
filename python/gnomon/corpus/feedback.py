"""What exploring a corpus says about the corpus: gaps and contradictions, kept in a file.

A *gap* is a question that the corpus could not answer as asked; the answer's report says by which
words. A *contradiction* is two passages that cannot both hold. Both add up to a list of documents
to process again, label or complete (`reprocessing_list`): the most often met first, with the
reasons. Nothing here changes the corpus; `gnomon.corpus.CorpusIndex.update` does when it is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from .._lock import Lock
from .answers import Answer, Item
from .kept_file import load, save

FORMAT, VERSION = "gnomon-feedback", 1
ENTRIES_MAX = 100_000
TEXT_MAX = 2_000

Kind = Literal["gap", "contradiction"]


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A passage as feedback names it: it outlives the index's next generation."""

    source: str
    path: str
    revision: str = ""
    chunk_id: str = ""

    @classmethod
    def of(cls, item: Item) -> Place:
        """The place of an item of an answer."""
        return cls(item.source, item.path, item.revision, item.chunk_id)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gap or a contradiction; `count` is how often it was met.

    `about` is the question or the claim, `reason` why it is a gap (``NoHit.reason``, "relaxed"
    where only relaxed passages came, "reported") and `terms` the words that are to blame.
    """

    kind: Kind
    about: str
    reason: str
    terms: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    note: str = ""
    count: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """Entries of one key are one entry."""
        where = tuple(sorted((p.source, p.path, p.chunk_id) for p in self.places))
        return self.kind, self.about, self.reason, where if self.kind == "contradiction" else ()


class Todo(msgspec.Struct, frozen=True):
    """A document to look at again; `path` is "" where no document is known to be the place."""

    source: str
    path: str
    count: int
    reasons: tuple[str, ...]


class Feedback:
    """The gaps and contradictions of one corpus, in the file `path`.

    Each record is written at once, under a lock; ValueError for a damaged file, BlockingIOError
    while another process writes.

    >>> feedback = Feedback("feedback.json")
    >>> feedback.contradiction("default of max_size", Place("docs", "a.md"), Place("docs", "b.md"))
    >>> [(todo.path, todo.count) for todo in reprocessing_list(feedback.entries())]
    [('a.md', 1), ('b.md', 1)]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def entries(self) -> list[Entry]:
        """All entries, in the order in which they were first met; [] before the first."""
        try:
            body = load(self.path, FORMAT, VERSION)
        except FileNotFoundError:
            return []
        try:
            return msgspec.convert(body, list[Entry])
        except msgspec.ValidationError as error:
            raise ValueError(f"{self.path} is damaged: {error}; restore it") from error

    def gap(self, answer: Answer, note: str = "") -> bool:
        """Keeps an answer that did not answer its question as asked; False if it did."""
        entry = gap_of(answer, note)
        if entry is None:
            return False
        self._add([entry])
        return True

    def gaps(self, answers: Iterable[Answer]) -> int:
        """Keeps all gaps among answers, such as those of a session; how many they were."""
        found = [entry for answer in answers if (entry := gap_of(answer)) is not None]
        if found:
            self._add(found)
        return len(found)

    def contradiction(
        self, about: str, one: Item | Place, other: Item | Place, note: str = ""
    ) -> None:
        """Keeps that two passages contradict each other on something."""
        places = tuple(
            place if isinstance(place, Place) else Place.of(place) for place in (one, other)
        )
        if places[0] == places[1]:
            raise ValueError("a contradiction needs two passages, got the same one twice")
        about, note = _short(about, "about"), note[:TEXT_MAX]
        self._add([Entry("contradiction", about, "reported", places=places, note=note)])

    def clear(self, done: Iterable[Todo]) -> int:
        """Drops the entries whose documents are all among `done`; how many they were."""
        places = {(todo.source, todo.path) for todo in done}

        def open_still(entry: Entry) -> bool:
            named = {(place.source, place.path) for place in entry.places} or {("", "")}
            return not named <= places

        return self._change(lambda entries: [one for one in entries if open_still(one)])

    def _add(self, new: list[Entry]) -> None:
        def added(entries: list[Entry]) -> list[Entry]:
            kept = {entry.key: entry for entry in entries}
            for entry in new:
                known = kept.get(entry.key)
                if known is not None:
                    places = tuple(dict.fromkeys((*known.places, *entry.places)))[:20]
                    entry = msgspec.structs.replace(
                        entry, count=known.count + entry.count, places=places
                    )
                kept[entry.key] = entry
            if len(kept) > ENTRIES_MAX:
                raise ValueError(f"{self.path} has {ENTRIES_MAX} entries; work them off and clear")
            return list(kept.values())

        self._change(added)

    def _change(self, change: Any) -> int:
        lock = Lock(self.path.with_name(f".{self.path.name}.lock"), self.path)
        try:
            before = self.entries()
            after = change(before)
            save(self.path, FORMAT, VERSION, msgspec.to_builtins(after))
        finally:
            lock.release()
        return len(before) - len(after)


def gap_of(answer: Answer, note: str = "") -> Entry | None:
    """The gap that an answer shows; None where it answered as asked, or was asked wrongly."""
    report = answer.report
    if report.problem is not None or report.cursor:
        return None
    exact = [item for item in answer.items if not item.relaxed]
    if exact or answer.lines or not report.query:
        return None
    reason = "relaxed" if report.no_hit is None else report.no_hit.reason
    if reason in ("scope", "empty_query", "exhausted_cursor"):
        return None  # says something about the question, nothing about the corpus
    terms = [count.term for count in report.terms if count.df == 0]
    if report.no_hit is not None:
        terms += [clause for clause in report.no_hit.guilty if clause not in terms]
    places = tuple(dict.fromkeys(Place.of(item) for item in answer.items))[:5]
    return Entry("gap", report.query[:TEXT_MAX], reason, tuple(terms[:20]), places, note[:TEXT_MAX])


def reprocessing_list(
    entries: Iterable[Entry], left_out: Mapping[str, Iterable[tuple[str, str]]] | None = None
) -> list[Todo]:
    """The documents that the entries point to, those met most often first.

    A contradiction points to both documents, a gap to those of its relaxed passages; a gap without
    any is a line of its own with an empty path: something to be added to the corpus. `left_out`
    maps a source to the (path, reason) of files that were not indexed: one whose path has a word
    of a gap is listed as well, because the answer may stand there.
    """
    counts: dict[tuple[str, str], int] = {}
    reasons: dict[tuple[str, str], dict[str, None]] = {}

    def add(place: tuple[str, str], entry: Entry, why: str) -> None:
        counts[place] = counts.get(place, 0) + entry.count
        reasons.setdefault(place, {})[why] = None

    for entry in entries:
        why = f"{entry.kind}: {entry.about}"
        if entry.terms:
            why += f" ({entry.reason}: {', '.join(entry.terms)})"
        named = {(place.source, place.path) for place in entry.places}
        for place in sorted(named) or [("", "")]:
            add(place, entry, why)
        for source, files in (left_out or {}).items():
            for path, reason in files:
                if any(term.casefold() in path.casefold() for term in entry.terms if len(term) > 3):
                    add((source, path), entry, f"{why}; not indexed: {reason}")
    return [
        Todo(*place, counts[place], tuple(reasons[place]))
        for place in sorted(counts, key=lambda place: (-counts[place], place))
    ]


def _short(text: str, name: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} must say what it is about, got {text!r}")
    return text[:TEXT_MAX]
