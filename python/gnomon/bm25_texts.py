"""Texts stored beside a segment: read one at a time, each with its own checksum."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .bm25_ids import Mask

_BUFFER_BYTES = 1 << 20


class Texts(Sequence[str]):
    """Texts of a segment's documents, those of all fields of one document after each other.

    Sections: "texts.bytes" (UTF-8, lone surrogates as three bytes), "texts.ends", "texts.crcs".
    What is mapped is not verified as a whole at opening: each text has a checksum of its own.
    """

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        ends: npt.NDArray[np.uint64],
        crcs: npt.NDArray[np.uint32],
        fields: Sequence[str] = (),
    ):
        self._data = data
        self._ends = ends
        self._crcs = crcs
        self._fields = tuple(fields)

    @classmethod
    def of(cls, texts: Sequence[str], fields: Sequence[str] = ()) -> Texts:
        """Keeps these texts, all fields of a document after each other, in memory."""
        writer = TextBuffer()
        for text in texts:
            writer.add(text)
        return writer.texts(fields)

    def __len__(self) -> int:
        """How many documents there are."""
        return int(self._ends.shape[0]) // max(len(self._fields), 1)

    def __getitem__(self, place: Any) -> Any:
        """The text of a document; with named fields, a dict from field to text."""
        if not 0 <= place < len(self):
            raise IndexError(f"document {place} is not in the segment")
        if not self._fields:
            return self._part(place)
        first = place * len(self._fields)
        return {name: self._part(first + i) for i, name in enumerate(self._fields)}

    def _raw(self, part: int) -> bytes:
        first = int(self._ends[part - 1]) if part else 0
        data: bytes = self._data[first : int(self._ends[part])].tobytes()
        if _core.crc32c(data) != int(self._crcs[part]):
            raise _core.CorruptIndex(f"stored text {part} is damaged; build the index again")
        return data

    def _part(self, part: int) -> str:
        try:
            return self._raw(part).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise _core.CorruptIndex(f"stored text {part} is not UTF-8: {error}") from None

    def verify(self) -> None:
        """Reads every text. Raises CorruptIndex naming the damage."""
        for part in range(int(self._ends.shape[0])):
            self._part(part)

    def parts(self, keep: Mask | None) -> npt.NDArray[np.int64]:
        """The numbers of the texts of the documents that `keep` names, None for all."""
        n = max(len(self._fields), 1)
        docs = np.arange(len(self)) if keep is None else np.flatnonzero(keep)
        numbers: npt.NDArray[np.int64] = (docs[:, None] * n + np.arange(n)).reshape(-1)
        return numbers

    @classmethod
    def joined(cls, parts: Sequence[Texts | None], keeps: Sequence[Mask | None]) -> Texts | None:
        """The texts that the masks keep, in memory; None when the segments store none."""
        given = [texts for texts in parts if texts is not None]
        if not given:
            return None
        writer = TextBuffer()
        for texts, keep in zip(given, keeps, strict=True):
            for part in texts.parts(keep).tolist():
                writer.add_bytes(texts._raw(part))
        return writer.texts(given[0]._fields)

    @classmethod
    def write_joined(
        cls, parts: Sequence[Texts | None], keeps: Sequence[Mask | None], path: str
    ) -> None:
        """The same into a container file, one text at a time; nothing when none are stored."""
        given = [texts for texts in parts if texts is not None]
        if not given:
            return
        writer = TextFile(path)
        for texts, keep in zip(given, keeps, strict=True):
            for part in texts.parts(keep).tolist():
                writer.add_bytes(texts._raw(part))
        writer.finish()

    @classmethod
    def open(cls, container: _core.Container, n: int, fields: Sequence[str]) -> Texts:
        """Texts of `n` documents. Raises CorruptIndex when they do not fit."""
        data = container.array("texts.bytes", verify=False)
        ends, crcs = container.array("texts.ends"), container.array("texts.crcs")
        if (
            [array.dtype.name for array in (data, ends, crcs)] != ["uint8", "uint64", "uint32"]
            or ends.shape != (n * max(len(fields), 1),)
            or ends.shape != crcs.shape
            or (int(ends[-1]) if ends.size else 0) != data.shape[0]
            or bool((ends[1:] < ends[:-1]).any())
        ):
            raise _core.CorruptIndex(
                f"{container.path}: the stored texts do not fit {n} documents; "
                "build the index again"
            )
        return cls(data, ends, crcs, fields)


class TextBuffer:
    """Collects texts in memory."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q")
        self._crcs = array("I")

    def add(self, text: str) -> None:
        """One more text."""
        self.add_bytes(text.encode("utf-8", "surrogatepass"))

    def add_bytes(self, data: bytes) -> None:
        """One more text, encoded."""
        self._data += data
        self._ends.append(self._base() + len(self._data))
        self._crcs.append(_core.crc32c(data))

    def _base(self) -> int:
        return 0

    @property
    def size(self) -> int:
        """Bytes that it holds in memory."""
        return len(self._data) + 12 * len(self._ends)

    def texts(self, fields: Sequence[str]) -> Texts:
        """What was added."""
        return Texts(
            np.frombuffer(bytes(self._data), dtype=np.uint8),
            np.array(self._ends, dtype=np.uint64),
            np.array(self._crcs, dtype=np.uint32),
            fields,
        )


class TextFile(TextBuffer):
    """Writes texts to a container file as they come; 12 bytes a text stay in memory."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._writer = _core.ContainerWriter(path)
        self._writer.begin("texts.bytes", "u1")
        self._written = 0

    def _base(self) -> int:
        return self._written

    def add_bytes(self, data: bytes) -> None:
        """One more text, encoded."""
        super().add_bytes(data)
        if len(self._data) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.append(bytes(self._data))
        self._written += len(self._data)
        self._data.clear()

    def finish(self) -> None:
        """Completes the file."""
        self._flush()
        self._writer.end()
        self._writer.section("texts.ends", np.array(self._ends, dtype=np.uint64))
        self._writer.section("texts.crcs", np.array(self._crcs, dtype=np.uint32))
        self._writer.finish()
