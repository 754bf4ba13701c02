"""The text of an HTML page as a reader sees it: blocks as paragraphs, no scripts, no styles."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_PARAGRAPHS = """
    address article aside blockquote body dd details dialog div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre section table title ul
"""
_LINES = "br caption li option summary tr"
_BREAK = dict.fromkeys(_PARAGRAPHS.split(), "\n\n") | dict.fromkeys(_LINES.split(), "\n")
_BREAK |= {"td": "\t", "th": "\t"}
_HIDDEN = frozenset({"script", "style"})
_SPACE = re.compile(r"[ \t\n\r\f]+")
_BREAKS = re.compile(r"\n{3,}")


class _Extractor(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = ""
        self.preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self.hidden = tag
        if tag == "pre":
            self.preformatted += 1
        self._separate(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._separate(tag)  # <script/> hides nothing: it has no content

    def handle_endtag(self, tag: str) -> None:
        if tag == self.hidden:
            self.hidden = ""
        if tag == "pre" and self.preformatted:
            self.preformatted -= 1
        if tag != "br":
            self._separate(tag)

    def handle_data(self, data: str) -> None:
        if self.hidden:
            return
        if not self.preformatted:
            data = _SPACE.sub(" ", data)
            if self.parts and self.parts[-1].endswith("\n"):
                data = data.removeprefix(" ")
        self.parts.append(data)

    def _separate(self, tag: str) -> None:
        separator = _BREAK.get(tag, "")
        if separator != "\t" or not "".join(self.parts[-1:]).endswith("\n"):
            self.parts.append(separator)


def html_to_text(page: str) -> str:
    r"""The visible text of `page`; never fails, whatever the markup.

    >>> html_to_text("<h1>Title</h1><p>One <b>bold</b> word.<script>no()</script>")
    'Title\n\nOne bold word.'
    """
    extractor = _Extractor()
    try:
        extractor.feed(page)
        extractor.close()
    except AssertionError:
        # html.parser gives up like this on some malformed declarations: what it read so far stays,
        # and the rest is taken with its tags cut out.
        extractor.parts.append(re.sub(r"<[^<>]{0,1000}>", " ", extractor.rawdata))
    lines = "".join(extractor.parts).split("\n")
    return _BREAKS.sub("\n\n", "\n".join(line.rstrip(" \t\r\f") for line in lines)).strip()
