r"""Records as JSON lines: questions with answers, issues with comments. One record is one section.

The strings of a record are shown without their JSON escapes, each under its field; a string with
HTML or Markdown is shown as written. Numbers and identifiers become metadata of the text. A line
that is no JSON object is an atom of plain text and a problem.

>>> line = b'{"title": "Why?", "body": "First \\"a\\".\\nThen b.", "score": 3}\n'
>>> parsed = parse_records(line)
>>> parsed.headings[0].title, [parsed.text_of(i) for i in range(len(parsed.atoms))]
('Why?', ['Why?', 'First "a".\nThen b.', 'score: 3'])
"""

from __future__ import annotations

import re

from .builder import Link, Parsed

_TITLES = ("title", "question", "name", "subject", "summary")
_TOKEN = re.compile(
    rb"[ \t\r]*(?:(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<scalar>[-+\w.]+)|(?P<mark>[\[\]{}:,]))"
)
_ESCAPE = re.compile(
    rb"\\(?:(?P<hex>(?:u[dD][89abAB][0-9a-fA-F]{2}\\)?u[0-9a-fA-F]{4})|(?P<one>[\x00-\x7f])|(?=[\x80-\xff]))"
)
_LETTERS = {b"n": "\n", b"t": "\t", b"r": "\r", b"b": "\b", b"f": "\f"}
_PARAGRAPH = re.compile(rb"\\n(?:\\r|[ \t])*\\n")


def parse_records(data: bytes, start: int = 0) -> Parsed:
    """The records in `data` (UTF-8), one a line."""
    parsed = Parsed(data, start)
    at = start
    number = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        if data[at:end].strip():
            number += 1
            _Record(parsed, at, end, number).read()
        at = end
    return parsed


class _Record:
    def __init__(self, parsed: Parsed, begin: int, end: int, number: int) -> None:
        self.parsed = parsed
        self.begin = begin
        self.end = end
        self.number = number

    def read(self) -> None:
        fields = self._fields()
        parsed = self.parsed
        if fields is None:
            parsed.problems.append(f"record {self.number} is no JSON object")
            parsed.atom(self.begin, "record")
            parsed.copy(self.begin, self.end)
            return
        title = next((f for want in _TITLES for f in fields if f[0] == want and f[3]), None)
        parsed.atom(self.begin, "heading")
        if title is not None:
            fields = [f for f in fields if f is not title]
            self._early_title(title)
        else:
            words = f"record {self.number}"
            parsed.put(self.begin, self.begin, words)
        parsed.heading(1, self.begin, self.begin + 1, kind="record")
        for field in fields:
            self._field(*field)

    def _early_title(self, title: tuple[str, int, int, bool]) -> None:
        """The title's text as one piece at the record's start: it may stand behind other fields."""
        scratch = Parsed(self.parsed.data, self.begin)
        scratch.atom(self.begin, "heading")
        _string(scratch, title[1], title[2])
        words = " ".join(scratch.text_of(0).split())
        self.parsed.put(self.begin, self.begin, words or f"record {self.number}")

    def _field(self, path: str, begin: int, end: int, is_string: bool) -> None:
        parsed, name = self.parsed, path.rsplit(".", 1)[-1]
        if not is_string:
            parsed.atom(begin, "record")
            parsed.put(begin, begin, f"{path}: ")
            parsed.copy(begin, end)
            return
        if name in ("url", "html_url", "link"):
            parsed.links.append(Link(parsed.data[begin:end].decode("utf-8"), begin, end))
        at = begin
        for paragraph in _PARAGRAPH.finditer(parsed.data, begin, end):
            if paragraph.start() > at:
                parsed.atom(at, "prose")
                _string(parsed, at, paragraph.start())
            at = paragraph.end()
        parsed.atom(at, "prose")
        _string(parsed, at, end)

    def _fields(self) -> list[tuple[str, int, int, bool]] | None:
        """Each scalar as (path, start, end, is a string), without the quotes; None: no object."""
        data, at = self.parsed.data, self.begin
        end = at + len(data[at : self.end].rstrip())
        fields: list[tuple[str, int, int, bool]] = []
        stack: list[str] = []  # "{" or "["
        path: list[str] = []
        key: str | None = None
        want_key = False
        while at < end:
            token = _TOKEN.match(data, at, end)
            if token is None or (not stack and (at > self.begin or token["mark"] != b"{")):
                return None
            at = token.end()
            mark = token["mark"]
            if mark in (b"{", b"["):
                stack.append(mark.decode())
                path.append(key or "")
                key, want_key = None, mark == b"{"
            elif mark in (b"}", b"]"):
                if not stack or stack.pop() != {"}": "{", "]": "["}[mark.decode()]:
                    return None
                path.pop()
                want_key = False
            elif mark == b",":
                want_key = bool(stack) and stack[-1] == "{"
            elif mark is None and want_key and token["string"] is not None:
                key, want_key = token["string"][1:-1].decode("utf-8"), False
            elif mark is None:
                string = token["string"] is not None
                begin, stop = token.span("string" if string else "scalar")
                name = ".".join([part for part in path if part] + ([key] if key else []))
                fields.append((name, begin + string, stop - string, string))
        return fields if not stack else None


def _string(parsed: Parsed, begin: int, end: int) -> None:
    at = begin
    for escape in _ESCAPE.finditer(parsed.data, begin, end):
        parsed.copy(at, escape.start())
        at = escape.end()
        if escape["hex"] is not None:
            digits = escape["hex"].replace(b"\\", b"").split(b"u")[1:]
            units = b"".join(int(d, 16).to_bytes(2, "little") for d in digits)
            parsed.put(escape.start(), at, units.decode("utf-16-le", "replace"))
        elif escape["one"] in _LETTERS:
            parsed.put(escape.start(), at, _LETTERS[escape["one"]])
        else:
            parsed.copy(escape.start() + 1, at)
    parsed.copy(at, end)
