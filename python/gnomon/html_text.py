"""The text of an HTML page as a reader sees it: blocks as paragraphs, no scripts, no styles.

A scanner of our own, not html.parser: that one takes quadratic time on markup that is never closed
(240 KB of ``<a `` run for minutes), and some of its releases raise on malformed declarations. Here
every search that fails is remembered, so the cost is linear whatever the page.
"""

from __future__ import annotations

import html
import re

_PARAGRAPHS = """
    address article aside blockquote body dd details dialog div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre section table title ul
"""
_LINES = "br caption li option summary tr"
_BREAK = dict.fromkeys(_PARAGRAPHS.split(), "\n\n") | dict.fromkeys(_LINES.split(), "\n")
_BREAK |= {"td": "\t", "th": "\t"}
_HIDDEN = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style")}
_TAG = re.compile(r"</?([A-Za-z][^\s/>]*)")
_QUOTE = re.compile(r"""=\s*(["'])|>""")  # the start of a quoted value, or the end of the tag
_LONG_NUMBER = re.compile(r"&#([0-9]{1000,});?")
_SPACE = re.compile(r"[ \t\n\r\f]+")
_BREAKS = re.compile(r"\n{3,}")


class _Scanner:
    """One pass over a page; `parts` is its text."""

    def __init__(self, page: str) -> None:
        self.parts: list[str] = []
        self._page = page
        self._preformatted = 0
        self._absent: set[str] = set()  # not to be found in the rest of the page
        self._quotes = True  # false once a tag ran to the end of the page for its quotes

    def run(self) -> None:
        page, at = self._page, 0
        while (begin := page.find("<", at)) >= 0:
            self._data(page[at:begin])
            at = self._markup(begin)
            if at == begin:  # not markup after all
                self._data("<")
                at += 1
        self._data(page[at:])

    def _find(self, what: str, start: int) -> int:
        found = -1 if what in self._absent else self._page.find(what, start)
        if found < 0:
            self._absent.add(what)
        return found

    def _markup(self, begin: int) -> int:
        """Takes the markup at `begin`. Returns where it ends, or `begin` when there is none."""
        page = self._page
        tag = _TAG.match(page, begin)
        if tag is not None:
            end = self._tag_end(tag.end())
            return self._tag(tag, end) if end >= 0 else begin
        if page.startswith("<!--", begin):
            end = self._find("-->", begin + 2)
            return end + 3 if end >= 0 else begin
        if page.startswith(("<!", "<?", "</"), begin):  # declarations, and what passes for comments
            return self._find(">", begin) + 1 or begin
        return begin

    def _tag_end(self, at: int) -> int:
        """The place after the ``>`` that ends a tag, one in quotes aside; -1 for no such place."""
        first = self._find(">", at)
        if first < 0 or not self._quotes:
            return first + 1 or -1
        while (found := _QUOTE.search(self._page, at)) is not None:
            if found[1] is None:
                return found.end()
            closing = self._find(found[1], found.end())
            at = closing + 1 if closing >= 0 else found.end()
        self._quotes = False
        return first + 1

    def _tag(self, tag: re.Match[str], end: int) -> int:
        name = tag[1].lower()
        if tag[0].startswith("</"):
            self._preformatted = max(self._preformatted - (name == "pre"), 0)
            if name != "br":
                self._separate(name)
            return end
        self._separate(name)
        if self._page.startswith("/>", end - 2):
            return end  # <script/> hides nothing: it has no content
        self._preformatted += name == "pre"
        if name in _HIDDEN:
            closing = _HIDDEN[name].search(self._page, end)
            return closing.start() if closing else len(self._page)
        return end

    def _data(self, data: str) -> None:
        if not data:
            return
        if "&" in data:
            data = html.unescape(_LONG_NUMBER.sub(_short_number, data))
        if not self._preformatted:
            data = _SPACE.sub(" ", data)
            if self.parts and self.parts[-1].endswith("\n"):
                data = data.removeprefix(" ")
        self.parts.append(data)

    def _separate(self, tag: str) -> None:
        separator = _BREAK.get(tag, "")
        if separator != "\t" or not "".join(self.parts[-1:]).endswith("\n"):
            self.parts.append(separator)


def _short_number(reference: re.Match[str]) -> str:
    """The same character reference in a length that int() takes."""
    digits = reference[1].lstrip("0")
    return f"&#{digits or 0};" if len(digits) < 8 else "\ufffd"


def html_to_text(page: str) -> str:
    r"""The visible text of `page`; never fails, and takes linear time, whatever the markup.

    >>> html_to_text("<h1>Title</h1><p>One <b>bold</b> word.<script>no()</script>")
    'Title\n\nOne bold word.'
    """
    scanner = _Scanner(page)
    scanner.run()
    lines = "".join(scanner.parts).split("\n")
    return _BREAKS.sub("\n\n", "\n".join(line.rstrip(" \t\r\f") for line in lines)).strip()
