"""Saving and opening BM25 indexes: the half of :class:`gnomon.BM25Index` that knows the disk."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from typing import Any, Literal, TypeVar

from . import _core
from .analysis import Analyzer
from .bm25_edit import Editing
from .bm25_formula import Formula
from .bm25_ids import checked_ids
from .bm25_input import AnalyzerLike, as_analyzer
from .bm25_session import Session
from .bm25_store import (
    Layout,
    damaged,
    read_state,
    segment_meta,
    write_segment,
)
from .storage import Directory, DirectoryWriter

_Index = TypeVar("_Index", bound="Saving")


class Saving(Editing):
    """Directories, sessions, pickles and stored texts."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a directory, atomically: it is there completely, or as it was before.

        Raises FileExistsError when the path holds something that is not an index.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/index"
        >>> gnomon.BM25Index.build(["one two", "two three"]).save(folder)
        >>> gnomon.BM25Index.load(folder).search("three").ids
        array([1])
        """
        with self._lock:
            with DirectoryWriter(path) as writer:
                writer.commit({"bm25": self.write_part(writer)})
            self._saved = (os.path.realpath(os.fspath(path)), self._state)

    def write_part(self, writer: DirectoryWriter) -> dict[str, Any]:
        """Adds this index, as one segment, to a directory that is being written.

        Returns the part's metadata.
        """
        segments = self._state.segments
        write_segment(writer, segments, 0, self._layout.packed)
        layout = replace(self._layout, next_number=1)
        entries = [segment_meta(segments, 0)]
        return {**self._settings_meta(), **layout.to_meta(), "segments": entries}

    def _settings_meta(self) -> dict[str, Any]:
        return {
            "k1": self._formula.k1,
            "b": self._formula.b,
            "formula": self._formula.to_meta(),
            "analyzer": None if self._analyzer is None else self._analyzer.to_meta(),
        }

    @classmethod
    def open(
        cls: type[_Index],
        path: str | os.PathLike[str],
        mode: Literal["r", "w"] = "r",
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> _Index:
        """Opens a saved index by memory map, for reading or, with ``mode="w"``, for changing it.

        Any number of readers, each on the state that was committed when it was opened or last
        :meth:`refresh`-ed; one writer at a time, which sees its own edits at once and makes them
        the state on disk by :meth:`commit`. In a ``with`` block the writer commits at the end, or
        drops its edits if there was an exception.

        ``analyzer`` is needed when the index was built with a function of the caller's own.

        Raises
        ------
        FileNotFoundError
            There is no index.
        BlockingIOError
            Another writer, alive, has it open; its process is named.
        CorruptIndex
            What is there is not a whole BM25 index. Damage inside a term's postings is found when
            the term is first used.
        ValueError
            ``mode="w"`` for an index with passages, which ``gnomon index`` makes as a whole.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/index"
        >>> gnomon.BM25Index.build(["one two", "two three"], ids=["a", "b"]).save(folder)
        >>> with gnomon.BM25Index.open(folder, mode="w") as index:
        ...     _ = index.add(["three four"], ids=["c"])
        >>> gnomon.BM25Index.open(folder).search("three").ids
        ['b', 'c']
        """
        if mode not in ("r", "w"):
            raise ValueError(f"mode must be 'r' or 'w', got {mode!r}")
        session = Session(path, mode == "w")
        try:
            return cls._of_directory(session.opened(), session, analyzer)
        except BaseException:
            session.close()
            raise

    @classmethod
    def load(
        cls: type[_Index],
        path: str | os.PathLike[str],
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> _Index:
        """Opens a saved index for reading: :meth:`open`."""
        return cls.open(path, analyzer=analyzer)

    @classmethod
    def read_part(
        cls: type[_Index],
        directory: Directory,
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> _Index:
        """Opens the BM25 part of an opened directory, for reading."""
        return cls._of_directory(directory, Session.of(directory), analyzer)

    @classmethod
    def _of_directory(
        cls: type[_Index], directory: Directory, session: Session, analyzer: AnalyzerLike | None
    ) -> _Index:
        meta = directory.meta("bm25")
        formula, recorded = _checked_meta(meta)
        layout = Layout.of_meta(meta)
        if len(formula.field_b) != len(layout.fields):
            raise damaged("its formula is not one for its fields")
        state = read_state(directory, layout, meta.get("segments"))
        chosen = as_analyzer(analyzer)
        if recorded is not None:
            chosen = Analyzer.from_meta(recorded, chosen)
        return cls(state, layout, chosen, formula, session)

    def _settings_of(self, meta: dict[str, Any]) -> tuple[Formula, Analyzer | None]:
        formula, recorded = _checked_meta(meta)
        if recorded is None:
            return formula, self._analyzer
        return formula, Analyzer.from_meta(recorded, self._analyzer)

    def __enter__(self: _Index) -> _Index:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._session is not None and self._session.writing:
                self.commit()
        finally:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path of a saved index; what is loaded is the newest state there."""
        state = self._state
        custom = self._analyzer if self._analyzer is not None and self._analyzer.custom else None
        if self._session is not None and self._committed is not None:
            if state is not self._committed[0]:
                raise pickle.PicklingError("the index has edits; commit() them before pickling it")
            return _load, (type(self), str(self._session.path), custom)
        if self._saved is None or self._saved[1] is not state:
            raise pickle.PicklingError(
                "an index is pickled by the path at which it is saved; save() it first"
            )
        return _load, (type(self), self._saved[0], custom)

    def text(self, id: Any) -> Any:
        """The stored text of a document; with named fields, a dict from field to text.

        Raises KeyError for an id that is not in the index, ValueError when the index was built
        without ``store_text=True``, CorruptIndex when the text is damaged on the disk.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two"], ids=["a"], store_text=True).text("a")
        'one two'
        """
        if not self._layout.store_text:
            raise ValueError("this index stores no texts; build it with store_text=True")
        state = self._state
        slot = int(state.find(checked_ids([id], self._layout.kind, 1))[0])
        if slot < 0:
            raise KeyError(f"id is not in the index: {id!r}")
        return state.text(slot)

    def verify(self) -> None:
        """Reads and checks everything. Raises :class:`gnomon.CorruptIndex` naming the damage.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two"]).verify()
        """
        state = self._state
        for segment in state.segments:
            segment.core.verify()
            segment.ids.verify()
            if segment.texts is not None:
                segment.texts.verify()
        ids = state.live_ids()
        values = ids if isinstance(ids, list) else ids.tolist()
        if len(set(values)) != len(values):
            raise _core.CorruptIndex("ids: not unique; build the index again")
        if self._layout.kind == "position" and values and max(values) >= self._layout.next_id:
            raise damaged("an automatic id is to be given again")


def _load(index: type[_Index], path: str, analyzer: Analyzer | None) -> _Index:
    return index.load(path, analyzer=analyzer)


def _checked_meta(meta: dict[str, Any]) -> tuple[Formula, dict[str, Any] | None]:
    """The formula and the analyzer's entry. A manifest can be forged: nothing is taken on trust."""
    k1, b, recorded = meta.get("k1"), meta.get("b"), meta.get("analyzer", False)
    try:
        if type(k1) is not float or type(b) is not float:
            raise ValueError(f"k1 and b must be numbers, found {k1!r} and {b!r}")
        formula = Formula.of_meta(k1, b, meta.get("formula"))
        if recorded is not None and not (
            isinstance(recorded, dict) and isinstance(recorded.get("name"), str)
        ):
            raise ValueError(f"an analyzer has a name, found {recorded!r}")
    except ValueError as error:
        raise _core.CorruptIndex(
            f"the manifest's bm25 part is damaged: {error}; build the index again"
        ) from None
    n_fields = len(Layout.of_meta(meta).fields)
    if len(formula.field_b) != n_fields or len(formula.field_weights) != n_fields:
        raise damaged("the formula is not for the fields of the index")
    return formula, recorded
