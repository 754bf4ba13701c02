"""HTML pages, and HTML inside Markdown, with exact byte places.

A scanner over the bytes: html.parser takes quadratic time on markup that is never closed and counts
lines and columns of text, lxml gives no places. A search that fails is not repeated, so the cost is
linear whatever the page.

>>> parsed = parse_html(b"<h2 id=x>A &amp; B</h2><p>One <b>two</b>")
>>> parsed.headings[0].title, parsed.headings[0].anchor, parsed.text_of(1)
('A & B', 'x', 'One two')
"""

from __future__ import annotations

import html
import re

from .builder import Link, Parsed

_TOKEN = re.compile(
    rb"<(?P<close>/?)(?P<name>[A-Za-z][^\s/><]*)|(?P<other><!--|<[!?/])"
    rb"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?"
)
_ATTRIBUTE = re.compile(rb"([A-Za-z_:][\w:.-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'=<`]+))")
_SPACES = re.compile(rb"[ \t\r\n\f]{2,}|[\t\r\n\f]")
_QUOTE = re.compile(rb"=\s*([\"'])|>")
_BLOCKS = frozenset(
    b"""address article aside blockquote body caption dd details dialog div dl dt fieldset
    figcaption figure footer form head header hr html legend li main nav ol optgroup option p pre
    section select summary table tbody tfoot thead title tr ul""".split()
)
_HIDDEN = {
    name: re.compile(rb"</" + name + rb"(?=[\s/>])", re.IGNORECASE)
    for name in (b"script", b"style", b"template")
}
_ATOM_KIND = {b"li": "list", b"dt": "list", b"dd": "list", b"tr": "table", b"pre": "code"}
_ATOM_KIND[b"thead"] = "table"
_WITH_ATTRIBUTES = frozenset({b"a", b"img", b"pre", b"code", b"link"})


def parse_html(data: bytes, start: int = 0) -> Parsed:
    """The page in `data` (UTF-8) from `start` on, where a byte order mark ends."""
    parsed = Parsed(data, start)
    render_html(parsed, start, len(data), page=True)
    return parsed


def render_html(parsed: Parsed, start: int, end: int, page: bool) -> None:
    """Adds what the markup in [start, end) shows; `page` says that it is a whole document."""
    _Scanner(parsed, start, end, page).run()


class _Scanner:
    def __init__(self, parsed: Parsed, start: int, end: int, page: bool) -> None:
        self.parsed = parsed
        self.data = parsed.data
        self.at = start
        self.end = end
        self.page = page
        self.pending: tuple[int, str, str] | None = (start, "prose", "")  # the next atom
        self.preformatted = 0
        self.row = False  # inside a table row, which stays one atom
        self.cell = False  # a cell of it was shown
        self.heading = 0
        self.heading_start = 0
        self.anchor = ""
        self.title_at = -1
        self.link: tuple[str, int] | None = None
        self.row_start = start
        self.titles = False  # the row has <th>
        self.separator: tuple[int, str] | None = None
        self.absent: set[bytes] = set()
        self.quotes = True

    def run(self) -> None:
        data, end = self.data, self.end
        search = _TOKEN.search
        while (token := search(data, self.at, end)) is not None:
            begin = token.start()
            if begin > self.at:
                self._text(self.at, begin)
            if token["name"] is not None:
                close = self._tag_end(token.end())
                if close < 0:
                    self._copy(begin, begin + 1)
                    self.at = begin + 1
                else:
                    self.at = close
                    self._tag(token["name"].lower(), bool(token["close"]), begin, close)
            elif token["other"] is not None:
                stop = self._find(b"-->" if token["other"] == b"<!--" else b">", token.end())
                if stop < 0:
                    self._copy(begin, begin + 1)
                    self.at = begin + 1
                else:
                    self.at = stop
            else:
                self.at = token.end()
                self._reference(begin, token.end())
        if end > self.at:
            self._text(self.at, end)

    def _find(self, what: bytes, start: int) -> int:
        """The place behind the next `what`, or -1."""
        found = -1 if what in self.absent else self.data.find(what, start, self.end)
        if found < 0:
            self.absent.add(what)
            return -1
        return found + len(what)

    def _tag_end(self, at: int) -> int:
        """The place behind the ``>`` that ends a tag, one in quotes aside; -1 for none."""
        first = self._find(b">", at)
        if first < 0 or not self.quotes:
            return first
        if b'"' not in self.data[at:first] and b"'" not in self.data[at:first]:
            return first
        place = at
        while (found := _QUOTE.search(self.data, place, self.end)) is not None:
            if found[1] is None:
                return found.end()
            closing = self._find(found[1], found.end())
            place = closing if closing >= 0 else found.end()
        self.quotes = False
        return first

    # --- text ---

    def _show(self) -> None:
        """Opens the atom or the separator that the next text needs."""
        if self.pending is not None:
            place, kind, info = self.pending
            header = self.parsed.table_head if kind == "table" else None
            self.parsed.atom(place, kind, info, header)
            self.pending = self.separator = None
        elif self.separator is not None:
            _, words = self.separator
            self.parsed.put(self.parsed.last, self.parsed.last, words)
            self.separator = None

    def _text(self, begin: int, end: int) -> None:
        data = self.data
        if self.preformatted:
            self._copy(begin, end)
            return
        if self.pending is not None or self.separator is not None:
            stripped = data[begin:end].lstrip(b" \t\r\n\f")
            if not stripped:
                return
            begin = end - len(stripped)
        self._show()
        at = begin
        for space in _SPACES.finditer(data, begin, end):
            self.parsed.copy(at, space.start())
            self.parsed.put(space.start(), space.end(), " ")
            at = space.end()
        self.parsed.copy(at, end)

    def _copy(self, begin: int, end: int) -> None:
        self._show()
        self.parsed.copy(begin, end)

    def _reference(self, begin: int, end: int) -> None:
        source = self.data[begin:end].decode("utf-8")
        shown = html.unescape(source)
        self._show()
        if shown == source:
            self.parsed.copy(begin, end)
        elif shown.isprintable() or shown.isspace():
            self.parsed.put(begin, end, shown.replace("\xa0", " "))
        else:  # a reference to a control character or a surrogate
            self.parsed.put(begin, end, "\ufffd")

    # --- tags ---

    def _attributes(self, begin: int, end: int) -> dict[bytes, str]:
        found = {}
        for name, double, single, bare in _ATTRIBUTE.findall(
            self.data, begin, min(end, begin + 8192)
        ):
            value = (double or single or bare).decode("utf-8", "replace")
            found[name.lower()] = html.unescape(value)
        return found

    def _tag(self, name: bytes, closing: bool, begin: int, end: int) -> None:
        attributes: dict[bytes, str] = {}
        if not closing:
            source = self.data[begin:end]
            if name in _WITH_ATTRIBUTES or b"id=" in source or b"name=" in source:
                attributes = self._attributes(begin, end)
                anchor = attributes.get(b"id") or (name == b"a" and attributes.get(b"name")) or ""
                if anchor:
                    self.parsed.anchors.append((anchor, begin))
        if name in _HIDDEN and not closing:
            if not self.data.startswith(b"/>", end - 2):
                hidden = _HIDDEN[name].search(self.data, end, self.end)
                self.at = hidden.start() if hidden else self.end
        elif len(name) == 2 and name[:1] == b"h" and name[1:] in b"123456":
            self._heading_tag(int(name[1:]), closing, begin, end, attributes)
        elif name == b"br":
            self._show()
            self.parsed.put(begin, end, "\n")
        elif name == b"a":
            self._anchor_tag(closing, attributes, begin, end)
        elif name in (b"td", b"th"):
            if not closing:
                self._cell()
                self.titles |= name == b"th"
        elif name in _BLOCKS:
            self._block_tag(name, closing, begin, end, attributes)
        elif name == b"code" and self.preformatted and not closing and self.pending:
            self.pending = (self.pending[0], "code", _language(attributes) or self.pending[2])
        elif name == b"img" and attributes.get(b"src"):
            self.parsed.links.append(Link(attributes[b"src"], begin, end))
        elif name == b"link" and attributes.get(b"rel") == "canonical":
            self.parsed.meta.setdefault("url", attributes.get(b"href", ""))

    def _cell(self) -> None:
        if self.row and self.cell and self.pending is None:
            self.separator = (self.at, " | ")
        self.cell = True

    def _open_row(self, begin: int) -> None:
        self.row_start, self.titles = begin, False

    def _block_tag(
        self, name: bytes, closing: bool, begin: int, end: int, attributes: dict[bytes, str]
    ) -> None:
        if name == b"tr":
            self.row, self.cell = not closing, False
            if not closing:
                self._open_row(begin)
            elif self.parsed.table_head is None and self.titles:
                self.parsed.table_head = (self.row_start, end)
        elif name == b"table":
            self.row, self.parsed.table_head = False, None
        elif name == b"thead":
            self.row, self.cell = not closing, False
            if not closing:
                self._open_row(begin)
            elif self.parsed.table_head is None:
                self.parsed.table_head = (self.row_start, end)
        elif name == b"title" and self.page:
            self._title_tag(closing, begin)
        elif name == b"pre":
            self.preformatted = max(self.preformatted + (-1 if closing else 1), 0)
        if self.row and name not in (b"tr", b"thead"):
            if self.pending is None:
                self.separator = (begin, "\n")
            return
        if self.heading and not closing:  # a heading that nobody closed
            self._end_heading(begin)
        if not self.heading:
            kind = "prose" if closing else _ATOM_KIND.get(name, "prose")
            self.pending = (begin if not closing else end, kind, _language(attributes))

    def _title_tag(self, closing: bool, begin: int) -> None:
        atoms = len(self.parsed.atoms)
        if not closing:
            self.title_at = atoms
        elif self.title_at >= 0 and atoms > self.title_at:
            words = self.parsed.text_of(atoms - 1)
            self.parsed.meta.setdefault("title", " ".join(words.split()))
            self.title_at = -1

    def _heading_tag(
        self, level: int, closing: bool, begin: int, end: int, attributes: dict[bytes, str]
    ) -> None:
        if closing:
            if self.heading:
                self._end_heading(end)
            return
        if self.heading:
            self._end_heading(begin)
        self.row = False
        self.heading, self.heading_start = level, begin
        self.anchor = attributes.get(b"id", "")
        self.pending = (begin, "heading", "")

    def _end_heading(self, end: int) -> None:
        shown = self.pending is None
        level, self.heading = self.heading, 0
        if shown and self.parsed.atoms and self.parsed.atoms[-1].kind == "heading":
            self.parsed.heading(level, self.heading_start, end, "", self.anchor)
        self.pending = (end, "prose", "")

    def _anchor_tag(
        self, closing: bool, attributes: dict[bytes, str], begin: int, end: int
    ) -> None:
        if not closing:
            target = attributes.get(b"href", "")
            self.link = (target, begin) if target else None
        elif self.link is not None:
            self.parsed.links.append(Link(self.link[0], self.link[1], end))
            self.link = None


def _language(attributes: dict[bytes, str]) -> str:
    """The language that the class of a <pre> or <code> names."""
    for word in attributes.get(b"class", "").split():
        for prefix in ("language-", "lang-", "highlight-", "brush:"):
            if word.startswith(prefix):
                return word[len(prefix) :]
    return ""
