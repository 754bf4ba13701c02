"""Documents and how to read them: the words that sources and records speak.

Text is UTF-8, or UTF-16/32 where a byte order mark says so, or what the file itself declares (HTML
charset, Python coding line), or what `encoding` names. Nothing is guessed.
"""

from __future__ import annotations

import codecs
import os
import re
from dataclasses import dataclass, field
from pathlib import PurePath

MAX_BYTES = 256 << 20

# UTF-32 before UTF-16: the little-endian mark of the one begins with that of the other.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = {
    ".html": re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE),
    ".py": re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]{1,40})"),
}
_DECLARED[".htm"] = _DECLARED[".html"]


@dataclass(frozen=True)
class Document:
    """One text with its origin.

    `line` is the number of the line where it begins in the file, from 1, or 0 where lines mean
    nothing (HTML, Parquet). `lines` says that the line feeds of `text` are those of the file, so
    that the line of any part of it follows.
    """

    path: str
    text: str
    id: str = ""
    line: int = 0
    lines: bool = False


@dataclass(frozen=True)
class Options:
    """How to read: see `gnomon index --help`. A field name of None means the usual ones."""

    text_field: str | None = None
    title_field: str | None = None
    id_field: str | None = None
    encoding: str | None = None
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        """Raises ValueError for an encoding that Python does not know and for a limit below 1."""
        if self.max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, got {self.max_bytes}")
        if self.encoding is not None:
            try:
                b"x".decode(self.encoding, "ignore")
            except LookupError:
                raise ValueError(
                    f"encoding must be a text encoding that Python knows, got {self.encoding!r}; "
                    "utf-8, cp1252, shift_jis and gb18030 are some"
                ) from None


@dataclass
class Problems:
    """What was left out: how often for each reason, and the first of them in full."""

    shown_max: int = 20
    counts: dict[str, int] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)

    def add(self, reason: str, where: str, detail: str = "") -> None:
        """Counts one problem."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(self.first) < self.shown_max:
            self.first.append(f"{where}: {reason}" + (f" ({detail})" if detail else ""))

    def __len__(self) -> int:
        return sum(self.counts.values())


class UnreadableError(Exception):
    """A file or record that is left out; becomes an entry in Problems."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def suffix_of(path: str) -> str:
    """The last suffix in lower case, with its dot.

    >>> suffix_of("docs/README.MD")
    '.md'
    """
    return PurePath(path).suffix.lower()


def read_text(path: str, options: Options) -> str:
    """The text of one file, without its byte order mark and with its line ends as they are.

    Raises UnreadableError when the file is empty, binary, longer than `options.max_bytes` or in an
    unknown encoding; OSError when it cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > options.max_bytes else file.read(options.max_bytes + 1)
        size = max(size, len(data))
    if size > options.max_bytes:
        raise UnreadableError("too large", f"{size:,} bytes, --max-bytes is {options.max_bytes:,}")
    if not data:
        raise UnreadableError("empty")
    return decode(data, options.encoding, _DECLARED.get(suffix_of(path)))


def decode(
    data: bytes, encoding: str | None = None, declared: re.Pattern[bytes] | None = None
) -> str:
    r"""Decodes strictly: byte order mark, UTF-8, the declared encoding, then `encoding`.

    Raises UnreadableError ("binary", "not UTF-8") when none of them fits.

    >>> decode("caf\u00e9".encode("utf-16"))
    'café'
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _decode_as(data[len(mark) :], name)
    if b"\0" in data[:8192]:
        # UTF-16 without a mark is full of zero bytes; only its owner can know that it is text.
        if encoding is not None and codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
            return _decode_as(data, encoding)
        raise UnreadableError("binary", "zero bytes among the first 8,192")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = UnreadableError("not UTF-8", f"byte {error.start:,}; name it with --encoding")
    found = declared.search(data[:2048]) if declared is not None else None
    names = [found.group(1).decode("ascii", "replace")] if found else []
    for other in names + ([encoding] if encoding else []):
        try:
            return data.decode(other)
        except (LookupError, UnicodeError):  # the codec "undefined" raises the latter
            problem = UnreadableError("not UTF-8", f"nor {other}")
    raise problem


def _decode_as(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableError("not UTF-8", f"nor {encoding}, byte {error.start:,}") from None
    except UnicodeError:
        raise UnreadableError("not UTF-8", f"nor {encoding}") from None
