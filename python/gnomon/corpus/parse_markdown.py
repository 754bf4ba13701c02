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

from .builder import Link, Parsed
from .parse_html import render_html
from .rawmap import COPIED

_FRONT = re.compile(
    rb"\A(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<body>(?:(?!(?P=mark)[ \t]*\r?$)[^\n]*\n){0,400}?)"
    rb"(?P=mark)[ \t]*(?:\r?\n|\Z)",
    re.MULTILINE,
)
_KEY = re.compile(rb"^([A-Za-z][\w-]{0,60})[ \t]*[:=][ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)
_TAGS = re.compile(rb"^[ \t>]*(?:\{%[^\n]*%\}|\{\{[<%][^\n]*[>%]\}\})[ \t]*\r?$", re.MULTILINE)
_TITLE = re.compile(rb"\b(?:title|summary|caption)=\"([^\"\n]*)\"")
_MDX = re.compile(
    rb"^(?:import\s[^\n]*|export\s[^\n]*|\{/\*.*?\*/\})[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
_ANCHOR = re.compile(r"<(?:a|span)\b[^>]*?\b(?:id|name)=[\"']([^\"'\s]+)")
_STYLES = frozenset({"Strong", "Emphasis", "Strikethrough"})  # they show nothing themselves
_CODE_ODD = re.compile(rb"\n|(?<=\w)\\(?=_\w)")
_HEADING_ID = re.compile(r"\s*\{#([\w.:-]+)\}\s*$")


def parse_markdown(data: bytes, start: int = 0, mdx: bool = False) -> Parsed:
    """The document in `data` (UTF-8) from `start` on, where a byte order mark ends."""
    parsed = Parsed(data, start)
    front = _FRONT.match(data[start:] if start else data)
    body = start
    if front is not None:
        body = start + front.end()
        _front_matter(parsed, front, start)
    # Offsets stay what they are when what precedes the body becomes a blank line.
    text = (b" " * (body - 1) + b"\n" + data[body:] if body else data).decode("utf-8")
    _Reader(parsed, _skips(data, body, mdx)).read(text)
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
    if b"{%" in data or b"{{" in data:
        for match in _TAGS.finditer(data, body):
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


class _Reader:
    """One pass over the events. Written for speed: what is frequent comes first and is inline."""

    def __init__(self, parsed: Parsed, skips: list[tuple[int, int, int, int]]) -> None:
        self.parsed = parsed
        self.skips = skips
        self.depth = 0  # of quotes and list items
        self.in_code = False
        self.first_cell = False
        self.head = (0, 0)  # the header row of the table
        self.level = 0
        self.heading_start = 0

    def read(self, text: str) -> None:
        events_with_range, options = _pyromark()
        parsed = self.parsed
        data, texts, marks, skips = parsed.data, parsed.texts, parsed.marks, self.skips
        append = texts.append
        last = parsed.last
        code_append = parsed.codes.append
        link_append = parsed.links.append
        event: Any
        for event, span in events_with_range(text, options=options):
            if "Text" in event:
                begin, end, words = span["start"], span["end"], event["Text"]
                if begin < last:  # indentation inside of an HTML block, which was read whole
                    continue
                if skips and not self.in_code:
                    parsed.last = last
                    if self._skipped(begin):
                        last = parsed.last
                        continue
                append(words)
                if len(words) == end - begin or words.encode() == data[begin:end]:
                    if begin == last and marks[-1] == COPIED:
                        marks[-2] += end - begin
                    else:
                        marks += (begin - last, end - begin, COPIED)
                else:
                    marks += (begin - last, end - begin, len(words.encode()))
                last = end
            elif "End" in event:
                value = event["End"]
                if value == "Item" or value == "FootnoteDefinition":
                    self.depth -= 1
                elif value == "CodeBlock":
                    self.in_code = False
                elif type(value) is dict:
                    if "Heading" in value:
                        self._heading(span["end"])
                    elif "BlockQuote" in value:
                        self.depth -= 1
            elif "Start" in event:
                value = event["Start"]
                if type(value) is dict:
                    if "Link" in value:
                        link = value["Link"]
                        link_append(Link(link["dest_url"], span["start"], span["end"]))
                    else:
                        parsed.last = last
                        self._open(value, span["start"], span["end"])
                        last = parsed.last
                elif value == "TableCell":
                    if self.first_cell:
                        self.first_cell = False
                    else:
                        begin = span["start"]
                        append(" | ")
                        marks += (0, begin - last, 3)
                        last = begin
                elif value not in _STYLES:
                    parsed.last = last
                    self._open(value, span["start"], span["end"])
                    last = parsed.last
            elif "Code" in event:
                begin, end, words = span["start"], span["end"], event["Code"]
                spelled = words.encode()
                if data[begin + 1 : end - 1] == spelled and "\\_" not in words:
                    append(words)
                    marks += (begin + 1 - last, end - begin - 2, COPIED)
                    code_append((begin + 1, end - 1))
                    last = end - 1
                else:
                    parsed.last = last
                    self._odd_code(begin, end, words, spelled)
                    last = parsed.last
            elif event == "SoftBreak" or event == "HardBreak":
                begin, end = span["start"], span["end"]
                append("\n")
                marks += (begin - last, end - begin, 1)
                last = end
            elif "InlineHtml" in event:
                parsed.last = last
                self._inline_html(event["InlineHtml"], span["start"], span["end"])
                last = parsed.last
            elif "FootnoteReference" in event:
                parsed.last = last
                parsed.copy(span["start"], span["end"])
                last = parsed.last
        parsed.last = last

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

    def _open(self, value: Any, begin: int, end: int) -> None:
        """The start of a block, an image or a style."""
        parsed = self.parsed
        if type(value) is str:
            if value == "Item":
                self.depth += 1
                parsed.atom(begin, "list")
            elif value == "Paragraph":
                parsed.atom(begin, "list" if self.depth else "prose")
            elif value == "TableRow":
                if not self.head[1]:
                    self.head = (self.head[0], begin)
                self.first_cell = True
                parsed.atom(begin, "table", header=self.head)
            elif value == "TableHead":
                self.head = (begin, 0)
                self.first_cell = True
                parsed.atom(begin, "table")
            elif value == "HtmlBlock":
                render_html(parsed, begin, end, page=False)
        elif "Heading" in value:
            self.level = int(value["Heading"]["level"][1])
            self.heading_start = begin
            parsed.atom(begin, "prose" if self.depth else "heading")
        elif "CodeBlock" in value:
            fence = value["CodeBlock"]
            words = fence["Fenced"].split() if type(fence) is dict else []
            self.in_code = True
            parsed.atom(begin, "code", words[0].strip("{}.") if words else "")
        elif "BlockQuote" in value:
            self.depth += 1
        elif "FootnoteDefinition" in value:
            self.depth += 1
            parsed.atom(begin, "list")
        elif "Image" in value:
            parsed.links.append(Link(value["Image"]["dest_url"], begin, end))

    def _heading(self, end: int) -> None:
        if self.depth:
            return
        parsed = self.parsed
        title, anchor = parsed.text_of(len(parsed.atoms) - 1), ""
        found = _HEADING_ID.search(title)
        if found:
            title, anchor = title[: found.start()], found[1]
        parsed.heading(self.level, self.heading_start, end, title, anchor)

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
