"""The "passages" part of an index directory: every passage's text and where it came from.

    text    all passages, UTF-8 (lone surrogates as three bytes), one after the other
    places  per passage: text_end, start, end (code points in its document), line, document, crc
            (CRC-32C of its text); per document: document_path, id_end; per file: path_end; ids and
            paths as bytes

Texts go to the disk as they come; what stays in memory until the end is about 40 bytes a passage,
12 a document, and the names. The texts are not verified as a whole at opening: each passage has its
own checksum, so a search reads and checks just what it shows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core
from .documents import Document
from .passages import PASSAGE_SIZE, spans

if TYPE_CHECKING:
    from .storage import Directory, DirectoryWriter

PART = "passages"
VERSION = 1
_BUFFER_BYTES = 1 << 20


_DTYPES = (
    dict.fromkeys(("text_end", "start", "end", "id_end", "path_end"), np.dtype(np.uint64))
    | dict.fromkeys(("line", "document", "crc", "document_path"), np.dtype(np.uint32))
    | dict.fromkeys(("ids", "paths"), np.dtype(np.uint8))
)


class Passage(NamedTuple):
    """A passage and its origin: `text` is [start, end) of the document, in code points.

    `line` is the line of the file where the passage begins, from 1, or 0 where lines mean nothing.
    """

    text: str
    path: str
    id: str
    start: int
    end: int
    line: int


class _Arena:
    """Byte strings laid end to end, in memory."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ends = array("Q")

    def add(self, value: bytes) -> int:
        self.data += value
        self.ends.append(len(self.data))
        return len(self.ends) - 1


class PassageWriter:
    """Writes the part while texts stream by; `finish` returns its manifest entry.

    The files belong to the DirectoryWriter: if it does not commit, they go with it.
    """

    def __init__(self, directory: DirectoryWriter, size: int = PASSAGE_SIZE) -> None:
        self._text = _core.ContainerWriter(directory.file(PART, "text"))
        self._places = directory.file(PART, "places")
        self._text.begin("text", "u1")
        self._buffer = bytearray()
        self._written = 0
        self._size = size
        self._columns = {name: array("Q") for name in ("text_end", "start", "end")}
        self._columns |= {name: array("I") for name in ("line", "document", "crc")}
        self._appends = [column.append for column in self._columns.values()]
        self._columns["document_path"] = array("I")
        self._ids = _Arena()
        self._paths = _Arena()
        self._path_numbers: dict[str, int] = {}

    def add(self, document: Document) -> Iterator[str]:
        """Cuts `document` into passages and yields each after it is recorded."""
        text = document.text
        number = self._ids.add(document.id.encode("utf-8", "surrogatepass"))
        self._columns["document_path"].append(self._path_number(document.path))
        line, counted = document.line, 0
        for start, end in spans(text, self._size):
            if document.lines:
                line += text.count("\n", counted, start)
                counted = start
            passage = text[start:end]
            self._record(passage, start, end, line, number)
            yield passage

    def _path_number(self, path: str) -> int:
        # Documents of one file come together, so the latest path is all that must be remembered.
        number = self._path_numbers.get(path)
        if number is None:
            number = self._paths.add(path.encode("utf-8", "surrogateescape"))
            self._path_numbers = {path: number}
        return number

    def _record(self, passage: str, start: int, end: int, line: int, document: int) -> None:
        data = passage.encode("utf-8", "surrogatepass")
        self._buffer += data
        self._written += len(data)
        row = (self._written, start, end, min(line, 0xFFFFFFFF), document, _core.crc32c(data))
        for append, value in zip(self._appends, row, strict=True):
            append(value)
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._text.append(bytes(self._buffer))
        self._buffer.clear()

    def finish(self) -> dict[str, Any]:
        """Completes both files. Returns the meta for DirectoryWriter.commit."""
        self._flush()
        self._text.end()
        self._text.finish()
        places = _core.ContainerWriter(self._places)
        for name, column in self._columns.items():
            places.section(name, np.frombuffer(column, "u8" if column.typecode == "Q" else "u4"))
        for name, arena in (("id", self._ids), ("path", self._paths)):
            places.section(f"{name}_end", np.frombuffer(arena.ends, "u8"))
            places.section(f"{name}s", np.frombuffer(arena.data, "u1"))
        places.finish()
        return {
            "version": VERSION,
            "passages": len(self._columns["start"]),
            "documents": len(self._ids.ends),
            "files": len(self._paths.ends),
            "text_bytes": self._written,
            "passage_size": self._size,
        }


class Passages:
    """The passages of an opened index, by number; a sequence of Passage that reads from the disk.

    Raises CorruptIndex when the part is damaged, and ValueError when the index has no passages (it
    was saved by BM25Index.save) or was written by a newer version.
    """

    def __init__(self, directory: Directory) -> None:
        if PART not in directory.parts():
            raise ValueError(
                "the index holds no passages to show, only postings; make one that does with "
                "`gnomon index`"
            )
        self.meta = directory.meta(PART)
        if self.meta.get("version") != VERSION:
            raise ValueError(
                f"the passages have format version {self.meta.get('version')}, this gnomon reads "
                f"{VERSION}; update gnomon or index again"
            )
        self._container = directory.container(PART, "text")
        self._text: NDArray[Any] = self._container.array("text", verify=False)
        places = directory.container(PART, "places")
        self._columns = {name: places.array(name) for name, _, _ in places.sections()}
        self._check()

    def _check(self) -> None:
        """Every offset and number must lie in range before it is used."""
        columns = self._columns
        try:
            n = len(columns["start"])
            siblings = ("text_end", "end", "line", "document", "crc")
            right = (
                all(columns[name].dtype == dtype for name, dtype in _DTYPES.items())
                and self._text.dtype == np.uint8
                and all(len(columns[name]) == n for name in siblings)
                and len(columns["document_path"]) == len(columns["id_end"])
                and _below(columns["document"], len(columns["id_end"]))
                and _below(columns["document_path"], len(columns["path_end"]))
                and _ends(columns["text_end"], len(self._text))
                and _ends(columns["id_end"], len(columns["ids"]))
                and _ends(columns["path_end"], len(columns["paths"]))
            )
        except KeyError as error:
            raise self._corrupt(f"section {error} is missing") from None
        if not right:
            raise self._corrupt("its sections contradict one another")

    def _corrupt(self, what: str) -> _core.CorruptIndex:
        return _core.CorruptIndex(f"{self._container.path}: {what}; index again")

    def __len__(self) -> int:
        return len(self._columns["start"])

    def __iter__(self) -> Iterator[Passage]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Passage:
        if not 0 <= number < len(self):
            raise IndexError(f"passage number must be in [0, {len(self)}), got {number}")
        columns = self._columns
        data = self._slice("text_end", self._text, number)
        if _core.crc32c(data) != int(columns["crc"][number]):
            raise self._corrupt(f"the text of passage {number} is damaged")
        document = int(columns["document"][number])
        path = self._slice("path_end", columns["paths"], int(columns["document_path"][document]))
        try:
            text = data.decode("utf-8", "surrogatepass")
            identifier = self._slice("id_end", columns["ids"], document)
            passage = Passage(
                text,
                path.decode("utf-8", "surrogateescape"),
                identifier.decode("utf-8", "surrogatepass"),
                int(columns["start"][number]),
                int(columns["end"][number]),
                int(columns["line"][number]),
            )
        except UnicodeDecodeError:
            raise self._corrupt(f"passage {number} is not UTF-8") from None
        if passage.end - passage.start != len(text):
            raise self._corrupt(f"passage {number} has another length than its place says")
        return passage

    def _slice(self, ends: str, data: NDArray[Any], number: int) -> bytes:
        begin = int(self._columns[ends][number - 1]) if number else 0
        return data[begin : int(self._columns[ends][number])].tobytes()


def _below(numbers: NDArray[Any], limit: int) -> bool:
    return len(numbers) == 0 or int(numbers.max()) < limit


def _ends(ends: NDArray[Any], length: int) -> bool:
    """Whether `ends` rise from 0 or more to exactly `length`."""
    if len(ends) == 0:
        return length == 0
    return int(ends[-1]) == length and bool(np.all(ends[1:] >= ends[:-1]))
