"""bm25s' tokenizers: the same strings and the same ids, without its progress bars."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..._atomic import replacing
from ...analysis_filters import LUCENE_ENGLISH
from ...analysis_filters import stop_words as named_stop_words

PATTERN = r"(?u)\b\w\w+\b"

# Where bm25s keeps the lists of other languages; they are read from it, not copied.
_LANGUAGES = {
    **dict.fromkeys(("english_plus", "en_plus"), "EN_PLUS"),
    **dict.fromkeys(("german", "de"), "GERMAN"),
    **dict.fromkeys(("dutch", "nl"), "DUTCH"),
    **dict.fromkeys(("french", "fr"), "FRENCH"),
    **dict.fromkeys(("spanish", "es"), "SPANISH"),
    **dict.fromkeys(("portuguese", "pt"), "PORTUGUESE"),
    **dict.fromkeys(("italian", "it"), "ITALIAN"),
    **dict.fromkeys(("russian", "ru"), "RUSSIAN"),
    **dict.fromkeys(("swedish", "sv"), "SWEDISH"),
    **dict.fromkeys(("norwegian", "no"), "NORWEGIAN"),
    **dict.fromkeys(("chinese", "zh"), "CHINESE"),
    **dict.fromkeys(("turkish", "tr"), "TURKISH"),
    **dict.fromkeys(("korean", "ko"), "KOREAN"),
    **dict.fromkeys(("danish", "da"), "DANISH"),
}


class Tokenized(NamedTuple):
    """Token ids of each text, and the id of each token.

    >>> Tokenized([[0]], {"cat": 0}).vocab
    {'cat': 0}
    """

    ids: list[list[int]]
    vocab: dict[str, int]

    def __repr__(self) -> str:
        """At most ten texts, ten ids of each and ten words."""
        texts = [_shortened(map(str, text), len(text), "") for text in self.ids[:10]]
        words = [f"{word!r}: {place}" for word, place in islice(self.vocab.items(), 10)]
        shown = _shortened(words, len(self.vocab), "tokens")[1:-1]
        ids = _shortened(texts, len(self.ids), "texts")
        return f"Tokenized(ids={ids}, vocab={{{shown}}})"


def _shortened(parts: Iterable[str], total: int, name: str) -> str:
    more = [] if total <= 10 else [f"... (total {total} {name})" if name else "..."]
    return f"[{', '.join([*islice(parts, 10), *more])}]"


def stop_words(stopwords: Any) -> Sequence[str]:
    """The list that a name, True, None or a list stands for.

    Raises ValueError for an unknown name; ImportError for a language other than English when bm25s,
    whose lists they are, is not installed.
    """
    if stopwords is None or stopwords is False:
        return []
    if stopwords is True or stopwords in ("english", "en"):
        return tuple(sorted(named_stop_words(LUCENE_ENGLISH)))
    if not isinstance(stopwords, str):
        given: Sequence[str] = stopwords
        return given
    if stopwords not in _LANGUAGES:
        raise ValueError(
            f"stopwords {stopwords!r} is not recognized; pass a list of words or one of english, "
            f"{', '.join(name for name in _LANGUAGES if len(name) > 2)}"
        )
    try:
        from bm25s import stopwords as lists
    except ImportError:
        raise ImportError(
            f"the stop words of {stopwords!r} are read from bm25s, which is not installed: "
            "pip install bm25s, or pass a list of words"
        ) from None
    found: Sequence[str] = getattr(lists, f"STOPWORDS_{_LANGUAGES[stopwords]}")
    return found


def tokenize(
    texts: str | Iterable[str],
    lower: bool = True,
    token_pattern: str = PATTERN,
    stopwords: Any = "english",
    stemmer: Any = None,
    return_ids: bool = True,
    show_progress: bool = True,
    leave: bool = False,
    allow_empty: bool = True,
) -> Tokenized | list[list[str]]:
    """Tokens of each text by a regular expression, without stop words, stemmed if asked.

    ``stemmer`` has a method ``stemWords`` or is a function from a list of words to a list of stems.
    Ids go by first appearance. Returns :class:`Tokenized`, or lists of str with
    ``return_ids=False``.

    >>> tokenize("The cat and the other cat")
    Tokenized(ids=[[0, 1, 0]], vocab={'cat': 0, 'other': 1})
    """
    split = re.compile(token_pattern).findall
    stops = set(stop_words(stopwords))
    words: dict[str, int] = {}
    ids: list[list[int]] = []
    for text in [texts] if isinstance(texts, str) else texts:
        found = split(text.lower() if lower else text)
        if not found and allow_empty is False:
            found = [""]
        ids.append([words.setdefault(w, len(words)) for w in found if w not in stops])
    vocab = words
    if stemmer is not None:
        stem = getattr(stemmer, "stemWords", stemmer)
        if not callable(stem):
            raise ValueError(f"Stemmer must have stemWords or be callable, got {stemmer!r}")
        vocab = {}
        to_stem = [vocab.setdefault(s, len(vocab)) for s in stem(list(words))]
        ids = [[to_stem[word] for word in document] for document in ids]
    if return_ids:
        return Tokenized(ids, vocab)
    return _decoded(ids, vocab)


class Tokenizer:
    """A tokenizer that keeps its vocabulary from call to call.

    Parameters
    ----------
    lower
        Whether texts are put in lower case first.
    splitter
        A regular expression, or a function from a text to its words.
    stopwords
        A language, a list of words, or None.
    stemmer
        A function from one word to its stem, or an object with ``stemWord``.

    Examples
    --------
    >>> tokenizer = Tokenizer(stopwords=["the"])
    >>> tokenizer.tokenize(["the cat sat", "cat"])
    [[1, 2], [1]]
    >>> tokenizer.decode([[1, 2]]), tokenizer.tokenize(["dog cat"])
    ([['cat', 'sat']], [[1]])
    """

    def __init__(
        self,
        lower: bool = True,
        splitter: str | Callable[[str], Iterable[str]] = PATTERN,
        stopwords: Any = "english",
        stemmer: Any = None,
    ):
        self.lower = lower
        if isinstance(splitter, str):
            splitter = re.compile(splitter).findall
        if not callable(splitter):
            raise ValueError(f"splitter must be a callable or a regex pattern, got {splitter!r}")
        stemmer = getattr(stemmer, "stemWord", stemmer)
        if stemmer is not None and not callable(stemmer):
            raise ValueError(f"stemmer must be callable or have stemWord, got {stemmer!r}")
        self.stopwords: Sequence[str] | None = stop_words(stopwords)
        self.splitter = splitter
        self.stemmer = stemmer
        self.reset_vocab()

    def reset_vocab(self) -> None:
        """Forgets all words."""
        self.word_to_stem: dict[str, str] = {}
        self.stem_to_sid: dict[str, int] = {}
        self.word_to_id: dict[str, int] = {}

    def streaming_tokenize(
        self, texts: Iterable[str], update_vocab: bool | str = True, allow_empty: bool = True
    ) -> Iterator[list[int]]:
        """Token ids of one text after the other; ``update_vocab`` is True, False or "never"."""
        stops = set(self.stopwords or ())
        if allow_empty is True and update_vocab is True and "" not in self.word_to_id:
            self.word_to_id[""] = max(self.word_to_id.values(), default=-1) + 1
            if self.stemmer is not None:
                self.word_to_stem.setdefault("", "")
                self.stem_to_sid.setdefault("", self.word_to_id[""])
        for text in texts:
            words = list(self.splitter(text.lower() if self.lower else text))
            if not words and allow_empty is True:
                words = [""]
            places = (self._place(word, stops, update_vocab) for word in words)
            ids = [place for place in places if place is not None]
            if not ids and allow_empty is True and "" in self.word_to_id:
                ids = [self.word_to_id[""]]
            yield ids

    def _place(self, word: str, stops: set[str], update_vocab: bool | str) -> int | None:
        """The id of a word, a new one if it may get one."""
        known = self.word_to_id.get(word)
        if known is not None or word in stops:
            return known
        if self.stemmer is None:
            if update_vocab is True:
                self.word_to_id[word] = len(self.word_to_id)
            return self.word_to_id.get(word)
        stem = self.word_to_stem.get(word)
        if stem is None:
            stem = self.word_to_stem[word] = self.stemmer(word)
        if update_vocab == "never":
            return None
        if stem not in self.stem_to_sid:
            if update_vocab is not True:
                return None
            self.stem_to_sid[stem] = len(self.stem_to_sid)
        self.word_to_id[word] = self.stem_to_sid[stem]
        return self.word_to_id[word]

    def tokenize(
        self,
        texts: Iterable[str],
        update_vocab: bool | str = "if_empty",
        leave_progress: bool = False,
        show_progress: bool = True,
        length: int | None = None,
        return_as: str = "ids",
        allow_empty: bool = True,
    ) -> Any:
        """Ids (``"ids"``), strings (``"string"``), :class:`Tokenized` (``"tuple"``) or a stream.

        ``update_vocab``: new words get ids (True), only those whose stem is known (False), only
        when there are none yet ("if_empty"), or no word at all ("never"). Raises ValueError for any
        other value of either.
        """
        if return_as not in ("tuple", "string", "ids", "stream"):
            raise ValueError("return_as must be either 'tuple', 'string', 'ids', or 'stream'.")
        if update_vocab not in (True, False, "if_empty", "never"):
            raise ValueError("update_vocab must be either True, False, 'if_empty', or 'never'.")
        if update_vocab == "if_empty":
            update_vocab = not self.word_to_id
        stream = self.streaming_tokenize(texts, update_vocab, allow_empty)
        if return_as == "stream":
            return stream
        ids = list(stream)
        if return_as == "string":
            return self.decode(ids)
        return ids if return_as == "ids" else self.to_tokenized_tuple(ids)

    def get_vocab_dict(self) -> dict[str, int]:
        """The id of each word, or of each stem when there is a stemmer."""
        return self.word_to_id if self.stemmer is None else self.stem_to_sid

    def to_tokenized_tuple(self, docs: list[list[int]]) -> Tokenized:
        """The ids with the vocabulary."""
        return Tokenized(docs, self.get_vocab_dict())

    def decode(self, docs: Iterable[Iterable[int]]) -> list[list[str]]:
        """The words (or stems) of ids."""
        return _decoded(docs, self.get_vocab_dict())

    def save_vocab(
        self, save_dir: str | os.PathLike[str], vocab_name: str = "vocab.tokenizer.json"
    ) -> None:
        """Writes the vocabulary as JSON, as bm25s does."""
        _write_json(
            save_dir,
            vocab_name,
            {
                "word_to_stem": self.word_to_stem,
                "stem_to_sid": self.stem_to_sid,
                "word_to_id": self.word_to_id,
            },
        )

    def load_vocab(
        self, save_dir: str | os.PathLike[str], vocab_name: str = "vocab.tokenizer.json"
    ) -> None:
        """Reads a vocabulary that bm25s or this class wrote."""
        read = json.loads((Path(save_dir) / vocab_name).read_text("utf-8"))
        self.word_to_stem = read["word_to_stem"]
        self.stem_to_sid = read["stem_to_sid"]
        self.word_to_id = read["word_to_id"]

    def save_stopwords(
        self, save_dir: str | os.PathLike[str], stopwords_name: str = "stopwords.tokenizer.json"
    ) -> None:
        """Writes the stop words as JSON, as bm25s does."""
        words = self.stopwords
        _write_json(save_dir, stopwords_name, None if words is None else list(words))

    def load_stopwords(
        self, save_dir: str | os.PathLike[str], stopwords_name: str = "stopwords.tokenizer.json"
    ) -> None:
        """Reads stop words that bm25s or this class wrote."""
        self.stopwords = json.loads((Path(save_dir) / stopwords_name).read_text("utf-8"))


def convert_tokenized_to_string_list(tokenized: Tokenized) -> list[list[str]]:
    """The tokens of ids as strings.

    >>> convert_tokenized_to_string_list(Tokenized([[1, 0]], {"cat": 0, "sat": 1}))
    [['sat', 'cat']]
    """
    return _decoded(tokenized.ids, tokenized.vocab)


def _decoded(docs: Iterable[Iterable[int]], vocab: dict[str, int]) -> list[list[str]]:
    words = {place: word for word, place in vocab.items()}
    return [[words[place] for place in document] for document in docs]


def _write_json(folder: str | os.PathLike[str], name: str, value: Any) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with replacing(Path(folder) / name) as temp:
        temp.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
