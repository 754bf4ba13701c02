"""The analyzer: one object turns documents and queries into tokens, and is saved with the index.

Presets (specified by `gnomon.reference.analysis`, compiled in cpp/analyze.cpp):

- ``standard-v1``, the default: NFKC, lower case; overlapping character bigrams for Chinese,
  Japanese, Korean, Thai, Lao, Myanmar and Khmer; identifiers as a whole and in parts
  (`max_allowed_packet`, `std::vector`, `allowPublicKeyRetrieval`).
- ``basic-v1``: NFKC, lower case, runs of letters, numbers and marks; bigrams for Chinese, Japanese,
  Korean.
- ``bm25s``: what `bm25s.tokenize` gives: runs of at least two letters, digits and "_" in lower
  case, without the 33 stop words of ``lucene-english``.
- ``lucene-english``: what Lucene's EnglishAnalyzer gives: words by UAX #29, no possessive 's, lower
  case, without its 33 stop words, stemmed by Porter's algorithm.

A stemmer, stop words and synonyms can be put behind any of them. Unicode knowledge that changes
text (NFKC, case) is Python's; the compiled part gets two aligned views of the text and only cuts.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from . import _core, analysis_meta
from .analysis_filters import Filters
from .analysis_options import Options
from .analysis_text import PRESETS, core_views, origin, views

__all__ = ["PRESETS", "Analyzer", "Span"]


class Span(NamedTuple):
    """A token and where it stands in the original text: code points, half open."""

    token: str
    start: int
    end: int


class Analyzer:
    """Turns text into tokens. `Analyzer(name)` is a preset, `Analyzer.of(function)` your own.

    Immutable and safe to share between threads. Equal when all options are.

    Parameters
    ----------
    name
        One of `PRESETS`.
    stemmer
        ``"porter"``, or a Snowball language (``"english"``, ``"arabic"``, ``"german"``, ...; needs
        the extra ``stem``), or ``"none"``; what the preset has when not given. It leaves whole
        identifiers as they are (`allowPublicKeys`, `std::vectors`) and stems their parts.
    stop_words
        A language (``"english"``, ``"arabic"``, ...: the Snowball project's lists, Jacques Savoy's
        for Arabic), ``"lucene-english"``, or your own words; what the preset has when not given,
        ``[]`` for none. Compared with tokens before stemming; a word of yours that the preset would
        cut in two matches nothing.
    synonyms
        A mapping from a word or phrase to its synonym or a list of them, each a word or phrase, all
        cut and stemmed as texts are. One way: write both ways for both. Where the phrase stands,
        the tokens of its synonyms are added behind it with its span; longest phrase first.
    synonyms_at
        ``"query"``: queries are expanded, documents are not, so that synonyms can change without a
        rebuild. ``"index"``: the other way round, which makes documents longer.

    Raises
    ------
    TypeError, ValueError
        Naming the option at fault.
    ImportError
        For a Snowball stemmer without PyStemmer.

    Examples
    --------
    >>> Analyzer().tokens("Set max_allowed_packet")
    ['set', 'max_allowed_packet', 'max', 'allowed', 'packet']
    >>> Analyzer("basic-v1").tokens("Set max_allowed_packet")
    ['set', 'max', 'allowed', 'packet']
    >>> Analyzer("lucene-english").tokens("The foxes' jumping")
    ['fox', 'jump']
    >>> car = Analyzer(stemmer="porter", stop_words="english", synonyms={"cars": "motor vehicles"})
    >>> car.tokens("the cars"), car.query_tokens("the cars")
    (['car'], ['car', 'motor', 'vehicl'])
    """

    __slots__ = ("_filters", "_function", "_options", "name")

    name: str
    _options: Options
    _filters: Filters | None  # None where tokens stay as they were cut
    _function: Callable[[str], Iterable[str]] | None

    def __init__(
        self,
        name: str = "standard-v1",
        *,
        stemmer: str | None = None,
        stop_words: str | Collection[str] | None = None,
        synonyms: Mapping[str, str | Collection[str]] | None = None,
        synonyms_at: str = "query",
    ) -> None:
        if name not in PRESETS:
            raise ValueError(_unknown_preset(name))
        self.name = name
        self._options = Options.of(name, stemmer, stop_words, synonyms, synonyms_at)
        self._filters = self._options.filters()
        self._function = None
        if self._filters is not None:
            self._filters.set_synonyms(self._options.synonyms, self._plain_tokens)

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
        analyzer._options = Options()
        analyzer._filters = None
        return analyzer

    @property
    def custom(self) -> bool:
        """Whether this is a user's callable, not a preset."""
        return self._function is not None

    @property
    def options(self) -> dict[str, Any]:
        """Stemmer, stop words and synonyms as they apply, the preset's own included.

        >>> Analyzer("bm25s").options
        {'stemmer': 'none', 'stop_words': 'lucene-english', 'synonyms': {}, 'synonyms_at': 'query'}
        """
        return self._options.as_dict()

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a document, in order, repeats kept.

        Raises TypeError when `text` is not a str, or when a user's callable gives anything but str
        tokens.

        >>> Analyzer().tokens("Ｆｕｌｌ-width ﬁsh")
        ['full', 'width', 'fish']
        """
        return self._tokens(text, "index")

    def query_tokens(self, text: str) -> list[str]:
        """Return the tokens of a query: as `tokens`, but for synonyms.

        >>> Analyzer(synonyms={"k8s": "kubernetes"}).query_tokens("k8s pods")
        ['k8s', 'kubernetes', 'pods']
        """
        return self._tokens(text, "query")

    def _tokens(self, text: str, side: str) -> list[str]:
        if self._function is not None:
            return self._custom_tokens(self._function, text)
        if self._filters is None:
            return _core.tokenize(self.name, *self.core_views(text))
        if self._filters.rules and self._options.synonyms_at == side:
            return [token for token, _, _ in self._filters.expand(self._filtered(text))]
        return self._plain_tokens(text)

    def _plain_tokens(self, text: str) -> list[str]:
        return [token for token, _, _ in self._filtered(text)]

    def _filtered(self, text: str) -> list[tuple[str, int, int]]:
        """Tokens without stop words, stemmed, with places in the first view."""
        assert self._filters is not None
        found = _core.marked_spans(self.name, *self.core_views(text))
        kept = self._filters.resolve([each[0] for each in found], [each[3] for each in found])
        return [
            (token, start, end)
            for token, (_, start, end, _) in zip(kept, found, strict=True)
            if token is not None
        ]

    def views(self, text: str) -> tuple[str, str]:
        """Return `text` as it is cut, and the same in lower case: aligned by code point.

        What the preset does before: NFKC, spelled-out U+0130, or nothing.

        >>> Analyzer().views("Ａ Σ")
        ('A Σ', 'a σ')
        """
        return views(self.name, text)

    def core_views(self, text: str) -> tuple[str, str]:
        """Return what the core's tokenizer needs of :meth:`views`, which is less and sooner made.

        >>> Analyzer().core_views("\u00c4rger")
        ('\u00c4rger', '\u00c4rger')
        """
        return core_views(self.name, text)

    def spans(self, text: str) -> list[Span]:
        """Return each token of a document with its place in `text`, in the order of `tokens`.

        An identifier and its parts overlap. Where normalisation changed the text, a span covers the
        characters that the token came out of; several tokens may come out of one character. A
        synonym has the span of what it was added to.

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
        if self._filters is None:
            found = _core.token_spans(self.name, cased, lowered)
        else:
            found = self._filtered(text)
            if self._options.synonyms_at == "index":
                found = self._filters.expand(found)
        moved = origin(self.name, text, cased)
        if moved is None:
            return [Span(*each) for each in found]
        starts, ends = moved
        return [Span(token, starts[start], ends[end - 1]) for token, start, end in found]

    def adder(self, builder: _core.Bm25Builder) -> Callable[[list[str], list[str]], None]:
        """Return what takes the views of texts (:meth:`views`) into `builder`, one after the other.

        What it has learnt of tokens it keeps: make it once for a builder.
        """
        filters = self._filters
        if filters is None:
            return functools.partial(_add_texts, builder, self.name)
        rules = filters.rules if self._options.synonyms_at == "index" else ()
        # Porter's needs no Python, so that it runs without the GIL.
        stem = "porter" if self._options.stemmer == "porter" else filters.stem
        return _core.FilteredTexts(builder, self.name, sorted(filters.stops), stem, rules).add

    @property
    def in_core(self) -> bool:
        """Whether documents are analysed without Python, and so by several threads at once."""
        stems_in_python = self._filters is not None and self._options.stemmer not in (
            None,
            "porter",
        )
        return not self.custom and not stems_in_python

    def feed(self, builder: _core.Bm25Builder) -> Callable[[list[str]], Callable[[], None]]:
        """Return what takes documents into `builder`, in two steps.

        Called with texts it makes their views, for which Python is needed; what it returns cuts and
        adds them, most of the time without the GIL. The second steps must run in order.
        """
        add = self.adder(builder)

        def first_step(texts: list[str]) -> Callable[[], None]:
            both = [self.core_views(text) for text in texts]
            return functools.partial(
                add, [cased for cased, _ in both], [lowered for _, lowered in both]
            )

        return first_step

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
        >>> sorted(Analyzer(stemmer="porter").to_meta()["filters"])
        ['stemmer', 'stop_words', 'synonyms', 'synonyms_at', 'version']
        """
        if self.custom:
            return {"name": self.name, "custom": True}
        meta: dict[str, Any] = {"name": self.name, "unicode": _core.unicode_version()}
        if self._options != Options.of(self.name):
            meta["filters"] = analysis_meta.to_meta(self._options)
        return meta

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], analyzer: Analyzer | None = None) -> Analyzer:
        """Return the analyzer that `meta` describes; `analyzer` is the one the user gives at load.

        A given preset must be the one that was stored, options included, but for synonyms that are
        applied to queries: the given ones count.

        Raises ValueError for unknown names, for a preset that `analyzer` contradicts, and for a
        user's callable when no `analyzer` is given; CorruptIndex for damaged options. Warns
        (UserWarning) when the index was built with another Unicode version, with another version of
        a stemmer or of a list of stop words, or with a callable of another name.

        >>> Analyzer.from_meta(Analyzer("basic-v1").to_meta()).name
        'basic-v1'
        """
        name = meta.get("name")
        if meta.get("custom"):
            return _custom_of_meta(name, analyzer)
        if not isinstance(name, str) or name not in PRESETS:
            raise ValueError(_unknown_preset(name))
        stored = cls(name, **analysis_meta.from_meta(meta.get("filters")))
        if analyzer is not None and not analyzer._cuts_like(stored):
            raise ValueError(
                f"analyzer must be the one the index was built with, {stored!r}, got {analyzer!r}; "
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
        return stored if analyzer is None else analyzer

    def _cuts_like(self, other: Analyzer) -> bool:
        """Whether documents give the same tokens."""
        same = (self.name, self._function) == (other.name, other._function)
        return same and self._options.of_documents() == other._options.of_documents()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Analyzer):
            return NotImplemented
        mine = (self.name, self._function, self._options)
        return mine == (other.name, other._function, other._options)

    def __hash__(self) -> int:
        return hash((self.name, self._function, self._options.stemmer))

    def __repr__(self) -> str:
        if self.custom:
            return f"Analyzer.of({self.name})"
        return f"Analyzer({self.name!r}{self._options.shown(Options.of(self.name))})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._function is not None:
            return Analyzer.of, (self._function,)
        return _preset, (self.name, self._options.as_dict())

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


def _add_texts(
    builder: _core.Bm25Builder, preset: str, cased: list[str], lowered: list[str]
) -> None:
    builder.add_texts(cased, lowered, preset)


def _preset(name: str, options: dict[str, Any]) -> Analyzer:
    return Analyzer(name, **options)


def _custom_of_meta(name: object, analyzer: Analyzer | None) -> Analyzer:
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
            stacklevel=3,
        )
    return analyzer


def _unknown_preset(name: object) -> str:
    return (
        f"analyzer must be one of {', '.join(PRESETS)}, got {name!r}; see Analyzer.of for your own"
    )
