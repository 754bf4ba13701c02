r"""Markdown by pyromark (pulldown-cmark), which gives every event with its byte range.

Beside CommonMark: tables, strikethrough, task lists, footnotes; front matter between ``---`` or
``+++``; lines of GitBook and Hugo tags (``{% hint %}``, ``{{< note >}}``), of which only a title is
shown; MDX imports and comments, which show nothing; HTML blocks, read like HTML pages.

>>> parsed = parse_markdown(rb"# The `max\_allowed` &lt; b" + b"\n\n- one\n- two\n")
>>> [parsed.text_of(i) for i in range(len(parsed.atoms))], parsed.headings[0].level
(['The max_allowed < b', 'one', 'two'], 1)
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .. import _core
from .builder import Heading, Parsed
from .parse_html import render_html

_FRONT = re.compile(
    rb"\A(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<body>(?:(?!(?P=mark)[ \t]*\r?$)[^\n]*\n){0,400}?)"
    rb"(?P=mark)[ \t]*(?:\r?\n|\Z)",
    re.MULTILINE,
)
_KEY = re.compile(rb"^([A-Za-z][\w-]{0,60})[ \t]*[:=][ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)
_TAG = re.compile(rb"\{[%{]")
_TAGS = re.compile(rb"^[ \t>]*(?:\{%[^\n]*%\}|\{\{[<%][^\n]*[>%]\}\})[ \t]*\r?$", re.MULTILINE)
_TITLE = re.compile(rb"\b(?:title|summary|caption)=\"([^\"\n]*)\"")
_MDX = re.compile(
    rb"^(?:import\s[^\n]*|export\s[^\n]*|\{/\*.*?\*/\})[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
_ANCHOR = re.compile(r"<(?:a|span)\b[^>]*?\b(?:id|name)=[\"']([^\"'\s]+)")
_CODE_ODD = re.compile(rb"\n|(?<=\w)\\(?=_\w)")
_HEADING_ID = re.compile(r"\{#([\w.:-]+)\}\s*$")


def parse_markdown(
    data: bytes, start: int = 0, mdx: bool = False, reader: type[Reader] | None = None
) -> Parsed:
    """The document in `data` (UTF-8) from `start` on, where a byte order mark ends."""
    reader = reader or Reader
    parsed = Parsed(data, start)
    front = _FRONT.match(data[start:] if start else data)
    body = start
    if front is not None:
        body = start + front.end()
        _front_matter(parsed, front, start)
    # Offsets stay what they are when what precedes the body becomes a blank line.
    text = (b" " * (body - 1) + b"\n" + data[body:] if body else data).decode("utf-8")
    reader(parsed, _skips(data, body, mdx)).read(text)
    return parsed


def _front_matter(parsed: Parsed, front: re.Match[bytes], start: int) -> None:
    for key, value in _KEY.findall(front["body"]):
        words = value.decode("utf-8").strip("\"' ")
        parsed.meta[key.decode("utf-8").lower()] = words
    parsed.atom(start, "meta")
    parsed.copy(start + front.start("body"), start + front.end("body"))


def _skips(data: bytes, body: int, mdx: bool) -> list[tuple[int, int, int, int]]:
    """Lines that are tags: (start, end, start of the title, its end), the last first."""
    found: list[tuple[int, int, int, int]] = []
    if b"{%" in data or b"{{" in data:  # a search for these two is faster than _TAG's
        at = body
        while (sign := _TAG.search(data, at)) is not None:
            match = _TAGS.match(data, max(data.rfind(b"\n", 0, sign.start()) + 1, body))
            at = data.find(b"\n", sign.end()) + 1 or len(data)
            if match is None:
                continue
            title = _TITLE.search(data, match.start(), match.end())
            shown = title.span(1) if title else (0, 0)
            found.append((match.start(), match.end(), *shown))
    if mdx:
        found += [(*match.span(), 0, 0) for match in _MDX.finditer(data, body)]
    return sorted(found, reverse=True)


@lru_cache(maxsize=1)
def _pyromark() -> tuple[Any, Any]:
    """The parser and its options; raises ImportError that names the extra."""
    try:
        from pyromark import Options, events_with_range
    except ImportError as error:
        raise ImportError(
            "pyromark is needed to parse Markdown: pip install 'gnomon[corpus]'"
        ) from error
    options = Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH
    return events_with_range, options | Options.ENABLE_TASKLISTS | Options.ENABLE_FOOTNOTES


def events_of(text: str) -> Any:
    """The events of a text, each with its range."""
    events_with_range, options = _pyromark()
    return events_with_range(text, options=options)


class Reader:
    """One pass over the events, compiled; what is rare comes back to the methods here.

    `gnomon.corpus.markdown_reference` does the same in Python, and says what each event means.
    """

    def __init__(self, parsed: Parsed, skips: list[tuple[int, int, int, int]]) -> None:
        self.parsed = parsed
        self.skips = skips

    def read(self, text: str) -> None:
        """Fills `parsed` from the document's text."""
        _core.read_markdown(self, self.parsed, self.parsed.data, events_of(text))

    def _odd_code(self, begin: int, end: int, words: str, spelled: bytes) -> None:
        r"""Code with more than one backtick, escaped bars, or broken over lines.

        CommonMark shows the backslash of ``max\\_size`` in code; who wrote it meant the escape, and
        readers search for the name, so between word characters it is left out.
        """
        parsed, data = self.parsed, self.parsed.data
        parsed.codes.append((begin, end))
        flat = data[begin:end].replace(b"\n", b" ")
        found = flat.find(spelled)
        if found < 0:
            parsed.put(begin, end, words)
            return
        at, stop = begin + found, begin + found + len(spelled)
        for odd in _CODE_ODD.finditer(data, at, stop):
            parsed.copy(at, odd.start())
            at = odd.end() if odd[0] == b"\n" else odd.start() + 1
            if odd[0] == b"\n":
                parsed.put(odd.start(), at, " ")
        parsed.copy(at, stop)

    def _html_block(self, begin: int, end: int) -> None:
        render_html(self.parsed, begin, end, page=False)

    def _copy(self, begin: int, end: int) -> None:
        self.parsed.copy(begin, end)

    def _language(self, fence: Any) -> str:
        """The language of a code block, by the words behind its fence."""
        words = fence["Fenced"].split() if type(fence) is dict else []
        return words[0].strip("{}.") if words else ""

    def _heading(self, level: int, start: int, end: int) -> None:
        parsed = self.parsed
        atom = len(parsed.atoms) - 1
        title = text = "".join(parsed.texts[parsed.atoms[atom].text_at + 1 :])
        anchor = ""
        if "{#" in title and (found := _HEADING_ID.search(title, title.rfind("{#"))) is not None:
            title, anchor = title[: found.start()], found[1]
        title = " ".join((title if title.strip() else text).split())
        parsed.headings.append(Heading(atom, level, start, end, title, anchor, "heading"))

    def _inline_html(self, tag: str, begin: int, end: int) -> None:
        if tag[:3].lower() == "<br":
            self.parsed.put(begin, end, "\n")
        elif (found := _ANCHOR.match(tag)) is not None:
            self.parsed.anchors.append((found[1], begin))

    def _skipped(self, begin: int) -> bool:
        """Whether the text at `begin` is in a line of tags; adds the title once."""
        skips = self.skips
        while skips and skips[-1][1] <= begin:
            skips.pop()
        if not skips or begin < skips[-1][0]:
            return False
        start, end, title, title_end = skips[-1]
        if title_end > title >= self.parsed.last:
            skips[-1] = (start, end, 0, 0)
            self.parsed.copy(title, title_end)
        return True
