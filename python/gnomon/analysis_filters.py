"""What happens to tokens after a text was cut: stop words, stemmers, synonyms.

Stop words go first; then a stemmer changes what is left, but no whole identifier; then synonyms
add tokens. The specification is `gnomon.reference.analysis_filters`.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import resources

from . import _core

STOP_WORD_LANGUAGES = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "hungarian"),
    *("italian", "norwegian", "portuguese", "russian", "spanish", "swedish"),
)
LUCENE_ENGLISH = "lucene-english"
_LUCENE_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)
# Of the Snowball project; "porter" is compiled in and needs no package.
SNOWBALL = (
    *("arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "dutch_porter"),
    *("english", "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi"),
    *("hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian"),
    *("persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho", "spanish"),
    *("swedish", "tamil", "turkish", "yiddish"),
)
STEMMERS = ("none", "porter", *SNOWBALL)

Stem = Callable[[list[str]], list[str]]
Rule = tuple[tuple[str, ...], tuple[str, ...]]  # a sequence of tokens, and what it adds


def stop_words(name: str) -> frozenset[str]:
    """The stop words of a language, or Lucene's 33 English ones.

    Raises ValueError for a name that is neither.

    >>> sorted(stop_words("german"))[:3]
    ['aber', 'alle', 'allem']
    >>> len(stop_words("lucene-english"))
    33
    """
    if name == LUCENE_ENGLISH:
        return _LUCENE_STOP_WORDS
    if name not in STOP_WORD_LANGUAGES:
        raise ValueError(
            f"stop_words must be a list of words or one of {LUCENE_ENGLISH}, "
            f"{', '.join(STOP_WORD_LANGUAGES)}, got {name!r}"
        )
    return _shipped(name)


@functools.cache
def _shipped(language: str) -> frozenset[str]:
    file = resources.files("gnomon") / "stop_words" / f"{language}.txt"
    lines = file.read_text(encoding="utf-8").split("\n")
    return frozenset(line for line in lines if line and not line.startswith("#"))


def digest(words: Collection[str]) -> str:
    """What tells two lists of stop words apart in an index's metadata."""
    return hashlib.sha256("\n".join(sorted(words)).encode("utf-8")).hexdigest()


def stemmer(name: str) -> Stem | None:
    """The function that stems a list of words; None for "none".

    Raises ValueError for an unknown name, ImportError naming the extra when PyStemmer is missing.

    >>> stemmer("porter")(["running", "skies"])
    ['run', 'ski']
    """
    if name == "none":
        return None
    if name == "porter":
        return _core.porter_stems
    if name not in SNOWBALL:
        raise ValueError(f"stemmer must be one of {', '.join(STEMMERS)}, got {name!r}")
    return _Snowball(name)


class _Snowball:
    """A Snowball stemmer. PyStemmer's own object must not be shared between threads."""

    def __init__(self, language: str) -> None:
        try:
            import Stemmer
        except ImportError:
            raise ImportError(
                f'the stemmer "{language}" needs PyStemmer: pip install "gnomon[stem]"; '
                'stemmer="porter" needs nothing'
            ) from None
        if language not in Stemmer.algorithms():
            raise ValueError(
                f"the stemmer {language!r} is not in PyStemmer {Stemmer.version()}; upgrade it"
            )
        self._make = functools.partial(Stemmer.Stemmer, language, 0)
        self._of_thread = threading.local()

    def __call__(self, words: list[str]) -> list[str]:
        own = getattr(self._of_thread, "stemmer", None)
        if own is None:
            own = self._of_thread.stemmer = self._make()
        stems: list[str] = own.stemWords(words)
        return stems


def snowball_version() -> str | None:
    """The version of PyStemmer; None when it is not installed."""
    try:
        import Stemmer
    except ImportError:
        return None
    return str(Stemmer.version())


class Filters:
    """Stop words and stemmer as one function of a token, and synonyms over the tokens of a text."""

    def __init__(self, stops: frozenset[str], stem: Stem | None) -> None:
        self.stops = stops
        self.stem = stem
        self.rules: tuple[Rule, ...] = ()
        self._by_first: dict[str, list[Rule]] = {}

    def set_synonyms(
        self, synonyms: Mapping[str, Sequence[str]], cut: Callable[[str], list[str]]
    ) -> None:
        """Take over the synonyms, cut and filtered as texts are.

        Raises ValueError for one of which the analyzer leaves nothing.
        """
        added: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
        for phrase, others in synonyms.items():
            key = tuple(cut(phrase))
            if not key:
                raise ValueError(f"synonyms: the analyzer leaves nothing of {phrase!r}; remove it")
            for other in others:
                tokens = tuple(cut(other))
                if not tokens:
                    raise ValueError(
                        f"synonyms: the analyzer leaves nothing of {other!r}, a synonym of "
                        f"{phrase!r}; remove it"
                    )
                added.setdefault(key, {}).setdefault(tokens)
        self.rules = tuple(
            (key, tuple(token for other in others for token in other))
            for key, others in sorted(added.items(), key=lambda rule: (-len(rule[0]), rule[0]))
        )
        for rule in self.rules:
            self._by_first.setdefault(rule[0][0], []).append(rule)

    def resolve(self, tokens: list[str], wholes: list[bool]) -> list[str | None]:
        """What becomes of each token: None for a stop word. A stem of nothing leaves the token."""
        kept: list[str | None] = [None if token in self.stops else token for token in tokens]
        if self.stem is None:
            return kept
        places = [at for at, token in enumerate(kept) if token is not None and not wholes[at]]
        for at, stem in zip(places, self.stem([tokens[at] for at in places]), strict=True):
            kept[at] = stem or tokens[at]
        return kept

    def expand(self, tokens: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
        """Add synonyms behind what they are synonyms of, with its span.

        From left to right, the longest phrase first; a token is part of one phrase at most.
        """
        given = list(tokens)
        if not self._by_first:
            return given
        found: list[tuple[str, int, int]] = []
        at = 0
        while at < len(given):
            key, others = self._match(given, at)
            here = given[at : at + max(len(key), 1)]
            found.extend(here)
            start, end = min(each[1] for each in here), max(each[2] for each in here)
            found.extend((other, start, end) for other in others)
            at += len(here)
        return found

    def _match(self, tokens: list[tuple[str, int, int]], at: int) -> Rule:
        for key, others in self._by_first.get(tokens[at][0], ()):
            if tuple(each[0] for each in tokens[at : at + len(key)]) == key:
                return key, others
        return (), ()
