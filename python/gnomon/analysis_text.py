"""What each preset does to a text before it is cut: normal form, case, and the way back."""

from __future__ import annotations

import functools
import unicodedata

from . import _core

PRESETS = ("basic-v1", "standard-v1", "bm25s", "lucene-english")

if _core.unicode_version() != unicodedata.unidata_version:
    raise ImportError(
        f"gnomon was built for Unicode {_core.unicode_version()}, this Python has "
        f"{unicodedata.unidata_version}; reinstall gnomon with this Python"
    )


def views(preset: str, text: str) -> tuple[str, str]:
    """`text` as it is cut, and the same in lower case: equally long, aligned by code point.

    Raises TypeError when `text` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}; decode bytes first")
    if text.isascii():
        return text, text
    if preset == "lucene-english":
        # Java's Character.toLowerCase: each character for itself, to one character.
        return text, text.replace("Σ", "σ").replace("\u0130", "i").lower()
    if preset == "bm25s":
        lowered = text.lower()
        return lowered, lowered
    cased = _cased(text)
    return cased, cased.lower()


def core_views(preset: str, text: str) -> tuple[str, str]:
    """What the core needs of `views`: it makes the lower case of a single character itself.

    That leaves to Python what is not one character for one, U+0130, and what depends on its
    neighbours, U+03A3 (except in "lucene-english").
    """
    if isinstance(text, str) and not text.isascii():
        if preset == "lucene-english":
            if "\u0130" not in text:
                return text, text
        elif preset == "bm25s":
            if "\u0130" not in text and "\u03a3" not in text:
                return text, text
        else:
            cased = _cased(text)
            return cased, cased.lower() if "\u03a3" in cased else cased
    return views(preset, text)


def origin(preset: str, text: str, cased: str) -> tuple[list[int], list[int]] | None:
    """Where each code point of the cut text starts and ends in `text`; None where none moved."""
    if cased == text or preset == "lucene-english":
        return None
    if preset == "bm25s":
        return _lower_origin(text) if len(cased) != len(text) else None
    return _nfkc_origin(text)


def _lower_origin(text: str) -> tuple[list[int], list[int]]:
    starts = [at for at, char in enumerate(text) for _ in char.lower()]
    return starts, [at + 1 for at in starts]


def _nfkc(text: str) -> str:
    """Return NFKC of `text`, about five times faster than unicodedata on Chinese and Japanese.

    There a comma or full stop of full width stands in every sentence, so no text is normalised,
    but nearly all of its characters are. Those are copied; each of the few others is normalised for
    itself, where nothing can depend on its neighbours.
    """
    pieces = []
    done = 0
    for start, end in _core.unstable_segments(text):
        pieces.append(text[done:start])
        segment = text[start:end]
        # The cache holds no long segments: whoever sends them could fill memory with it.
        pieces.append(
            _nfkc_cached(segment) if end - start <= 4 else unicodedata.normalize("NFKC", segment)
        )
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


@functools.lru_cache(maxsize=4096)
def _nfkc_cached(segment: str) -> str:
    return unicodedata.normalize("NFKC", segment)


def _nfkc_origin(text: str) -> tuple[list[int], list[int]]:
    """Where each code point of the cased view starts and ends in `text`.

    A code point that normalisation made out of a segment has the place of the whole segment, every
    other one its own.
    """
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for start, end in [*_core.unstable_segments(text), (len(text), len(text))]:
        starts.extend(range(done, start))
        ends.extend(range(done + 1, start + 1))
        segment = text[start:end]
        cased = _cased(segment)
        if cased == segment:
            starts.extend(range(start, end))
            ends.extend(range(start + 1, end + 1))
        else:
            starts.extend([start] * len(cased))
            ends.extend([end] * len(cased))
        done = end
    return starts, ends


def _cased(text: str) -> str:
    if not unicodedata.is_normalized("NFKC", text):
        text = _nfkc(text)
    return text.replace("\u0130", "i\u0307") if "\u0130" in text else text
