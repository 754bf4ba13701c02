"""Fixed windows over a token sequence, each traceable to its place: the auditable baseline."""

from __future__ import annotations

import operator
from typing import Any, Protocol, SupportsIndex, TypedDict


class Sliceable(Protocol):
    """What ``chunk_tokens`` needs of its tokens: a length, and slices of them."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: slice, /) -> Any: ...


class Chunk(TypedDict):
    """One window: the half-open span [start, end) in tokens, and ``tokens[start:end]`` itself."""

    start: int
    end: int
    tokens: Any


def chunk_tokens(tokens: Sliceable, size: SupportsIndex, overlap: SupportsIndex = 0) -> list[Chunk]:
    """Cut `tokens` into windows of `size` tokens that share `overlap` tokens with the one before.

    `tokens` is any sequence of N tokens that can be sliced: a list, tuple, str, or an array of
    shape [N, ...]; the slices keep its kind (those of a numpy array are views). The last window
    ends at N and may be shorter. No tokens give no window.

    Raises ValueError unless 0 <= overlap < size, and TypeError for a `tokens` without a length (an
    iterator: pass ``list(tokens)``) or a `size` or `overlap` that is not an integer.

    >>> for chunk in chunk_tokens(["to", "be", "or", "not"], size=3, overlap=1):
    ...     print(chunk)
    {'start': 0, 'end': 3, 'tokens': ['to', 'be', 'or']}
    {'start': 2, 'end': 4, 'tokens': ['or', 'not']}
    """
    size, overlap = operator.index(size), operator.index(overlap)
    if not 0 <= overlap < size:
        raise ValueError(f"require 0 <= overlap < size, got overlap={overlap} and size={size}")
    if not hasattr(tokens, "__len__"):
        kind = type(tokens).__name__
        raise TypeError(f"tokens must be a sequence with a length, got {kind}; pass list(tokens)")
    n = len(tokens)
    chunks: list[Chunk] = []
    for start in range(0, n, size - overlap):
        end = min(start + size, n)
        chunks.append({"start": start, "end": end, "tokens": tokens[start:end]})
        if end == n:  # a later window would lie wholly inside this one
            break
    return chunks
