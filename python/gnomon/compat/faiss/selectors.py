"""faiss' selectors of ids: which rows a search may return, or ``remove_ids`` removes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .shared import Int64, Mask


class IDSelector:
    """A set of ids."""

    def members(self, ids: Int64) -> Mask:
        """Which of the ids are in the set."""
        raise NotImplementedError(f"{type(self).__name__} must define members")

    def is_member(self, id: int) -> bool:
        """Whether one id is."""
        return bool(self.members(np.array([id], np.int64))[0])


class IDSelectorAll(IDSelector):
    """Every id."""

    def members(self, ids: Int64) -> Mask:
        """All of them."""
        return np.ones(len(ids), np.bool_)


class IDSelectorRange(IDSelector):
    """The ids from ``imin`` to before ``imax``.

    >>> IDSelectorRange(3, 5).is_member(5)
    False
    """

    def __init__(self, imin: int, imax: int, assume_sorted: bool = False):
        self.imin, self.imax, self.assume_sorted = imin, imax, assume_sorted

    def members(self, ids: Int64) -> Mask:
        """Those in the range."""
        return (ids >= self.imin) & (ids < self.imax)


class IDSelectorBatch(IDSelector):
    """The ids of a list.

    >>> IDSelectorBatch([3, 5]).is_member(5)
    True
    """

    def __init__(self, ids: Any):
        self.ids = np.asarray(ids, np.int64)

    def members(self, ids: Int64) -> Mask:
        """Those in the list."""
        return np.isin(ids, self.ids)


class IDSelectorArray(IDSelectorBatch):
    """The same; faiss has two ways to look an id up."""


class IDSelectorBitmap(IDSelector):
    """The ids whose bit is set: of id i, bit i % 8 of byte i // 8 of a uint8 array.

    >>> IDSelectorBitmap(np.packbits([0, 1, 1], bitorder="little")).is_member(2)
    True
    """

    def __init__(self, bitmap: Any):
        self.bitmap = np.asarray(bitmap, np.uint8)

    def members(self, ids: Int64) -> Mask:
        """Those whose bit is set; ids beyond the bitmap are not in the set."""
        byte = ids >> 3
        inside = (byte >= 0) & (byte < len(self.bitmap))
        found = np.zeros(len(ids), np.bool_)
        found[inside] = (self.bitmap[byte[inside]] >> (ids[inside] & 7).astype(np.uint8)) & 1
        return found


class IDSelectorNot(IDSelector):
    """The ids that another selector does not have."""

    def __init__(self, sel: Any):
        self.sel = sel

    def members(self, ids: Int64) -> Mask:
        """Those that are not."""
        return ~members(self.sel, ids)


class _Pair(IDSelector):
    def __init__(self, lhs: Any, rhs: Any):
        self.lhs, self.rhs = lhs, rhs


class IDSelectorAnd(_Pair):
    """The ids of both."""

    def members(self, ids: Int64) -> Mask:
        """Those in both."""
        return members(self.lhs, ids) & members(self.rhs, ids)


class IDSelectorOr(_Pair):
    """The ids of either."""

    def members(self, ids: Int64) -> Mask:
        """Those in one or both."""
        return members(self.lhs, ids) | members(self.rhs, ids)


class IDSelectorXOr(_Pair):
    """The ids of exactly one."""

    def members(self, ids: Int64) -> Mask:
        """Those in one and not in the other."""
        return members(self.lhs, ids) ^ members(self.rhs, ids)


class SearchParameters:
    """``sel``: the rows that a search may return.

    >>> SearchParameters(sel=IDSelectorRange(0, 2)).sel.imax
    2
    """

    def __init__(self, *, sel: Any = None):
        self.sel = sel


def members(selector: Any, ids: Int64) -> Mask:
    """Which ids a selector has: one of these, or any object with ``is_member`` (faiss' own)."""
    if isinstance(selector, IDSelector):
        return selector.members(ids)
    has = getattr(selector, "is_member", None)
    if has is None:
        raise TypeError(f"a selector must have is_member, got a {type(selector).__name__}")
    return np.fromiter((bool(has(value)) for value in ids.tolist()), np.bool_, len(ids))
