"""Sets of documents as packed words: bit d % 64 of word d / 64, as cpp/doc_set.hpp has them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["count", "empty", "full", "members", "pack", "unpack"]

Words = npt.NDArray[np.uint64]

assert sys.byteorder == "little", "packed words are read byte by byte"


def pack(mask: npt.NDArray[np.bool_]) -> Words:
    """uint64 words of a bool array.

    >>> pack(np.array([True, False, True])).tolist()
    [5]
    """
    words = np.zeros((mask.size + 63) // 64, dtype=np.uint64)
    packed = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: packed.size] = packed
    return words


def unpack(words: Words, n: int) -> npt.NDArray[np.bool_]:
    """Bool [n] of the words."""
    return np.unpackbits(words.view(np.uint8), count=n, bitorder="little").view(np.bool_)


def empty(n: int) -> Words:
    """The set of none of n documents."""
    return np.zeros((n + 63) // 64, dtype=np.uint64)


def full(n: int) -> Words:
    """The set of all of n documents; bits behind the last one are 0."""
    words = np.full((n + 63) // 64, np.uint64(0xFFFFFFFFFFFFFFFF))
    if n % 64:
        words[-1] = np.uint64((1 << (n % 64)) - 1)
    return words


def of_members(docs: npt.NDArray[Any], n: int) -> Words:
    """The set of these documents, each below n."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[docs] = True
    return pack(mask)


def members(words: Words, n: int) -> npt.NDArray[np.int64]:
    """The documents of the set, ascending. Costs a pass over the words and one over their bits."""
    if words.size > 256 and np.count_nonzero(words) * 8 < words.size:
        used = np.nonzero(words)[0]
        bits = np.unpackbits(words[used].view(np.uint8), bitorder="little").reshape(-1, 64)
        row, bit = np.nonzero(bits)
        found: npt.NDArray[np.int64] = used[row] * 64 + bit
        return found
    return np.nonzero(unpack(words, n))[0]


def count(words: Words) -> int:
    """How many documents the set has."""
    return int(_BITS[words.view(np.uint8)].sum())


_BITS = np.array([bin(byte).count("1") for byte in range(256)], dtype=np.uint8).astype(np.int64)
