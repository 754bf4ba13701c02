"""The options of an analyzer, checked and in one form, so that they can be compared and stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from . import analysis_filters
from .analysis_filters import LUCENE_ENGLISH, STEMMERS, Filters

# Where a preset has filters of its own.
_STEMMER = {"lucene-english": "porter"}
_STOP_WORDS = {"lucene-english": LUCENE_ENGLISH, "bm25s": LUCENE_ENGLISH}
SIDES = ("query", "index")


@dataclass(frozen=True)
class Options:
    """What stands behind the preset. Stop words are a name or the words, sorted."""

    stemmer: str = "none"
    stop_words: str | tuple[str, ...] = ()
    synonyms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    synonyms_at: str = "query"

    @classmethod
    def of(
        cls,
        preset: str,
        stemmer: str | None = None,
        stop_words: str | Collection[str] | None = None,
        synonyms: Mapping[str, str | Collection[str]] | None = None,
        synonyms_at: str = "query",
    ) -> Options:
        """The options as a user writes them. Raises TypeError, ValueError."""
        if stemmer is None:
            stemmer = _STEMMER.get(preset, "none")
        if stop_words is None:
            stop_words = _STOP_WORDS.get(preset, ())
        if stemmer not in STEMMERS:
            raise ValueError(f"stemmer must be one of {', '.join(STEMMERS)}, got {stemmer!r}")
        if synonyms_at not in SIDES:
            raise ValueError(f"synonyms_at must be one of {', '.join(SIDES)}, got {synonyms_at!r}")
        return cls(stemmer, _words(stop_words), _synonyms(synonyms or {}), synonyms_at)

    def filters(self) -> Filters | None:
        """The stop words and the stemmer; None when there is nothing to do. Raises ImportError."""
        if not (self.stemmer != "none" or self.stop_words or self.synonyms):
            return None
        stops = self.stop_words
        words = analysis_filters.stop_words(stops) if isinstance(stops, str) else frozenset(stops)
        return Filters(words, analysis_filters.stemmer(self.stemmer))

    def of_documents(self) -> Options:
        """What of them shows in the tokens of documents."""
        if self.synonyms_at == "index" and self.synonyms:
            return self
        return replace(self, synonyms={}, synonyms_at="query")

    def as_dict(self) -> dict[str, Any]:
        """Each option by its name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def shown(self, usual: Options) -> str:
        """Those that are not as usual, for a repr."""
        return "".join(
            f", {name}={value!r}"
            for name, value in self.as_dict().items()
            if value != getattr(usual, name)
        )


def _words(stop_words: str | Collection[str]) -> str | tuple[str, ...]:
    if isinstance(stop_words, str):
        analysis_filters.stop_words(stop_words)  # an unknown name is an error now
        return stop_words
    if not isinstance(stop_words, Collection):
        raise TypeError(
            f"stop_words must be a name or a list of words, got {type(stop_words).__name__}"
        )
    for word in stop_words:
        if not isinstance(word, str):
            raise TypeError(f"stop_words must hold str, got {type(word).__name__}")
    return tuple(sorted(set(stop_words)))


def _synonyms(synonyms: Mapping[str, str | Collection[str]]) -> dict[str, tuple[str, ...]]:
    if not isinstance(synonyms, Mapping):
        raise TypeError(
            "synonyms must be a mapping from a phrase to its synonyms, got "
            f"{type(synonyms).__name__}"
        )
    found = {}
    for phrase, given in synonyms.items():
        if not isinstance(phrase, str):
            raise TypeError(f"synonyms: a phrase must be a str, got {type(phrase).__name__}")
        others = (given,) if isinstance(given, str) else given
        if not isinstance(others, Collection) or not all(isinstance(each, str) for each in others):
            raise TypeError(f"synonyms of {phrase!r} must be a str or a list of str, got {given!r}")
        found[phrase] = tuple(others)
    return found
