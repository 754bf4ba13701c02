"""Windows of `size` tokens, each beginning `size - overlap` after the one before.

Spans are half open, [start, end), in tokens. The last window ends where the tokens end, and no
window lies wholly inside the overlap of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def chunk_tokens(tokens: Sequence[Any], size: int, overlap: int = 0) -> list[dict[str, Any]]:
    """The windows in order, as ``{"start", "end", "tokens"}``; none when there are no tokens.

    Raises ValueError unless 0 <= overlap < size.

    >>> [(chunk["start"], chunk["end"]) for chunk in chunk_tokens("abcdefg", size=4, overlap=1)]
    [(0, 4), (3, 7)]
    """
    if not 0 <= overlap < size:
        raise ValueError(f"require 0 <= overlap < size, got overlap={overlap} and size={size}")
    chunks: list[dict[str, Any]] = []
    start = 0
    while start + (overlap if chunks else 0) < len(tokens):
        end = min(start + size, len(tokens))
        chunks.append({"start": start, "end": end, "tokens": tokens[start:end]})
        start += size - overlap
    return chunks
