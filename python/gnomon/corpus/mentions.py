"""Finds the names in a document: where they stand, what they are, and whether they are defined.

Everything is deterministic and every mention has its raw bytes. Names come from the parser (code,
properties, reStructuredText roles), from headings, from tables whose header says what a column
holds, and from patterns over the rendered text (`gnomon.corpus.names`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from .. import _core
from . import names as n
from .assemble import Draft, SectionDraft
from .builder import Parsed
from .words import hits_of


class Mention(NamedTuple):
    """A name in the document; offsets are those of the parser's input."""

    type: str
    name: str
    start: int
    end: int
    role: str = "mentions"


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


_HEAD_WORD = re.compile(
    r"code|errno|sqlstate|symbol|error|option|parameter|variable|propert|setting|flag|name"
    r"|function|method|class",
    re.I,
)
_CELL_IDENTIFIER = re.compile(
    r"\s*(?:--)?([A-Za-z][\w.-]*[A-Za-z0-9])(\(\))?(?=\s*(?:,|\(|$|=|\n))"
)
_DEFINITION = re.compile(r"^[ \t]*(?:[`*_]*)([A-Za-z][\w.-]*\w)\b")
_WORD = re.compile(r"(?:--)?[A-Za-z][\w-]*\w")
_SPELLING = re.compile(r"(?:--)?[A-Za-z][\w-]*|[A-Z][\w-]*(?: [\w-]+){1,3}")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*(?:\(\))?")
_ERROR_TITLE = re.compile(r"^Error (\d{4})\b")
_ERROR_NUMBER = re.compile(r"[1-9]\d{3}")
_STATE = re.compile(r"[0-9A-Z]{5}")
_NOUN_BEGINS = frozenset("`'\"]( ")  # of names.FUNCTION_NOUN


class Finder:
    """Gathers the mentions of one document; `find` returns them in order of their place."""

    def __init__(
        self, parsed: Parsed, sections: Sequence[SectionDraft], drafts: Sequence[Draft]
    ) -> None:
        self.parsed = parsed
        self.sections = sections
        self.drafts = drafts
        self.found: list[Mention] = []
        self.starts = [atom.start for atom in parsed.atoms]
        self.section_starts = [section.start for section in sections]
        self.code_starts = [start for start, _ in parsed.codes]
        self.links = sorted(parsed.links, key=lambda link: link.start)
        self.link_starts = [link.start for link in self.links]
        self.option_sections = [any(map(_lists_options, section.path)) for section in sections]
        self.titled: set[int] = set()  # where headings define something
        self.defined: dict[int, Mention] = {}  # section -> what its heading defines
        self.parameters: dict[str, str] = {}  # of tables -> the function
        self.aliases: list[tuple[Mention, Mention]] = []
        self._about_env: bool | None = None

    def find(self) -> list[Mention]:
        for name in self.parsed.names:
            self.found.append(Mention(*name))
        if not self.parsed.verbatim or self.parsed.language == "":
            self._headings()
            self._tables()
        for draft in self.drafts:
            if draft.text:
                self._chunk(draft)
        return self._settled()

    # --- places ---

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

    def _add(self, kind: str, name: str, start: int, end: int, role: str = "mentions") -> None:
        self.found.append(Mention(kind, name, start, end, role))

    def _located(self, atom: int, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Raw bytes of character spans of an atom's text."""
        parsed = self.parsed
        base = parsed.atoms[atom].start
        marks = None
        if not parsed.verbatim:
            after = parsed.atoms[atom + 1].mark_at if atom + 1 < len(parsed.atoms) else None
            marks = parsed.marks[parsed.atoms[atom].mark_at + 3 : after]
        return _core.locate_spans(parsed.text_of(atom), marks, base, spans)

    # --- headings ---

    def _headings(self) -> None:
        for number, section in enumerate(self.sections):
            heading = section.heading
            if heading is None:
                continue
            title = self.parsed.text_of(heading.atom)
            kind, begin, end = self._heading_kind(number, title)
            if kind:
                [(start, stop)] = self._located(heading.atom, [(begin, end)])
                if kind == "option?":  # a plain word counts when it is written as code
                    if not self.in_code_span(start):
                        continue
                    kind = "option"
                self.titled.add(start)
                self._add(kind, title[begin:end], start, stop, "defines")
                self.defined[number] = self.found[-1]

    def _heading_kind(self, number: int, title: str) -> tuple[str, int, int]:
        """What the heading defines, if it is the name of something: ("", 0, 0) otherwise."""
        nothing = ("", 0, 0)
        error = _ERROR_TITLE.match(title)
        if error:
            return ("error_code", *error.span(1))
        begin = len(title) - len(title.lstrip())
        words = title.split()
        if not words:
            return nothing
        end = begin + len(words[0])
        word = words[0]
        if len(words) > 1 and not (len(words) == 2 and words[1].strip("()").lower() in _NOUNS):
            return nothing
        noun = words[1].strip("()").lower() if len(words) == 2 else ""
        if noun in ("method", "function", "constructor") and _DOTTED.fullmatch(word):
            return "function", begin, end
        if word.endswith("()") and n.IDENTIFIER.fullmatch(word[:-2].replace(".", "")):
            return "function", begin, end - 2
        if not n.IDENTIFIER.fullmatch(word) or n.FILE_END.search(title):
            return nothing
        if re.fullmatch(r"(?:ER|CR|EE|WARN)_[A-Z0-9_]+", word):
            return "error_symbol", begin, end
        if noun in ("class", "exception", "interface", "enum"):
            return "class", begin, end
        section = self.sections[number]
        above = section.path[:-1]
        if re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", word):
            named = any(map(_lists_env, above))
            return ("env_var", begin, end) if named else nothing
        listed = any(map(_lists_options, above))
        shaped = "_" in word or word.startswith("--") or re.search(r"[a-z][A-Z]", word)
        if shaped and (listed or noun in _OPTION_NOUNS):
            return "option", begin, end
        if listed or noun in _OPTION_NOUNS:
            return "option?", begin, end
        if shaped and "_" in word and word.islower():
            return "identifier", begin, end
        return nothing

    # --- tables ---

    def cells(self) -> Iterator[Row]:
        """The cells, of tables whose header names one of the things that are looked for, that may
        be the name of one.
        """
        parsed = self.parsed
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

    def _tables(self) -> None:
        spans: dict[int, list[tuple[int, int, str, str]]] = {}
        for row in self.cells():
            options = row.number == 0 and self._option_table(row)
            if options and "," in row.text:
                self._alias_cell(row)
                continue
            kind, name = _cell_kind(row, options)
            if kind == "option" and row.column.parameters:
                function = self._function_above(row.atom)
                if function:
                    kind = "parameter"
                    self.parameters[name] = function
            if kind:
                begin = row.start + row.text.find(name)
                spans.setdefault(row.atom, []).append((begin, begin + len(name), kind, name))
        for atom, found in spans.items():
            places = self._located(atom, [(a, b) for a, b, _, _ in found])
            for (start, end), (_, _, kind, name) in zip(places, found, strict=True):
                role = "defines" if kind in ("option", "error_code", "parameter") else "mentions"
                if kind == "parameter":
                    name = f"{self.parameters[name]}.{name}"
                self._add(kind, name, start, end, role)

    def _function_above(self, atom: int) -> str:
        """The function that the section of a table, or one above it, is about; "" for none."""
        index = bisect_right(self.section_starts, self.starts[atom]) - 1
        while index >= 0:
            known = self.defined.get(index)
            if known is not None:
                return known.name.removesuffix("()") if known.type == "function" else ""
            index = self.sections[index].parent
        return ""

    def _alias_cell(self, row: Row) -> None:
        """A first cell like "SSL Mode, SslMode": the name without spaces, and its other"
        " spellings.
        """
        words = [m.span() for m in re.finditer(r"[^,\s][^,\n]*[^,\s]", row.text)]
        words = [(a, b) for a, b in words if _SPELLING.fullmatch(row.text[a:b])]
        main = next((i for i, (a, b) in enumerate(words) if _WORD.fullmatch(row.text[a:b])), None)
        if main is None:
            return
        places = self._located(row.atom, [(row.start + a, row.start + b) for a, b in words])
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
        place = self.starts[row.atom]
        index = bisect_right(self.section_starts, place) - 1
        return self.option_sections[index]

    # --- text ---

    def _chunk(self, draft: Draft) -> None:
        text = draft.text
        hits = hits_of(text)
        if not hits:
            return
        marks, starts, atoms = draft.marks, self.starts, self.parsed.atoms
        places = _core.locate_spans(text, marks, draft.start, hits)
        self._about_env = None
        example = "mentions" if self.parsed.language else "example"
        code, low, high = False, 0, -1  # of the atom [low, high)
        for (begin, end, group), (start, stop) in zip(hits, places, strict=True):
            if not low <= start < high:
                index = bisect_right(starts, start)
                code = index > 0 and atoms[index - 1].kind == "code"
                low = starts[index - 1] if index > 0 else 0
                high = starts[index] if index < len(starts) else len(self.parsed.data) + 1
            kind = _FIXED.get(group)
            if kind is None:
                kind = self._kind(group, text, begin, end, start, code)
            if kind:
                role = example if code else "mentions"
                self._add(kind, text[begin:end], start, stop, role)
            elif group == "install" and (code or self.in_code_span(start)):
                found = n.INSTALL.search(text, max(begin - 16, 0))
                if found is not None:
                    self._packages(draft, text, found.end())

    def _of_env(self, text: str) -> bool:
        """Whether the text of the chunk at hand speaks of environment variables."""
        if self._about_env is None:
            self._about_env = n.ENV_PLACE.search(text) is not None
        return self._about_env

    def _packages(self, draft: Draft, text: str, at: int) -> None:
        while (word := n.PACKAGE_WORDS.match(text, at)) is not None:
            [(start, stop)] = _core.locate_spans(
                text, draft.marks, draft.start, [word.span("name")]
            )
            if self.kind_at(start) != "code" and not self.in_code_span(start):
                return
            self._add("package", word["name"], start, stop)
            at = word.end()

    def _kind(self, group: str, text: str, begin: int, end: int, place: int, code: bool) -> str:
        """The type of the entity that a token is; "" for none."""
        if group == "number":
            return "version" if n.after_product(text, begin) else ""
        if group == "ticket":
            return "issue" if n.BUG_WORD.search(text[max(begin - 12, 0) : begin]) else ""
        if group == "env":
            return "env_var" if code or "_" in text[begin:end] or self._of_env(text) else ""
        if group == "assigned":
            return "option" if code and not self.parsed.language and _ini(text, begin) else ""
        sign = text[end : end + 1]
        if place in self.titled or (sign == "." and n.FILE_END.match(text, end)):
            return ""
        if code and group == "upper" and sign == "=":
            start = n.SHELL_START.search(text[max(begin - 8, 0) : begin])
            return "env_var" if start else ""
        if code or group == "method":
            return (
                "function"
                if sign == "(" and not n.NOT_CALLED.search(text[max(begin - 14, 0) : begin])
                else ""
            )
        if group != "upper" and sign in _NOUN_BEGINS and n.FUNCTION_NOUN.match(text, end):
            return "function"
        if n.after_package(text, begin):
            return "package"
        if group == "pascal" and n.CLASS_BEFORE.search(text[max(begin - 24, 0) : begin]):
            return "class"
        if sign == "(":
            return "function" if group != "upper" or self.in_code_span(place) else ""
        if group == "upper":
            return self._upper(text, end, place)
        return self._identifier(group, text, begin, end, place)

    def _upper(self, text: str, end: int, place: int) -> str:
        """What a name in capitals with underscores is, outside of code blocks."""
        if n.ERROR_NOUN.match(text, end):
            return "error_symbol"
        noun = n.OPTION_NOUN.match(text, end) is not None
        if not noun and self.in_code_span(place) and self._of_env(text):
            return "env_var"
        assigned = text.startswith("=", end) and text[end + 1 : end + 2].isalnum()
        return "option" if noun or assigned else ""

    def _identifier(self, group: str, text: str, begin: int, end: int, place: int) -> str:
        if text.startswith("=", end) and not text.startswith("==", end):
            return "option"
        noun = n.OPTION_NOUN.match(text, end) or n.noun_before(text, begin)
        if group == "pascal" and noun and "propert" in noun[0]:
            noun = None  # a property of a class
        if noun:
            return "option" if group != "pascal" or self.in_code_span(place) else ""
        url = self.link_at(place) if self.links else ""
        if url and n.OPTION_LINK.search(url):
            return "option"
        if url and group != "pascal" and n.FUNCTION_LINK.search(url):
            return "function"
        if group == "pascal":
            if not self.in_code_span(place):
                return ""
            return "class" if n.CLASS_END.search(text, begin, end) else "identifier"
        if group in ("camel", "mixed") and not self.in_code_span(place):
            return ""
        return "identifier"

    # --- the whole document ---

    def _settled(self) -> list[Mention]:
        """One mention per place and name; identifiers that are options elsewhere become options."""
        options = {n.normalise("option", m.name) for m in self.found if m.type == "option"}
        classes = {n.normalise("class", m.name) for m in self.found if m.type == "class"}
        best: dict[tuple[int, int], Mention] = {}
        for mention in self.found:
            if mention.type == "identifier":
                word = n.normalise("identifier", mention.name)
                if word in options:
                    mention = mention._replace(type="option")
                elif word in classes:
                    mention = mention._replace(type="class")
            place = mention.start, mention.end
            known = best.get(place)
            if known is None or (_rank(mention) < _rank(known)):
                best[place] = mention
        return sorted(best.values(), key=lambda m: (m.start, m.end))


_OPTION_NOUNS = frozenset({"option", "parameter", "property", "setting", "variable"})
_NOUNS = _OPTION_NOUNS | frozenset(
    {"class", "exception", "interface", "enum", "method", "function", "constructor"}
)
_FIXED = {
    "symbol": "error_symbol", "call": "function", "exception": "class", "issue": "issue",
    "error": "error_code", "sqlstate": "sqlstate", "state": "sqlstate",
    "bare": "version", "dashed": "version", "setenv": "env_var",
    "flag": "option", "atvar": "option", "set": "option", "install": "",
    "import": "package", "from": "package", "require": "package", "es": "package",
    "using": "package",
}  # fmt: skip
_ORDER = {"defines": 0, "example": 1, "mentions": 1}


def _rank(mention: Mention) -> tuple[int, int]:
    return (
        _ORDER.get(mention.role, 2),
        n.TYPES.index(mention.type) if mention.type in n.TYPES else 0,
    )


def _ini(text: str, place: int) -> bool:
    """Whether the line stands under an ini section or is an assignment without spaces in"
    " lower case.
    """
    before = text.rfind("\n[", 0, place)
    return before >= 0 or text.startswith("[")


@lru_cache(maxsize=1 << 14)  # of headings, which sections below repeat
def _lists_options(title: str) -> bool:
    return n.OPTION_PLACE.search(title) is not None


@lru_cache(maxsize=1 << 14)
def _lists_env(title: str) -> bool:
    return n.ENV_PLACE.search(title) is not None


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


def _cell_kind(row: Row, option_table: bool) -> tuple[str, str]:
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
