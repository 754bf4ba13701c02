"""The files of one generation, opened: shared by all views of it."""

from __future__ import annotations

import errno
import os
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .. import _core
from ..bm25 import BM25Index
from ..bm25_session import Session
from ..bm25_store import Layout
from ..bm25_store import read_state as read_bm25
from ..dense_index import DenseIndex
from ..storage import Directory
from .generation import Part, SegmentPart, State, manifest_crc, read_state
from .segment import Segment

# Each attempt after the first means that a writer committed meanwhile.
_ATTEMPTS_MOST = 1000


class Opened:
    """A generation whose files are all open, so that it stays readable whatever is removed."""

    def __init__(
        self,
        path: str,
        state: State,
        known: dict[str, Segment],
        known_sparse: BM25Index | None = None,
    ) -> None:
        self.path = path
        self.state = state
        folder = Path(path)
        self.segments: list[Segment] = []
        self.alive: list[npt.NDArray[np.bool_]] = []
        for part in state.segments:
            segment = known.get(part.name)
            if segment is None:
                where = _checked(folder / "seg" / part.name, part)
                segment = Segment.open(where, part.name)
            self.segments.append(segment)
            self.alive.append(alive_of(part, segment))
        self._sparse = Directory.open(_checked(folder / "sparse" / state.sparse.name, state.sparse))
        self._known_sparse = known_sparse
        self._vectors: DenseIndex | None = None
        if state.dense is not None:
            self._vectors = DenseIndex.load(
                _checked(folder / "dense" / state.dense.name, state.dense)
            )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        known: Opened | None = None,
        written: tuple[str, BM25Index | None] = ("", None),
    ) -> Opened:
        """The newest generation; `known` when that is the one.

        `written` is the sparse index that this process committed last, and the name of its
        directory: its segments are not read again where the generation has that directory.
        """
        folder = os.path.realpath(os.fspath(path))
        segments = {s.name: s for s in known.segments} if known is not None else {}
        sparse = None if known is None else known.__dict__.get("sparse")  # if it was asked for
        for _ in range(_ATTEMPTS_MOST):
            state = read_state(folder)
            if known is not None and state.generation == known.state.generation:
                return known
            try:
                name, newer = written
                return cls(folder, state, segments, newer if state.sparse.name == name else sparse)
            except (FileNotFoundError, _core.CorruptIndex) as error:
                # A writer may have committed meanwhile; else the damage is real.
                if read_state(folder).generation != state.generation:
                    continue
                if isinstance(error, FileNotFoundError):
                    raise _core.CorruptIndex(
                        f"{error.filename}: missing, though the corpus names it; restore it from a "
                        "copy or index again"
                    ) from error
                raise
        raise BlockingIOError(errno.EAGAIN, "replaced faster than it can be opened", folder)

    @cached_property
    def sparse(self) -> BM25Index:
        """The BM25 index over all chunks; segments that are known already are taken over."""
        known, self._known_sparse = self._known_sparse, None
        if known is None:
            return BM25Index.read_part(self._sparse)
        return taken_over(known, self._sparse, Session.of(self._sparse))

    @property
    def dense(self) -> DenseIndex | None:
        """The vectors, where there are any."""
        return self._vectors


def taken_over(known: BM25Index, directory: Directory, session: Session) -> BM25Index:
    """The index of another generation of the same corpus, with the segments that both have.

    Numbers of segments are given once in the life of a corpus, so far as a generation names them.
    """
    meta = directory.meta("bm25")
    layout = Layout.of_meta(meta)
    state = read_bm25(directory, layout, meta.get("segments"), known._state)
    return BM25Index(state, layout, known._analyzer, known._formula, session)


def alive_of(part: SegmentPart, segment: Segment) -> npt.NDArray[np.bool_]:
    """Which documents of a segment are not deleted."""
    if not part.dead:
        return np.ones(segment.n_docs, np.bool_)
    if len(part.dead) != (segment.n_docs + 7) // 8:
        raise segment.damaged("its deletions")
    bits = np.frombuffer(part.dead, np.uint8)
    alive: npt.NDArray[np.bool_] = np.unpackbits(bits, count=segment.n_docs, bitorder="little") == 0
    return alive


def _checked(folder: Path, part: Part | SegmentPart) -> Path:
    """The folder, if its manifest is the one that the state names."""
    if manifest_crc(folder) != part.crc:
        raise _core.CorruptIndex(
            f"{folder}: not what the corpus names (checksum of its manifest); restore it from a "
            "copy or index again"
        )
    return folder
