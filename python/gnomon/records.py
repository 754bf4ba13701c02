"""Record files: JSON lines, CSV, TSV and Parquet, streamed, one document for each record.

A record's text is its text field; a title goes before it with one space between, as BEIR evaluates
it. A record that cannot be used is reported with its line and left out; the others stay.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TextIO

from .documents import Document, Options, Problems, UnreadableError, decode

TEXT_FIELDS = ("text", "body", "content", "passage", "abstract")
TITLE_FIELDS = ("title",)
ID_FIELDS = ("_id", "id")
# A few kilobytes of Parquet can stand for gigabytes of equal rows, and a batch is all in memory.
_BATCH_ROWS = 64

Progress = Iterator[tuple[Document, int]]  # a document, and the bytes of the file read so far


def read(path: str, suffix: str, options: Options, problems: Problems) -> Progress:
    """The documents of one record file.

    Raises UnreadableError or OSError when the file as a whole cannot be used.
    """
    if suffix == ".parquet":
        return _read_parquet(path, options, problems)
    if suffix in (".csv", ".tsv"):
        return _read_csv(path, "," if suffix == ".csv" else "\t", options, problems)
    return _read_json_lines(path, options, problems)


def _field(names: Sequence[str], wanted: str | None, usual: Sequence[str], what: str) -> str | None:
    """The field to use, or None for a title or id that is neither there nor asked for."""
    if wanted == "":
        return None
    for name in usual if wanted is None else (wanted,):
        if name in names:
            return name
    if wanted is None and what != "text":
        return None
    found = ", ".join(map(repr, list(names)[:20])) or "none"
    raise UnreadableError(
        f"no {what} field", f"fields found: {found}; name the right one with --{what}-field"
    )


def _fields(names: Sequence[str], options: Options) -> tuple[str, str | None, str | None]:
    text = _field(names, options.text_field or None, TEXT_FIELDS, "text")
    assert text is not None
    title = _field(names, options.title_field, TITLE_FIELDS, "title")
    return text, title, _field(names, options.id_field, ID_FIELDS, "id")


def _string(value: Any, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(value)  # SciFact and its kind keep an abstract as a list of sentences
    raise UnreadableError("not text", f"field {name!r} has a value of type {type(value).__name__}")


def _longer(text: str, bytes_max: int) -> bool:
    if 4 * len(text) <= bytes_max:  # no code point takes more than four bytes
        return False
    return len(text.encode("utf-8", "surrogatepass")) > bytes_max


def _document(path: str, line: int, record: dict[str, Any], options: Options) -> Document:
    text_field, title_field, id_field = _fields(list(record), options)
    text = _string(record[text_field], text_field)
    if title_field is not None and title_field != text_field:
        text = (_string(record[title_field], title_field) + " " + text).strip()
    if not text or text.isspace():
        raise UnreadableError("empty")
    if _longer(text, options.max_bytes):
        raise UnreadableError("too large", f"--max-bytes is {options.max_bytes:,}")
    identifier = record[id_field] if id_field is not None else None
    return Document(path, text, "" if identifier is None else str(identifier), line)


def _lines(file: BinaryIO, bytes_max: int) -> Iterator[bytes | None]:
    """The lines of `file`; None stands for one that is longer than `bytes_max`."""
    while line := file.readline(bytes_max + 1):
        if len(line) <= bytes_max:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None


def _read_json_lines(path: str, options: Options, problems: Problems) -> Progress:
    done = 0
    with open(path, "rb") as file:
        for number, line in enumerate(_lines(file, options.max_bytes), 1):
            try:
                if line is None:
                    raise UnreadableError("too large", f"--max-bytes is {options.max_bytes:,}")
                done += len(line)
                if line.isspace():
                    continue
                yield _document(path, number, _json_object(line, options), options), done
            except UnreadableError as problem:
                problems.add(problem.reason, f"{path}:{number}", problem.detail)
    if done == 0 and not os.path.getsize(path):
        raise UnreadableError("empty")


def _json_object(line: bytes, options: Options) -> dict[str, Any]:
    text = decode(line, options.encoding)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise UnreadableError("bad JSON", detail) from None
    if not isinstance(record, dict):
        raise UnreadableError("bad JSON", f"an object was expected, not {type(record).__name__}")
    return record


def _csv_encoding(path: str, options: Options) -> str:
    """Reads the file once in pieces: a row must not be lost because a later byte is wrong."""
    with open(path, "rb") as file:
        head = file.read(8192)
        if not head:
            raise UnreadableError("empty")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        if b"\0" in head:
            raise UnreadableError("binary", "zero bytes among the first 8,192")
        try:
            piece = head
            while piece:
                decoder.decode(piece)
                piece = file.read(1 << 20)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            if options.encoding is None:
                raise UnreadableError("not UTF-8", "name it with --encoding") from None
            return options.encoding
    return "utf-8-sig"


def _text_lines(file: TextIO, size_max: int) -> Iterator[str]:
    """The lines of `file` for the CSV reader, which would read a line of any length into memory."""
    while line := file.readline(size_max + 1):
        if len(line) > size_max:
            raise UnreadableError("too large", f"a line; --max-bytes is {size_max:,}")
        yield line


def _read_csv(path: str, delimiter: str, options: Options, problems: Problems) -> Progress:
    """CSV with quotes as Excel writes them; in TSV a quote is a character like any other."""
    csv.field_size_limit(min(options.max_bytes, sys.maxsize))
    encoding = _csv_encoding(path, options)
    with open(path, "rb") as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as file:
        rows = csv.reader(
            _text_lines(file, options.max_bytes),
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE,
        )
        try:
            header = next(rows, [])
            _fields(header, options)
            line = rows.line_num + 1
            for row in rows:
                if row:  # a blank line is no record
                    try:
                        yield _csv_document(path, line, header, row, options), raw.tell()
                    except UnreadableError as problem:
                        problems.add(problem.reason, f"{path}:{line}", problem.detail)
                line = rows.line_num + 1
        except (csv.Error, UnicodeError) as error:
            raise UnreadableError("bad CSV", f"line {rows.line_num}: {error}") from None


def _csv_document(
    path: str, line: int, header: list[str], row: list[str], options: Options
) -> Document:
    if len(row) != len(header):
        detail = f"{len(row)} fields, the header has {len(header)}"
        raise UnreadableError("bad CSV row", detail)
    return _document(path, line, dict(zip(header, row, strict=True)), options)


def _read_parquet(path: str, options: Options, problems: Problems) -> Progress:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UnreadableError(
            "no Parquet reader", "install it with: pip install 'gnomon[parquet]'"
        ) from None
    size = os.path.getsize(path)
    if size == 0:
        raise UnreadableError("empty")
    row = 0
    try:
        with parquet.ParquetFile(path) as file:
            fields = _fields(file.schema_arrow.names, options)
            columns = [name for name in fields if name is not None]
            total = max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                for record in batch.to_pylist():
                    row += 1
                    try:
                        yield _document(path, 0, record, options), size * row // total
                    except UnreadableError as problem:
                        problems.add(problem.reason, f"{path} row {row}", problem.detail)
    except (pyarrow.ArrowException, UnicodeError) as error:
        message = str(error).splitlines() or [type(error).__name__]
        raise UnreadableError("bad Parquet", f"after row {row}: {message[0]}") from None
