"""The options of an analyzer in an index's metadata. A manifest can be forged: all is checked."""

from __future__ import annotations

import warnings
from typing import Any

from ._core import CorruptIndex
from .analysis_filters import LUCENE_ENGLISH, SNOWBALL, digest, snowball_version, stop_words
from .analysis_options import Options

_VERSION = 1
_KEYS = {"version", "stemmer", "stop_words", "synonyms", "synonyms_at"}
_OPTIONAL = {"snowball", "stop_words_sha256"}


def to_meta(options: Options) -> dict[str, Any]:
    """What is stored of options that are not the preset's own.

    With a Snowball stemmer also its version, with named stop words what tells the list apart.
    """
    meta: dict[str, Any] = {
        "version": _VERSION,
        "stemmer": options.stemmer,
        "stop_words": options.stop_words,
        "synonyms": [[phrase, list(others)] for phrase, others in options.synonyms.items()],
        "synonyms_at": options.synonyms_at,
    }
    if options.stemmer in SNOWBALL:
        meta["snowball"] = snowball_version()
    if not isinstance(options.stop_words, str):
        meta["stop_words"] = list(options.stop_words)
    elif options.stop_words != LUCENE_ENGLISH:
        meta["stop_words_sha256"] = digest(stop_words(options.stop_words))
    return meta


def from_meta(meta: object) -> dict[str, Any]:
    """The keyword arguments of the Analyzer that `meta` describes; none for None.

    Raises CorruptIndex for what `to_meta` never writes, ValueError for another version. Warns
    (UserWarning) when the stemmer or the list of stop words is another one now.
    """
    if meta is None:
        return {}
    if not isinstance(meta, dict) or not _KEYS <= meta.keys() <= _KEYS | _OPTIONAL:
        raise _damaged(f"it must have the keys {', '.join(sorted(_KEYS))}, found {meta!r}")
    if type(meta["version"]) is not int or meta["version"] != _VERSION:
        raise ValueError(
            f"the index's analyzer has filters of version {meta['version']!r}, this gnomon knows "
            f"version {_VERSION}; open the index with a newer gnomon"
        )
    synonyms = {}
    for entry in _list(meta["synonyms"], "synonyms"):
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)):
            raise _damaged(f"a synonym is a phrase and a list, found {entry!r}")
        synonyms[entry[0]] = _words(entry[1], "synonyms")
    stops = meta["stop_words"]
    options = {
        "stemmer": _str(meta["stemmer"], "stemmer"),
        "stop_words": stops if isinstance(stops, str) else _words(stops, "stop_words"),
        "synonyms": synonyms,
        "synonyms_at": _str(meta["synonyms_at"], "synonyms_at"),
    }
    _warn_of_versions(meta, options)
    return options


def _warn_of_versions(meta: dict[str, Any], options: dict[str, Any]) -> None:
    changed = None
    now = snowball_version()
    if options["stemmer"] in SNOWBALL and now is not None and meta.get("snowball") != now:
        changed = f"PyStemmer {meta.get('snowball')}, now it is {now}"
    stops = options["stop_words"]
    named = isinstance(stops, str) and stops != LUCENE_ENGLISH
    if named and meta.get("stop_words_sha256") != digest(stop_words(stops)):
        changed = f'another list of "{stops}" stop words'
    if changed:
        warnings.warn(
            f"the index was built with {changed}; some query words may miss their documents, "
            "build the index anew to be sure",
            UserWarning,
            stacklevel=4,
        )


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise _damaged(f"{name} must be a list, found {value!r}")
    return value


def _words(value: object, name: str) -> list[str]:
    words = _list(value, name)
    if not all(isinstance(word, str) for word in words):
        raise _damaged(f"{name} must hold words, found {value!r}")
    return words


def _str(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _damaged(f"{name} must be a name, found {value!r}")
    return value


def _damaged(what: str) -> CorruptIndex:
    return CorruptIndex(f"the index's analyzer is damaged: {what}; build the index again")
