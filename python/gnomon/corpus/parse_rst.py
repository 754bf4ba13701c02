r"""reStructuredText by tree-sitter-rst: blocks by their byte places, inline markup by one pattern.

Sections follow the order in which adornments first appear, as in docutils. Comments show nothing;
directives show their arguments and content; code blocks, literal blocks and doctests are code.

>>> parsed = parse_rst(b"Title\n=====\n\nSee ``x_y`` and :func:`f <m.f>`::\n\n   code\n")
>>> [parsed.text_of(i) for i in range(len(parsed.atoms))]
['Title', 'See x_y and f:', 'code']
"""

from __future__ import annotations

import re
from typing import Any

from .builder import Link, Name, Parsed
from .grammars import parser_for

_INLINE = re.compile(
    rb"``(?P<literal>[^\n]+?(?:\n[^\n]+?)?)``"
    rb"|(?::(?P<role>[\w:+.-]+):)?`(?P<text>[^`<\\]+?)(?P<target>\s*<(?P<url>[^>`\n]+)>)?`(?P<tail>_{0,2})"
    rb"|\*\*(?P<strong>[^*\n]+)\*\*|(?<![\w*])\*(?P<em>[^*\n]+)\*(?!\w)"
    rb"|(?P<double>::)(?=\s*\Z)|\\(?P<escaped>[^\w\x80-\xff])"
)
_LONG = 2000  # bytes of a line: longer than any that a person reads
_LONG_RUN = 2000  # bytes of lines without a blank one
_SIGNS = bytes.maketrans(b"`*|_[", b"xxxxx")
_LONG_LINE = re.compile(rb"([^\n]{200})([^\n]{%d,})([^\n]{8})" % (_LONG - 208))
_BLANK = re.compile(rb"\n(?:[ \t\r]*\n){50,}")
_INDENT = re.compile(rb"\n[ \t]+")
_CODE = {"code-block", "code", "sourcecode", "highlight", "parsed-literal", "literalinclude"}
_LISTS = {"bullet_list", "enumerated_list", "definition_list", "field_list", "option_list"}
_ROLES = {
    "func": "function", "meth": "function", "py:func": "function", "py:meth": "function",
    "class": "class", "exc": "class", "py:class": "class", "py:exc": "class", "mod": "package",
    "envvar": "env_var", "option": "option", "c:func": "function",
}  # fmt: skip
_OBJECTS = {
    "function": "function", "method": "function", "automethod": "function",
    "autofunction": "function", "classmethod": "function", "staticmethod": "function",
    "class": "class", "autoclass": "class", "exception": "class", "autoexception": "class",
    "module": "package", "automodule": "package", "envvar": "env_var", "option": "option",
    "cmdoption": "option",
}  # fmt: skip


_INDENT = re.compile(rb"^ +", re.MULTILINE)
_INDENTS_MOST = 64  # different widths


def parse_rst(data: bytes, start: int = 0) -> Parsed:
    """The document in `data` (UTF-8) from `start` on, where a byte order mark ends."""
    parsed = Parsed(data, start)
    source = b" " * (start - 1) + b"\n" + data[start:] if start else data
    if len({len(indent) for indent in _INDENT.findall(source)}) > _INDENTS_MOST:
        # What the scanner takes grows faster than they do.
        raise ValueError("the document nests too deeply")
    tree = parser_for("rst").parse(_bounded(source))
    _Reader(parsed).blocks(tree.root_node.children)
    return parsed


def _bounded(source: bytes) -> bytes:
    """What gives the same blocks in bounded time: of the same length, and no place moves.

    The grammar's scanner looks ahead from each sign of markup for its end, and from each blank line
    for the next text. Blocks depend on how lines begin and end. So the middle of a very long line
    may be anything, many blank lines may be one, and far into a run of lines without a blank one
    signs may be letters: markup within lines is read from the document itself.
    """
    if len(source) < _LONG:
        return source
    source = _BLANK.sub(lambda run: b"\n" + b" " * (len(run[0]) - 2) + b"\n", source)
    source = _LONG_LINE.sub(lambda line: line[1] + b"x" * len(line[2]) + line[3], source)
    if len(source) < _LONG_RUN:
        return source
    return b"\n\n".join(map(_unmarked, source.split(b"\n\n")))


def _unmarked(run: bytes) -> bytes:
    """A run of lines without signs of markup, but for how they begin, behind its first part."""
    if len(run) < _LONG_RUN:
        return run
    made = []
    size = 0
    for line in run.split(b"\n"):
        begin = len(line) - len(line.lstrip()) + 1
        if size > _LONG_RUN and not line.startswith(b"..", begin - 1):
            line = line[:begin] + line[begin:].translate(_SIGNS)
        made.append(line)
        size += len(line) + 1
    return b"\n".join(made)


class _Reader:
    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.styles: list[tuple[bytes, bool]] = []

    def blocks(self, nodes: list[Any]) -> None:
        for node in nodes:
            if not node.is_named or node.start_byte < self.parsed.last:
                continue
            kind = node.type
            if kind == "section":
                self._section(node)
            elif kind in _LISTS:
                for item in node.children:
                    if item.is_named:
                        self._plain(item, "list")
            elif kind == "directive":
                self._directive(node)
            elif kind == "target":
                self._target(node)
            elif kind in ("literal_block", "doctest_block"):
                self._code(node, "")
            elif kind == "comment":
                self.parsed.atom(node.start_byte, "comment")
            elif kind == "paragraph":
                self._paragraph(node)
            else:
                self._plain(node, "prose")

    def _section(self, node: Any) -> None:
        parsed = self.parsed
        title = next((child for child in node.children if child.type == "title"), None)
        if title is None:
            self._plain(node, "prose")
            return
        before = parsed.data[node.start_byte : title.start_byte].strip()
        after = parsed.data[title.end_byte : node.end_byte].strip()
        style = (after[:1] or before[:1], bool(before))
        if style not in self.styles:
            self.styles.append(style)
        parsed.atom(node.start_byte, "heading")
        self._inline(title.start_byte, title.end_byte)
        parsed.heading(self.styles.index(style) + 1, node.start_byte, node.end_byte)

    def _paragraph(self, node: Any) -> None:
        literal = next((child for child in node.children if child.type == "literal_block"), None)
        if literal is not None:
            self._show(node.start_byte, literal.start_byte, "prose")
            self._code(literal, "")
            return
        text = self.parsed.data[node.start_byte : node.end_byte]
        if text.startswith((b"===", b"+--", b"+==")):
            self._table(node.start_byte, node.end_byte, text.startswith(b"+"))
        else:
            self._show(node.start_byte, node.end_byte, "prose")

    def _table(self, begin: int, end: int, grid: bool) -> None:
        """The rows of a table: lines of a simple one, what stands between rules of a grid."""
        data, at, fresh = self.parsed.data, begin, True
        while at < end:
            stop = min(data.find(b"\n", at) + 1 or end, end)
            line = data[at:stop].strip()
            if not line.strip(b"=-+| "):
                fresh = True
            else:
                if fresh or not grid:
                    self.parsed.atom(at, "table")
                else:
                    self.parsed.put(self.parsed.last, at, "\n")
                fresh = False
                self._inline(
                    at + len(data[at:stop]) - len(data[at:stop].lstrip()),
                    at + len(data[at:stop].rstrip()),
                )
            at = stop

    def _plain(self, node: Any, kind: str) -> None:
        self._show(node.start_byte, node.end_byte, kind)

    def _code(self, node: Any, language: str) -> None:
        self.parsed.atom(node.start_byte, "code", language)
        at = node.start_byte
        for indent in _INDENT.finditer(self.parsed.data, node.start_byte, node.end_byte):
            self.parsed.copy(at, indent.start() + 1)
            at = indent.start() + 1
        self.parsed.copy(at, node.end_byte)

    def _directive(self, node: Any) -> None:
        parsed = self.parsed
        kind = next((c for c in node.children if c.type == "type"), None)
        name = parsed.data[kind.start_byte : kind.end_byte].decode() if kind else ""
        body = next((c for c in node.children if c.type == "body"), None)
        parsed.atom(node.start_byte, "code" if name in _CODE else "prose")
        if body is None:
            return
        arguments = next((c for c in body.children if c.type == "arguments"), None)
        content = next((c for c in body.children if c.type == "content"), None)
        if name in _CODE:
            if content is not None:
                words = (
                    b""
                    if arguments is None
                    else parsed.data[arguments.start_byte : arguments.end_byte]
                )
                self._code(content, words.decode().strip())
            return
        bare = name.rsplit(":", 1)[-1]
        if arguments is not None:
            self._inline(arguments.start_byte, arguments.end_byte)
            if bare in _OBJECTS:
                shown = re.match(
                    rb"[-\w.]+", parsed.data[arguments.start_byte : arguments.end_byte]
                )
                if shown:
                    first = arguments.start_byte
                    word = shown[0].decode()
                    parsed.names.append(
                        Name(_OBJECTS[bare], word, first, first + len(shown[0]), "defines")
                    )
        if content is not None:
            if arguments is not None:
                parsed.put(parsed.last, content.start_byte, "\n")
            self._inline(content.start_byte, content.end_byte)

    def _target(self, node: Any) -> None:
        name = next((c for c in node.children if c.type == "name"), None)
        if name is not None:
            word = self.parsed.data[name.start_byte : name.end_byte].decode().strip("_`")
            self.parsed.anchors.append((word, node.start_byte))

    def _show(self, begin: int, end: int, kind: str) -> None:
        self.parsed.atom(begin, kind)
        self._inline(begin, end)

    def _inline(self, begin: int, end: int) -> None:
        parsed, data = self.parsed, self.parsed.data
        end = begin + len(data[begin:end].rstrip())
        at = begin
        for match in _INLINE.finditer(data, begin, end):
            parsed.copy(at, match.start())
            at = match.end()
            group = match.lastgroup or ""
            if match["literal"] is not None:
                parsed.copy(*match.span("literal"))
                parsed.codes.append(match.span("literal"))
            elif match["text"] is not None:
                parsed.copy(*match.span("text"))
                self._reference(match)
            elif match["double"] is not None:
                parsed.copy(match.start(), match.start() + 1)
            else:
                parsed.copy(*match.span(group))
        parsed.copy(at, end)

    def _reference(self, match: re.Match[bytes]) -> None:
        parsed = self.parsed
        url = match["url"]
        if match["role"] is None:
            if url is not None and match["tail"]:
                parsed.links.append(Link(url.decode("utf-8"), *match.span()))
            return
        role = match["role"].decode("utf-8")
        if role in _ROLES:
            name = (url or match["text"]).decode("utf-8").lstrip("~!.").removesuffix("()")
            parsed.names.append(Name(_ROLES[role], name, *match.span("text")))
        elif role in ("ref", "doc"):
            parsed.links.append(Link((url or match["text"]).decode("utf-8"), *match.span()))
