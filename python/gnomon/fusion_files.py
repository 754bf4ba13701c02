"""Judgements and runs as the field writes them: lines of fields, TREC's or BEIR's."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator

from .formats_source import FormatError


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of the lines that are not empty."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    opener = gzip.open if packed else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.split()
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(path, f"not text: {error}") from error


def read_judgements(path: str) -> dict[str, dict[str, float]]:
    r"""Query -> document -> gain. Raises FormatError naming the line.

    >>> with open("q.tsv", "w") as file:
    ...     size = file.write("query-id corpus-id score\n1 d7 1\n")
    >>> read_judgements("q.tsv")
    {'1': {'d7': 1.0}}
    """
    found: dict[str, dict[str, float]] = {}
    for number, fields in _lines(path):
        if number == 1 and fields[-1].lower() in ("score", "relevance", "gain"):
            continue
        if len(fields) not in (3, 4):
            why = f"line {number}: {len(fields)} fields; query [0] document gain are needed"
            raise FormatError(path, why)
        gain = _number(path, number, fields[-1])
        found.setdefault(fields[0], {})[fields[-2]] = gain
    return found


def read_run(path: str) -> dict[str, list[str]]:
    """Query -> documents by rank. Raises FormatError naming the line."""
    ranked: dict[str, list[tuple[float, int, str]]] = {}
    for number, fields in _lines(path):
        if len(fields) == 6:
            query, _, document, rank = fields[:4]
        elif len(fields) in (3, 4):
            query, document, rank = fields[:3]
        else:
            why = (
                f"line {number}: {len(fields)} fields; query Q0 document rank score tag, or query "
            )
            raise FormatError(path, why + "document rank [score] are needed")
        place = _number(path, number, rank)
        ranked.setdefault(query, []).append((place, number, document))
    return {query: [document for _, _, document in sorted(rows)] for query, rows in ranked.items()}


def _number(path: str, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise FormatError(path, f"line {line}: {text!r} is not a number") from None
    if not math.isfinite(value):  # ranks could not be put in order, nor gains be added
        raise FormatError(path, f"line {line}: {text!r} is not a finite number")
    return value
