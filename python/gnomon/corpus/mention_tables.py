"""Names that stand in tables whose header says what a column holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from . import names as n
from .mention_places import Mention, Places

_HEAD_WORD = re.compile(
    r"code|errno|sqlstate|symbol|error|option|parameter|variable|propert|setting|flag|name"
    r"|function|method|class",
    re.I,
)
_CELL_IDENTIFIER = re.compile(
    r"\s*(?:--)?([A-Za-z][\w.-]*[A-Za-z0-9])(\(\))?(?=\s*(?:,|\(|$|=|\n))"
)
_WORD = re.compile(r"(?:--)?[A-Za-z][\w-]*\w")
_SPELLING = re.compile(r"(?:--)?[A-Za-z][\w-]*|[A-Z][\w-]*(?: [\w-]+){1,3}")
_ERROR_NUMBER = re.compile(r"[1-9]\d{3}")
_STATE = re.compile(r"[0-9A-Z]{5}")


class Column(NamedTuple):
    """What the title of a table's column says: which names its cells may be."""

    options: bool  # by the title alone
    named: bool  # of options, where the section lists them
    parameters: bool
    functions: bool
    codes: bool
    states: bool


class Row(NamedTuple):
    """A cell of a table row: the atom, the column, its number, the text and where it stands."""

    atom: int
    number: int
    column: Column
    text: str
    start: int


class Tables:
    """Gathers what the tables of one document name; `defined` is what headings of sections do."""

    def __init__(self, places: Places, defined: Mapping[int, Mention]) -> None:
        self.places = places
        self.found: list[Mention] = []
        self.aliases: list[tuple[Mention, Mention]] = []
        self._defined = defined
        self._parameters: dict[str, str] = {}  # -> the function

    def cells(self) -> Iterator[Row]:
        """The cells, of tables whose header names one of the things that are looked for, that may
        be the name of one.
        """
        parsed = self.places.parsed
        wanted: list[tuple[int, Column]] = []
        header = False
        for number, atom in enumerate(parsed.atoms):
            if atom.kind != "table":
                continue
            if atom.header is None:
                titles = [cell.strip() for cell in parsed.text_of(number).split(" | ")]
                wanted = _wanted(tuple(titles)) if _HEAD_WORD.search(" ".join(titles)) else []
                header = True
                continue
            if not header or not wanted:
                continue
            cells = parsed.text_of(number).split(" | ")
            place = at = 0
            for column, sense in wanted:
                if column >= len(cells):
                    break
                while place < column:
                    at += len(cells[place]) + 3
                    place += 1
                yield Row(number, column, sense, cells[column], at)

    def find(self) -> None:
        """Fills `found` and `aliases`."""
        spans: dict[int, list[tuple[int, int, str, str]]] = {}
        for row in self.cells():
            options = row.number == 0 and self._option_table(row)
            if options and "," in row.text:
                self._alias_cell(row)
                continue
            kind, name = cell_kind(row, options)
            if kind == "option" and row.column.parameters:
                function = self._function_above(row.atom)
                if function:
                    kind = "parameter"
                    self._parameters[name] = function
            if kind:
                begin = row.start + row.text.find(name)
                spans.setdefault(row.atom, []).append((begin, begin + len(name), kind, name))
        for atom, found in spans.items():
            places = self.places.located(atom, [(a, b) for a, b, _, _ in found])
            for (start, end), (_, _, kind, name) in zip(places, found, strict=True):
                role = "defines" if kind in ("option", "error_code", "parameter") else "mentions"
                if kind == "parameter":
                    name = f"{self._parameters[name]}.{name}"
                self.found.append(Mention(kind, name, start, end, role))

    def _function_above(self, atom: int) -> str:
        """The function that the section of a table, or one above it, is about; "" for none."""
        index = self.places.section_at(self.places.starts[atom])
        while index >= 0:
            known = self._defined.get(index)
            if known is not None:
                return known.name.removesuffix("()") if known.type == "function" else ""
            index = self.places.sections[index].parent
        return ""

    def _alias_cell(self, row: Row) -> None:
        """A first cell like "SSL Mode, SslMode": the name without spaces, and its other
        spellings.
        """
        words = [m.span() for m in re.finditer(r"[^,\s][^,\n]*[^,\s]", row.text)]
        words = [(a, b) for a, b in words if _SPELLING.fullmatch(row.text[a:b])]
        main = next((i for i, (a, b) in enumerate(words) if _WORD.fullmatch(row.text[a:b])), None)
        if main is None:
            return
        places = self.places.located(row.atom, [(row.start + a, row.start + b) for a, b in words])
        found = [
            Mention("option", row.text[a:b], *place, "defines")
            for (a, b), place in zip(words, places, strict=True)
        ]
        self.found += found
        self.aliases += [(other, found[main]) for other in found if other is not found[main]]

    def _option_table(self, row: Row) -> bool:
        """Whether the first column of the table lists options, by its title or its section."""
        if row.column.options or not row.column.named:
            return row.column.options
        index = self.places.section_at(self.places.starts[row.atom])
        return any(map(lists_options, self.places.sections[index].path))


@lru_cache(maxsize=1 << 14)  # of headings, which sections below repeat
def lists_options(title: str) -> bool:
    return n.OPTION_PLACE.search(title) is not None


@lru_cache(maxsize=4096)
def _wanted(titles: tuple[str, ...]) -> list[tuple[int, Column]]:
    """The columns, by their titles, whose cells may be names."""
    found = []
    for number, title in enumerate(titles):
        title = title.lower()
        column = Column(
            options=bool(re.search(r"option|parameter|variable|propert|setting|flag", title)),
            named=bool(re.search(r"\bname\b", title)),
            parameters=bool(re.search(r"parameter|argument", title)),
            functions=bool(re.search(r"^(?:function|method)", title)),
            codes=bool(re.search(r"code|errno|number|^error", title)),
            states="state" in title,
        )
        first = number == 0 and (column.options or column.named or column.functions)
        if first or column.codes or column.states:
            found.append((number, column))
    return found


def cell_kind(row: Row, option_table: bool) -> tuple[str, str]:
    """The type and the name that a cell gives, or two empty strings."""
    text, column = row.text.strip(), row.column
    if column.codes and _ERROR_NUMBER.fullmatch(text):
        return "error_code", text
    if column.states and _STATE.fullmatch(text):
        return "sqlstate", text
    if row.number == 0 and option_table:
        found = _CELL_IDENTIFIER.match(row.text)
        if found and not found[2] and "." not in found[1] and not found[1].isupper():
            return "option", found[1]
    if row.number == 0 and column.functions:
        found = _CELL_IDENTIFIER.match(row.text)
        if found:
            return "function", found[1]
    return "", ""
