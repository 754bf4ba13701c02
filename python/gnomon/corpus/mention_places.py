"""A document's places: what stands where, and how rendered text is found in raw bytes again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from .. import _core
from .assemble import Draft, SectionDraft
from .builder import Parsed


class Mention(NamedTuple):
    """A name in the document; offsets are those of the parser's input."""

    type: str
    name: str
    start: int
    end: int
    role: str = "mentions"


class Places:
    """One document, by places."""

    def __init__(
        self, parsed: Parsed, sections: Sequence[SectionDraft], drafts: Sequence[Draft]
    ) -> None:
        self.parsed = parsed
        self.sections = sections
        self.drafts = drafts
        self.starts = [atom.start for atom in parsed.atoms]
        self.section_starts = [section.start for section in sections]
        self.code_starts = [start for start, _ in parsed.codes]
        self.links = sorted(parsed.links, key=lambda link: link.start)
        self.link_starts = [link.start for link in self.links]

    def section_at(self, place: int) -> int:
        """The section of a place, -1 before the first."""
        return bisect_right(self.section_starts, place) - 1

    def kind_at(self, place: int) -> str:
        """The kind of the atom at a place: prose, list, table, code, ..."""
        index = bisect_right(self.starts, place) - 1
        return self.parsed.atoms[index].kind if index >= 0 else "prose"

    def in_code_span(self, place: int) -> bool:
        index = bisect_right(self.code_starts, place) - 1
        return index >= 0 and place < self.parsed.codes[index][1]

    def link_at(self, place: int) -> str:
        """Where the link leads whose text stands at a place; "" for none."""
        index = bisect_right(self.link_starts, place) - 1
        return self.links[index].url if index >= 0 and place < self.links[index].end else ""

    def located(self, atom: int, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Raw bytes of character spans of an atom's text."""
        parsed = self.parsed
        base = parsed.atoms[atom].start
        marks = None
        if not parsed.verbatim:
            after = parsed.atoms[atom + 1].mark_at if atom + 1 < len(parsed.atoms) else None
            marks = parsed.marks[parsed.atoms[atom].mark_at + 3 : after]
        return _core.locate_spans(parsed.text_of(atom), marks, base, spans)
