"""Raw bytes as the parsers need them: valid UTF-8 of the same length, and the way back.

Parsers want valid UTF-8 and give offsets into what they were given. Most files are UTF-8 already;
then `work` is the raw bytes, with each byte that is not UTF-8 replaced by one SUB (0x1A), so that
an offset into `work` is an offset into the raw bytes. Other encodings are taken when the file names
one (byte order mark, HTML charset, Python coding line) and when encoding the text again gives the
raw bytes; their offsets are converted at the end, all at once.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

SUB = b"\x1a"
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = {
    "html": re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE),
    "python": re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]{1,40})"),
}
_BOM = codecs.BOM_UTF8


class SourceText:
    r"""One document's bytes in the two forms, and the conversion of offsets.

    >>> source = SourceText(b"caf\xe9 \xc3\xa9")
    >>> source.encoding, source.invalid, source.work
    ('utf-8', 1, b'caf\x1a \xc3\xa9')
    >>> SourceText("é".encode("utf-16")).offsets([0, 3, 5])  # the mark is a character, too
    ([0, 2, 4], [0, 1, 2])
    """

    def __init__(self, raw: bytes, kind: str = "") -> None:
        self.raw = raw
        self.encoding = "utf-8"
        self.invalid = 0
        self.start = 0  # where the text begins in `work`: behind a byte order mark
        text = self._other_encoding(raw, kind)
        if text is not None:
            self.work = text.encode("utf-8", "surrogatepass")
        elif raw.isascii():
            self.work = raw
        else:
            self.work = self._valid(raw)
        if self.work.startswith(_BOM):
            self.start = 3
        self._ascii = self.work.isascii()

    def _other_encoding(self, raw: bytes, kind: str) -> str | None:
        for mark, name in _MARKS:
            if raw.startswith(mark):
                return self._decoded(raw, name)
        declared = _DECLARED.get(kind)
        found = declared.search(raw[:2048]) if declared else None
        if found and not _is_utf8(raw):
            return self._decoded(raw, found[1].decode("ascii", "replace"))
        return None

    def _decoded(self, raw: bytes, name: str) -> str | None:
        try:
            text = raw.decode(name)
            if text.encode(name) != raw:
                return None
        except (LookupError, UnicodeError, ValueError):
            return None
        self.encoding = name
        return text

    def _valid(self, raw: bytes) -> bytes:
        if _is_utf8(raw):
            return raw
        text = raw.decode("utf-8", "surrogateescape")
        valid, self.invalid = re.subn("[\udc80-\udcff]", "\x1a", text)
        return valid.encode("utf-8")

    def offsets(self, places: Iterable[int]) -> tuple[list[int], list[int]]:
        """Offsets into `work`, which must rise, as offsets into `raw` and as numbers of characters.

        Linear in the size of the document, however many the places.
        """
        places = list(places)
        if self._ascii and self.encoding == "utf-8":
            return places, places
        raw_places, chars = [], []
        at = raw_at = char_at = 0
        for place in places:
            piece = self.work[at:place].decode("utf-8", "surrogatepass")
            char_at += len(piece)
            raw_at += place - at if self.encoding == "utf-8" else len(piece.encode(self.encoding))
            at = place
            raw_places.append(raw_at)
            chars.append(char_at)
        return raw_places, chars

    @property
    def same_offsets(self) -> bool:
        """Whether offsets into `work` are offsets into `raw`."""
        return self.encoding == "utf-8"


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
