"""The analyzer: one object turns documents and queries into tokens, and is saved with the index.

Presets (specified by `gnomon.reference.analysis`, compiled in cpp/analyze.cpp):

- ``standard-v1``, the default: NFKC, lower case; overlapping character bigrams for Chinese,
  Japanese, Korean, Thai, Lao, Myanmar and Khmer; identifiers as a whole and in parts
  (`max_allowed_packet`, `std::vector`, `allowPublicKeyRetrieval`).
- ``basic-v1``: NFKC, lower case, runs of letters, numbers and marks; bigrams for Chinese, Japanese,
  Korean.

Unicode knowledge that changes text (NFKC, case) is Python's; the compiled part gets two aligned
views of the text and only cuts.
"""

from __future__ import annotations

import functools
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from . import _core

__all__ = ["PRESETS", "Analyzer", "Span"]

PRESETS = ("basic-v1", "standard-v1")

if _core.unicode_version() != unicodedata.unidata_version:
    raise ImportError(
        f"gnomon was built for Unicode {_core.unicode_version()}, this Python has "
        f"{unicodedata.unidata_version}; reinstall gnomon with this Python"
    )


class Span(NamedTuple):
    """A token and where it stands in the original text: code points, half open."""

    token: str
    start: int
    end: int


class Analyzer:
    """Turns text into tokens. `Analyzer(name)` is a preset, `Analyzer.of(function)` your own.

    Immutable and safe to share between threads. Presets are equal when their names are.

    Raises ValueError for a name that is not in `PRESETS`.

    >>> Analyzer().tokens("Set max_allowed_packet")
    ['set', 'max_allowed_packet', 'max', 'allowed', 'packet']
    >>> Analyzer("basic-v1").tokens("Set max_allowed_packet")
    ['set', 'max', 'allowed', 'packet']
    """

    __slots__ = ("_function", "name")

    name: str
    _function: Callable[[str], Iterable[str]] | None

    def __init__(self, name: str = "standard-v1") -> None:
        if name not in PRESETS:
            raise ValueError(_unknown_preset(name))
        self.name = name
        self._function = None

    @classmethod
    def of(cls, function: Callable[[str], Iterable[str]]) -> Analyzer:
        """Make an analyzer of a callable from a text to its tokens.

        An index records only its qualified name; loading the index needs the callable again. It has
        no spans, so nothing is highlighted.

        Raises TypeError when `function` is not callable.

        >>> Analyzer.of(str.split).tokens("Two words")
        ['Two', 'words']
        """
        if not callable(function):
            raise TypeError(
                f"function must be a callable from a str to its tokens, got {function!r}"
            )
        analyzer = cls.__new__(cls)
        named = function if hasattr(function, "__qualname__") else type(function)
        analyzer.name = f"{getattr(named, '__module__', None) or 'builtins'}.{named.__qualname__}"
        analyzer._function = function
        return analyzer

    @property
    def custom(self) -> bool:
        """Whether this is a user's callable, not a preset."""
        return self._function is not None

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of `text`, in order, repeats kept.

        Raises TypeError when `text` is not a str, or when a user's callable gives anything but str
        tokens.

        >>> Analyzer().tokens("Ｆｕｌｌ-width ﬁsh")
        ['full', 'width', 'fish']
        """
        if self._function is not None:
            return self._custom_tokens(self._function, text)
        cased, lowered = self.views(text)
        return _core.tokenize(self.name, cased, lowered)

    def views(self, text: str) -> tuple[str, str]:
        """Return `text` in NFKC, and the same in lower case: equally long, aligned by code point.

        The tokenizer's input. ASCII text is returned as it is, twice: C++ makes its lower case.
        U+0130, whose lower case is two code points, is spelled out in both.

        >>> Analyzer().views("Ａ Σ")
        ('A Σ', 'a σ')
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}; decode bytes first")
        if text.isascii():
            return text, text
        cased = _cased(text)
        return cased, cased.lower()

    def spans(self, text: str) -> list[Span]:
        """Return each token with its place in `text`, in the order of `tokens`.

        An identifier and its parts overlap. Where normalisation changed the text, a span covers the
        characters that the token came out of; several tokens may come out of one character.

        Raises ValueError for a user's callable, which does not say where its tokens stand.

        >>> for span in Analyzer().spans("ﬁsh ½"):
        ...     print(span)
        Span(token='fish', start=0, end=3)
        Span(token='1', start=4, end=5)
        Span(token='2', start=4, end=5)
        """
        if self._function is not None:
            raise ValueError(
                f"analyzer {self.name} is a callable and has no spans; use a preset "
                f"({', '.join(PRESETS)}) where spans are needed"
            )
        cased, lowered = self.views(text)
        found = _core.token_spans(self.name, cased, lowered)
        if cased == text:
            return [Span(*each) for each in found]
        starts, ends = _origin(text)
        return [Span(token, starts[start], ends[end - 1]) for token, start, end in found]

    def match_spans(self, text: str, terms: Collection[str]) -> list[tuple[int, int]]:
        """Return where tokens of `terms` stand in `text`, ascending, overlapping ones as one.

        Raises ValueError for a user's callable, as `spans`.

        >>> Analyzer().match_spans("Use std::vector, not vector<T>", {"vector"})
        [(9, 15), (21, 27)]
        """
        wanted = terms if isinstance(terms, set | frozenset) else frozenset(terms)
        merged: list[tuple[int, int]] = []
        for start, end in sorted(
            (start, end) for token, start, end in self.spans(text) if token in wanted
        ):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def to_meta(self) -> dict[str, Any]:
        """Return what an index stores of its analyzer, for `from_meta`.

        >>> sorted(Analyzer().to_meta())
        ['name', 'unicode']
        """
        if self.custom:
            return {"name": self.name, "custom": True}
        return {"name": self.name, "unicode": _core.unicode_version()}

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], analyzer: Analyzer | None = None) -> Analyzer:
        """Return the analyzer that `meta` describes; `analyzer` is the one the user gives at load.

        Raises ValueError for an unknown preset, for a preset that `analyzer` contradicts, and for a
        user's callable when no `analyzer` is given. Warns (UserWarning) when the index was built
        with another Unicode version, or with a callable of another name.

        >>> Analyzer.from_meta(Analyzer("basic-v1").to_meta()).name
        'basic-v1'
        """
        name = meta.get("name")
        if meta.get("custom"):
            if analyzer is None:
                raise ValueError(
                    f"the index was built with the callable {name}, which cannot be stored; "
                    "pass it at load: analyzer=Analyzer.of(function)"
                )
            if analyzer.name != name:
                warnings.warn(
                    f"the index was built with the analyzer {name}, {analyzer.name} was given; "
                    "queries match only what both cut alike",
                    UserWarning,
                    stacklevel=2,
                )
            return analyzer
        if not isinstance(name, str) or name not in PRESETS:
            raise ValueError(_unknown_preset(name))
        if analyzer is not None and (analyzer.custom or analyzer.name != name):
            raise ValueError(
                f"analyzer must be the one the index was built with, {name}, got {analyzer.name}; "
                "leave analyzer out, or build the index anew"
            )
        if meta.get("unicode") != _core.unicode_version():
            warnings.warn(
                f"the index was built with Unicode {meta.get('unicode')}, this Python has Unicode "
                f"{_core.unicode_version()}; characters new in either may be cut in another way, "
                "build the index anew to be sure",
                UserWarning,
                stacklevel=2,
            )
        return cls(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Analyzer):
            return NotImplemented
        return self.name == other.name and self._function == other._function

    def __hash__(self) -> int:
        return hash((self.name, self._function))

    def __repr__(self) -> str:
        return f"Analyzer.of({self.name})" if self.custom else f"Analyzer({self.name!r})"

    def _custom_tokens(self, function: Callable[[str], Iterable[str]], text: str) -> list[str]:
        found = function(text)
        if isinstance(found, str):
            raise TypeError(f"analyzer {self.name} must return the tokens of a text, got one str")
        found = list(found)
        for token in found:
            if not isinstance(token, str):
                raise TypeError(
                    f"analyzer {self.name} must return str tokens, got {type(token).__name__}"
                )
        return found


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


def _origin(text: str) -> tuple[list[int], list[int]]:
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


def _unknown_preset(name: object) -> str:
    return (
        f"analyzer must be one of {', '.join(PRESETS)}, got {name!r}; see Analyzer.of for your own"
    )
