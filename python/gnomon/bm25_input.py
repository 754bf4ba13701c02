"""What a caller may pass as documents, told apart and fed to the builder in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np

from . import _core
from .analysis import Analyzer

_BATCH = 1024  # documents; the builder takes them with one call, the GIL released for texts
_BATCH_CHARS = 1 << 22  # or fewer when they are long, so that a stream of books stays bounded
_TOKEN_ID_MOST = 2**32 - 2
# They iterate, but the numbers in bytes are no token ids and the keys of a record are not its text.
_NOT_DOCUMENTS = (bytes, bytearray, memoryview, Mapping)


AnalyzerLike = Analyzer | str | Callable[[str], Iterable[str]]


def as_analyzer(analyzer: AnalyzerLike | None) -> Analyzer | None:
    """The analyzer that a caller named, gave, or wrote as a function."""
    if analyzer is None or isinstance(analyzer, Analyzer):
        return analyzer
    return Analyzer(analyzer) if isinstance(analyzer, str) else Analyzer.of(analyzer)


def add_documents(
    documents: Iterable[Any], analyzer: AnalyzerLike | None
) -> tuple[_core.Bm25Builder, Analyzer | None]:
    """A builder filled with the documents, and the analyzer that goes with the index."""
    chosen = as_analyzer(analyzer)
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents is one text; pass a list of texts or of token lists")
    if isinstance(documents, tuple) and len(documents) == 2 and all(map(_is_id_array, documents)):
        return _from_offsets(*documents), chosen
    kind, stream = _peek(iter(documents))
    if kind == "text":
        chosen = chosen or Analyzer("standard-v1")
    builder = _core.Bm25Builder(with_vocabulary=kind != "id")
    if kind == "text":
        _add_texts(builder, stream, chosen or Analyzer("standard-v1"))
        return builder, chosen
    place = 0
    for batch in _batches(stream):
        if kind == "id":
            _add_ids(builder, [_id_array(doc, place + i) for i, doc in enumerate(batch)])
        else:
            _require_tokens(batch, place)
            builder.add_tokens(batch)
        place += len(batch)
    return builder, chosen


def _is_id_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu"


def _peek(stream: Iterator[Any]) -> tuple[str, Iterator[Any]]:
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


def _batches(stream: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    chars = 0
    for document in stream:
        batch.append(document)
        chars += len(document) if isinstance(document, (str, list, tuple, np.ndarray)) else 0
        if len(batch) >= _BATCH or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _add_texts(builder: _core.Bm25Builder, stream: Iterator[Any], analyzer: Analyzer) -> None:
    """Analyses one batch on a second thread while the caller's iterator makes the next.

    At most two batches are in memory, and the builder takes them in order.
    """
    place = 0
    prepare = None if analyzer.custom else analyzer.feed(builder)
    with ThreadPoolExecutor(1) as worker:
        running: Future[None] | None = None
        for batch in _batches(stream):
            _require_texts(batch, place)
            place += len(batch)
            if prepare is None:
                builder.add_tokens([analyzer.tokens(text) for text in batch])
                continue
            add = prepare(batch)
            if running is not None:
                running.result()
            running = worker.submit(add)
        if running is not None:
            running.result()


def _require_texts(batch: list[Any], place: int) -> None:
    for i, text in enumerate(batch):
        if not isinstance(text, str):
            raise TypeError(
                f"documents[{place + i}] is a {type(text).__name__}, but the documents before it "
                "are str; pass one kind only"
            )


def _require_tokens(batch: list[Any], place: int) -> None:
    for i, document in enumerate(batch):
        if isinstance(document, _NOT_DOCUMENTS):
            kind = type(document).__name__
            raise TypeError(f"documents[{place + i}] is a {kind}; pass a list of tokens")


def _id_array(document: Any, place: int) -> Any:
    if isinstance(document, (str, *_NOT_DOCUMENTS)):
        raise TypeError(
            f"documents[{place}] is a {type(document).__name__}, but the documents before it hold "
            "token ids; pass one kind only"
        )
    array = np.asarray(document if isinstance(document, np.ndarray) else list(document))
    if array.size == 0:
        return np.zeros(0, dtype=np.uint32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"documents[{place}] must be a flat sequence of integer token ids")
    return _checked_ids(array, f"documents[{place}]")


def _checked_ids(array: Any, name: str) -> Any:
    if array.size and (int(array.min()) < 0 or int(array.max()) > _TOKEN_ID_MOST):
        raise ValueError(f"{name} holds a token id outside 0..{_TOKEN_ID_MOST}")
    return np.ascontiguousarray(array, dtype=np.uint32)


def _add_ids(builder: _core.Bm25Builder, arrays: list[Any]) -> None:
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([array.size for array in arrays], out=offsets[1:])
    builder.add_ids(np.concatenate(arrays), offsets)


def _from_offsets(token_ids: Any, offsets: Any) -> _core.Bm25Builder:
    if offsets.size == 0:
        raise ValueError("offsets is empty; it holds one entry more than there are documents")
    builder = _core.Bm25Builder(with_vocabulary=False)
    builder.add_ids(
        _checked_ids(token_ids, "token_ids"), np.ascontiguousarray(offsets, dtype=np.int64)
    )
    return builder
