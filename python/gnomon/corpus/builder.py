"""What every parser fills: text pieces with their raw bytes, atoms, headings and links.

An *atom* is a part that chunks do not split unless it is too long: a paragraph, a list item, a
table row, a fence. Atoms follow each other; what stands between two of them belongs to the first.
All offsets count bytes of the parser's input (`gnomon.corpus.source_text`).
"""

from __future__ import annotations

from typing import NamedTuple


class Atom(NamedTuple):
    """One atom: where it begins, its kind, and where its pieces begin in `texts` and `marks`."""

    start: int
    kind: str
    text_at: int
    mark_at: int
    info: str = ""
    header: tuple[int, int] | None = None


class Heading(NamedTuple):
    """A heading that opens a section; `atom` is the index of its atom."""

    atom: int
    level: int
    start: int
    end: int
    title: str
    anchor: str = ""
    kind: str = "heading"


class Link(NamedTuple):
    """A link and the bytes that spell it."""

    url: str
    start: int
    end: int


class Name(NamedTuple):
    """An entity that the parser itself saw."""

    type: str
    name: str
    start: int
    end: int
    role: str = "mentions"


class Edge(NamedTuple):
    """A relation that the parser itself saw, between keys of nodes."""

    type: str
    source: str
    target: str
    start: int
    end: int


class Parsed:
    """The result of a parser, and the tool to fill it.

    `texts` are pieces of rendered text; `marks` their flat triples (skip, length, width) as in
    `gnomon.corpus.rawmap`, with `last` the raw byte behind the last piece. `codes` are the spans of
    code inside prose.
    """

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.texts: list[str] = []
        self.marks: list[int] = []
        self.last = start
        self.atoms: list[Atom] = []
        self.headings: list[Heading] = []
        self.links: list[Link] = []
        self.codes: list[tuple[int, int]] = []
        self.anchors: list[tuple[str, int]] = []
        self.meta: dict[str, str] = {}
        self.problems: list[str] = []
        self.verbatim = False  # the text of every atom is its raw bytes: no pieces are kept
        self.names: list[Name] = []
        self.edges: list[Edge] = []
        self.language = ""
        # The header row of an HTML table: Markdown parts the table where a line is blank.
        self.table_head: tuple[int, int] | None = None

    def atom(
        self, start: int, kind: str, info: str = "", header: tuple[int, int] | None = None
    ) -> None:
        """Begins an atom. One that shows nothing yet gives way to it but keeps its start."""
        atoms, texts, last = self.atoms, self.texts, self.last
        if start < last:
            start = last
        if atoms:
            before = atoms[-1]
            if len(texts) == before.text_at + 1 and before.kind != "heading":
                atoms[-1] = Atom(before.start, kind, before.text_at, before.mark_at, info, header)
                return
        atoms.append(Atom(start, kind, len(texts), len(self.marks), info, header))
        texts.append("\n")
        self.marks += (0, start - last, 1)
        self.last = start

    def verbatim_atom(self, start: int, kind: str, info: str = "") -> None:
        """Begins an atom of a document that is shown as it is."""
        self.atoms.append(Atom(start, kind, 0, 0, info))

    def copy(self, start: int, end: int) -> None:
        """Adds the bytes [start, end) as they are."""
        if end > start:
            self.texts.append(self.data[start:end].decode("utf-8"))
            if start == self.last and self.marks and self.marks[-1] == -1:
                self.marks[-2] += end - start
            else:
                self.marks += (start - self.last, end - start, -1)
            self.last = end

    def put(self, start: int, end: int, text: str) -> None:
        """Adds `text`, which the bytes [start, end) stand for as one piece."""
        if text:
            self.texts.append(text)
            self.marks += (start - self.last, end - start, len(text.encode("utf-8")))
            self.last = end

    def text_of(self, atom: int) -> str:
        """The rendered text of an atom."""
        if self.verbatim:
            begin = self.atoms[atom].start
            end = self.atoms[atom + 1].start if atom + 1 < len(self.atoms) else len(self.data)
            return self.data[begin:end].decode("utf-8")
        first = self.atoms[atom].text_at + 1
        after = self.atoms[atom + 1].text_at if atom + 1 < len(self.atoms) else len(self.texts)
        return "".join(self.texts[first:after])

    def heading(
        self, level: int, start: int, end: int, title: str = "", anchor: str = "", kind: str = ""
    ) -> None:
        """Declares the last atom to be a heading; without a title its text is the title."""
        atom = len(self.atoms) - 1
        title = " ".join((title or self.text_of(atom)).split())
        self.headings.append(Heading(atom, level, start, end, title, anchor, kind or "heading"))
