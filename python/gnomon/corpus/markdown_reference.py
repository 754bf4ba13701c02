r"""What each of pyromark's events means: the loop that `cpp/bindings_markdown.cpp` has compiled.

Tests compare the two; nothing else runs this one.

>>> parse_markdown(b"# A\n\nb", reader=ReferenceReader).texts
['\n', 'A', '\n', 'b']
"""

from __future__ import annotations

from typing import Any

from .builder import Link, Parsed
from .parse_markdown import Reader, events_of, parse_markdown
from .rawmap import COPIED

__all__ = ["ReferenceReader", "parse_markdown"]

_STYLES = frozenset({"Strong", "Emphasis", "Strikethrough"})  # they show nothing themselves


class ReferenceReader(Reader):
    """One pass over the events, what is frequent first."""

    def __init__(self, parsed: Parsed, skips: list[tuple[int, int, int, int]]) -> None:
        super().__init__(parsed, skips)
        self.depth = 0  # of quotes and list items
        self.in_code = False
        self.first_cell = False
        self.head = (0, 0)  # the header row of the table
        self.level = 0
        self.heading_start = 0

    def read(self, text: str) -> None:
        parsed = self.parsed
        data, texts, marks, skips = parsed.data, parsed.texts, parsed.marks, self.skips
        append = texts.append
        last = parsed.last
        code_append = parsed.codes.append
        link_append = parsed.links.append
        event: Any
        for event, span in events_of(text):
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
                    if begin == last and marks and marks[-1] == COPIED:
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
                        self._close_heading(span["end"])
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
                self._html_block(begin, end)
        elif "Heading" in value:
            self.level = int(value["Heading"]["level"][1])
            self.heading_start = begin
            parsed.atom(begin, "prose" if self.depth else "heading")
        elif "CodeBlock" in value:
            self.in_code = True
            parsed.atom(begin, "code", self._language(value["CodeBlock"]))
        elif "BlockQuote" in value:
            self.depth += 1
        elif "FootnoteDefinition" in value:
            self.depth += 1
            parsed.atom(begin, "list")
        elif "Image" in value:
            parsed.links.append(Link(value["Image"]["dest_url"], begin, end))

    def _close_heading(self, end: int) -> None:
        if not self.depth:
            self._heading(self.level, self.heading_start, end)
