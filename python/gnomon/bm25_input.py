"""What a caller may pass as documents, told apart and fed to the builder in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np

from . import _core
from .analysis import Analyzer

_BATCH = 1024  # documents; the builder takes them with one call, the GIL released for texts
_BATCH_CHARS = 1 << 22  # or fewer when they are long, so that a stream of books stays bounded
_TOKEN_ID_MOST = 2**32 - 2
_SIZED = (str, list, tuple, np.ndarray)
# They iterate, but the numbers in bytes are no token ids and the keys of a record are not its text.
_NOT_DOCUMENTS = (bytes, bytearray, memoryview, Mapping)


Where = Callable[[int], str]  # the name of the batch's i-th entry, for messages
AnalyzerLike = Analyzer | str | Callable[[str], Iterable[str]]


def as_analyzer(analyzer: AnalyzerLike | None) -> Analyzer | None:
    """The analyzer that a caller named, gave, or wrote as a function."""
    if analyzer is None or isinstance(analyzer, Analyzer):
        return analyzer
    return Analyzer(analyzer) if isinstance(analyzer, str) else Analyzer.of(analyzer)


def is_id_array(value: Any) -> bool:
    """Whether it is a flat array of integers."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu"


def peek(stream: Iterator[Any]) -> tuple[str, Iterator[Any]]:
    """The kind of the documents, from the first that is not an empty list, and the whole stream."""
    seen: list[Any] = []
    for document in stream:
        if isinstance(document, Iterable) and not isinstance(
            document, (str, np.ndarray, list, tuple, *_NOT_DOCUMENTS)
        ):
            document = list(document)
        seen.append(document)
        if isinstance(document, str):
            return "text", chain(seen, stream)
        if isinstance(document, np.ndarray) and document.dtype.kind in "iu":
            return "id", chain(seen, stream)
        if isinstance(document, (list, tuple, np.ndarray)):
            if len(document) == 0:
                continue
            first = document[0]
            is_id = isinstance(first, (int, np.integer)) and not isinstance(first, bool)
            return "id" if is_id else "token", chain(seen, stream)
        raise TypeError(
            f"documents[{len(seen) - 1}] is a {type(document).__name__}; "
            "a document is a str, a list of tokens, or a list of token ids"
        )
    return "token", iter(seen)


def batches(stream: Iterator[Any], parts: int = 1) -> Iterator[list[Any]]:
    """What the builder takes at once; `parts` make one document and stay together."""
    batch: list[Any] = []
    chars = 0
    step = parts  # taken at once: many where documents are short, one where they are books
    while some := list(islice(stream, step)):
        batch += some
        lengths = list(map(_length, some))
        chars += sum(lengths)
        if len(batch) >= _BATCH * parts or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
        fitting = (_BATCH_CHARS - chars) // (8 * (max(lengths) + 1) * parts)
        step = parts * max(1, min(_BATCH - len(batch) // parts, fitting, 2 * step // parts))
    if batch:
        yield batch


def _length(document: Any) -> int:
    return len(document) if isinstance(document, _SIZED) else 0


class Sink:
    """A builder, and what takes texts into it."""

    def __init__(self, builder: _core.Bm25Builder, analyzer: Analyzer | None):
        self.builder = builder
        in_core = analyzer is not None and not analyzer.custom
        self.add_texts = analyzer.adder(builder) if analyzer is not None and in_core else _no_texts


def _no_texts(cased: list[str], lowered: list[str]) -> None:
    raise TypeError("texts need an analyzer")


def feed_of(
    batch: list[Any], kind: str, analyzer: Analyzer | None, where: Where, first: int = 0
) -> Callable[[Sink], None]:
    """Checks a batch and makes it ready; what is returned puts it into a builder.

    For texts that the core analyses, that runs with the GIL released. `first` is the number of the
    first document.
    """
    if kind == "id":
        arrays = [_id_array(doc, where(i)) for i, doc in enumerate(batch)]
        return lambda sink: _add_ids(sink.builder, arrays)
    if kind == "token":
        _require_tokens(batch, where)
        return lambda sink: sink.builder.add_tokens(batch, first)
    _require_texts(batch, where)
    chosen = analyzer or Analyzer("standard-v1")
    if chosen.custom:
        tokens = [chosen.tokens(text) for text in batch]
        return lambda sink: sink.builder.add_tokens(tokens, first)
    views = [(text, text) if text.isascii() else chosen.core_views(text) for text in batch]
    cased, lowered = [cased for cased, _ in views], [lowered for _, lowered in views]
    return lambda sink: sink.add_texts(cased, lowered)


def _require_texts(batch: list[Any], where: Where) -> None:
    for i, text in enumerate(batch):
        if not isinstance(text, str):
            raise TypeError(
                f"{where(i)} is a {type(text).__name__}, but the documents before it "
                "are str; pass one kind only"
            )


def _require_tokens(batch: list[Any], where: Where) -> None:
    for i, document in enumerate(batch):
        if isinstance(document, _NOT_DOCUMENTS):
            kind = type(document).__name__
            raise TypeError(f"{where(i)} is a {kind}; pass a list of tokens")


def _id_array(document: Any, name: str) -> Any:
    if isinstance(document, (str, *_NOT_DOCUMENTS)):
        raise TypeError(
            f"{name} is a {type(document).__name__}, but the documents before it hold "
            "token ids; pass one kind only"
        )
    array = np.asarray(document if isinstance(document, np.ndarray) else list(document))
    if array.size == 0:
        return np.zeros(0, dtype=np.uint32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a flat sequence of integer token ids")
    return checked_token_ids(array, name)


def checked_token_ids(array: Any, name: str) -> Any:
    """Token ids as a contiguous u32 array. Raises ValueError."""
    if array.size and (int(array.min()) < 0 or int(array.max()) > _TOKEN_ID_MOST):
        raise ValueError(f"{name} holds a token id outside 0..{_TOKEN_ID_MOST}")
    return np.ascontiguousarray(array, dtype=np.uint32)


def _add_ids(builder: _core.Bm25Builder, arrays: list[Any]) -> None:
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([array.size for array in arrays], out=offsets[1:])
    builder.add_ids(np.concatenate(arrays), offsets)
