"""Document ids of one segment: looked up both ways, and carried through merges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .results import Ids, Int64Array, as_list
from .storage import Directory

Mask = npt.NDArray[np.bool_]


class SegmentIds(Ids):
    """The ids by number in the segment: consecutive integers, unique integers, or unique strings.

    Never changes, so what the first look-up prepares serves all later ones.
    """

    def __init__(
        self,
        n: int,
        ints: Int64Array | None = None,
        strings: Sequence[str] | None = None,
        first: int = 0,
    ):
        super().__init__(n, ints, strings)
        self.first = first
        self._order: Int64Array | None = None
        self._places: dict[str, int] | None = None

    def take(self, positions: Int64Array) -> Any:
        """The ids at these positions."""
        if self._ints is not None or self._strings is not None:
            return super().take(positions)
        return positions + self.first if self.first else positions

    def whole(self) -> int | Int64Array:
        """Of ids that are integers: the first, when they count on from it, or all of them."""
        return self.first if self._ints is None else self._ints

    def texts(self) -> Sequence[str]:
        """Of ids that are strings: all of them, as they lie."""
        return self._strings or ()

    def values(self) -> Any:
        """All ids: an int64 array, or a list of str."""
        if self._strings is not None:
            return list(self._strings)
        return self.take(np.arange(self.n)) if self._ints is None else np.asarray(self._ints)

    def within(self, limit: int) -> bool:
        """Whether all ids, integers, lie in [0, limit)."""
        ints = self._ints
        if ints is None:
            return self.first + self.n <= limit
        return self.n == 0 or (int(ints.min()) >= 0 and int(ints.max()) < limit)

    def find(self, ids: Sequence[Any]) -> Int64Array:
        """The position of each id, -1 where the segment has none such."""
        if self._strings is not None:
            if self._places is None:
                self._places = {text: place for place, text in enumerate(self._strings)}
            places = self._places
            return np.array([places.get(text, -1) for text in ids], dtype=np.int64)
        wanted = np.array(ids, dtype=np.int64)
        if self._ints is None:
            inside = (wanted >= self.first) & (wanted < self.first + self.n)
            return np.where(inside, wanted - self.first, -1)
        if self._order is None:
            self._order = np.argsort(self._ints, kind="stable")
        if self.n == 0:
            return np.full(wanted.shape, -1, dtype=np.int64)
        rank = np.searchsorted(self._ints, wanted, sorter=self._order)
        place = self._order[np.minimum(rank, self.n - 1)]
        return np.where(self._ints[place] == wanted, place, -1)

    @classmethod
    def joined(cls, parts: Sequence[tuple[SegmentIds, Mask | None]]) -> SegmentIds:
        """The ids that the masks keep (None keeps all), in order."""
        n = sum(ids.n if keep is None else int(keep.sum()) for ids, keep in parts)
        if any(ids.kind == "str" for ids, _ in parts):
            strings: list[str] = []
            for ids, keep in parts:
                values = ids.values()
                strings += (
                    values if keep is None else [values[i] for i in np.flatnonzero(keep).tolist()]
                )
            return cls(n, strings=strings)
        arrays = [ids.values() if keep is None else ids.values()[keep] for ids, keep in parts]
        ints = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
        if all(ids.kind == "position" for ids, _ in parts) and (n == 0 or _consecutive(ints)):
            return cls(n, first=int(ints[0]) if n else 0)
        return cls(n, ints=ints)

    def to_meta(self) -> dict[str, Any]:
        """What the manifest says of these ids."""
        return {"kind": self.kind, "first": self.first}

    @classmethod
    def open(cls, directory: Directory, role: str, n: int, meta: Any) -> SegmentIds:
        """The ids of a saved segment. Raises CorruptIndex when they are not what its meta says."""
        kind, first = (meta.get("kind"), meta.get("first")) if isinstance(meta, dict) else (0, 0)
        stored = role in directory.files("bm25")
        if kind == "position" and not stored and type(first) is int and 0 <= first < 2**62:
            return cls(n, first=first)
        if kind in ("int", "str") and stored and first == 0:
            ids = cls.read(directory.container("bm25", role), n)
            if ids.kind == kind:
                return ids
        raise _core.CorruptIndex(
            f"{directory.path}: part 'bm25' says that its ids are {kind!r}, its files do not; "
            "build the index again"
        )


def _consecutive(ints: Int64Array) -> bool:
    return bool((np.diff(ints) == 1).all())


def checked_ids(ids: Iterable[Any], kind: str, n: int | None) -> list[Any]:
    """Ids as a list, of the index's kind, each once. Raises TypeError or ValueError."""
    if isinstance(ids, (str, bytes)):
        raise TypeError("ids is one text; pass a list of ids")
    values = as_list(ids, n)
    checked = SegmentIds.of(values, len(values) if n is None else n)
    if values and (checked.kind == "str") != (kind == "str"):
        wanted = "str" if kind == "str" else "int"
        raise TypeError(
            f"ids[0] is a {type(values[0]).__name__}; the ids of this index are {wanted}"
        )
    return values


def known_ids(ids: Iterable[Any], kind: str) -> list[Any]:
    """Ids to look up, which may repeat. Raises TypeError for those of another kind, KeyError."""
    if isinstance(ids, (str, bytes)):
        raise TypeError("ids is one text; pass a list of ids")
    values = as_list(ids)
    for place, value in enumerate(values):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not (isinstance(value, str) if kind == "str" else whole):
            wanted = "str" if kind == "str" else "int"
            raise TypeError(
                f"ids[{place}] is a {type(value).__name__}; the ids of this index are {wanted}"
            )
        if whole and not -(2**63) <= value < 2**63:
            raise KeyError(f"there is no document {value!r} in the index")
    return values
