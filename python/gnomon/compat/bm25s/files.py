"""bm25s' folders: arrays, vocabulary, parameters and corpus, read and written without pickle."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._atomic import replacing

VERSION = "0.3.16"  # the bm25s whose folders these are

_log = logging.getLogger("gnomon.compat.bm25s")


def write_array(path: Path, array: Any) -> None:
    """One .npy file, replaced in one step."""
    with replacing(path) as temp, open(temp, "wb") as file:
        np.save(file, np.asarray(array), allow_pickle=False)


def read_array(path: Path, mmap: bool) -> Any:
    """An array of numbers; pickled objects are refused."""
    return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)


def write_text(path: Path, text: str) -> None:
    """One text file, replaced in one step."""
    with replacing(path) as temp:
        temp.write_text(text, "utf-8")


def write_corpus(path: Path, corpus: Iterable[Any], strict: bool) -> None:
    """One JSON line for each entry, and where each starts in ``*.mmindex.json``.

    A str becomes ``{"id": number, "text": str}``. What JSON cannot hold is left out with a warning,
    or with ``strict`` TypeError; what is no str, dict, list or tuple is left out with a warning.
    """
    starts, at = [], 0
    with replacing(path) as temp, open(temp, "wb") as file:
        for number, entry in enumerate(corpus):
            if not isinstance(entry, (str, dict, list, tuple)):
                _log.warning(
                    "Document at index %d is not a string, dictionary, list or tuple. Skipping.",
                    number,
                )
                continue
            value = {"id": number, "text": entry} if isinstance(entry, str) else entry
            try:
                line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            except (TypeError, ValueError) as error:
                if strict:
                    raise TypeError(
                        f"Document at index {number} could not be serialized to JSON ({error}). "
                        "Skipping it would misalign the saved corpus with the index."
                    ) from error
                _log.warning("Document at index %d left out of the corpus: %s", number, error)
                continue
            starts.append(at)
            at += len(line)
            file.write(line)
    write_text(path.with_suffix(".mmindex.json"), json.dumps(starts))


def read_corpus(path: Path, mmap: bool) -> Any:
    """The entries as a list, or as a :class:`JsonlCorpus` that reads them when asked."""
    if mmap:
        return JsonlCorpus(path)
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class JsonlCorpus:
    """Entries of a JSON-lines file, each read from the disk when it is asked for.

    Indexing takes an int, a slice, a list or an array of numbers (and gives an array of objects of
    the same shape for an array).
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        known = self.path.with_suffix(".mmindex.json")
        if known.exists():
            self.mmindex: list[int] = json.loads(known.read_text("utf-8"))
            return
        self.mmindex, at = [], 0
        with open(self.path, "rb") as file:
            for line in file:
                self.mmindex.append(at)
                at += len(line)

    def __len__(self) -> int:
        return len(self.mmindex)

    def _entry(self, file: Any, number: int) -> Any:
        file.seek(self.mmindex[number])
        return json.loads(file.readline())

    def __getitem__(self, index: Any) -> Any:
        with open(self.path, "rb") as file:
            if isinstance(index, slice):
                return [self._entry(file, n) for n in range(*index.indices(len(self)))]
            if isinstance(index, np.ndarray):
                return as_objects([self._entry(file, n) for n in index.ravel().tolist()]).reshape(
                    index.shape
                )
            if isinstance(index, (list, tuple)):
                return [self._entry(file, n) for n in index]
            return self._entry(file, index)


def as_objects(entries: list[Any]) -> npt.NDArray[Any]:
    """An array [N] of the entries: NumPy's own kind for str and numbers, else objects."""
    plain = all(isinstance(entry, (str, int, float, np.generic)) for entry in entries)
    if plain and entries:
        return np.array(entries)
    array = np.empty(len(entries), object)
    for place, entry in enumerate(entries):
        array[place] = entry
    return array
