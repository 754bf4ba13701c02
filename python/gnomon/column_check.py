"""Reading columns from a file that may be forged: nothing is used before it fits the rest."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .column_values import KINDS
from .columns import Column, read_strings
from .results import starts_of

__all__ = ["read_columns"]


def read_columns(container: _core.Container, n: int) -> dict[str, Column]:
    """The columns of a container file, for n documents. Raises CorruptIndex."""
    sections = {name: (dtype, size) for name, dtype, size in container.sections()}
    kinds = container.array("kinds")
    if kinds.dtype != np.uint8 or bool((kinds >= len(KINDS)).any()):
        raise _fault("a kind is unknown")
    names = read_strings(container, "names", kinds.size)
    if len(set(names)) != len(names):
        raise _fault("a name occurs twice")
    columns: dict[str, Column] = {}
    for i, (name, kind) in enumerate(zip(names, kinds.tolist(), strict=True)):
        parts = {
            what: container.array(f"c{i}.{what}")
            for what in ("present", "values", "codes", "starts")
            if f"c{i}.{what}" in sections
        }
        if f"c{i}.counts" in sections:
            parts["starts"] = starts_of(container.array(f"c{i}.counts"))
        terms: Sequence[str] = []
        if f"c{i}.same" in sections:
            terms = _terms_of_another(container.array(f"c{i}.same"), list(columns.values()))
        elif KINDS[kind] == "keyword":
            _, ends = sections.get(f"c{i}.terms.starts", ("", 1))
            _, size = sections.get(f"c{i}.terms.sizes", ("", ends - 1))
            terms = read_strings(container, f"c{i}.terms", max(size, 0))
        columns[name] = _checked(Column(KINDS[kind], n, terms=terms, **parts), name)
    return columns


def _terms_of_another(same: npt.NDArray[Any], before: list[Column]) -> Sequence[str]:
    if same.dtype != np.uint8 or same.shape != (1,) or int(same[0]) >= len(before):
        raise _fault("a dictionary is that of a column that does not come before")
    return before[int(same[0])].terms


def _checked(column: Column, name: str) -> Column:
    n = column.n
    if column.present is not None:
        _require(column.present, np.uint64, (n + 63) // 64, name, "present")
        if n % 64 and int(column.present[-1]) >> (n % 64):
            raise _fault(f"{name!r}: documents beyond the last have values")
    if column.kind != "keyword":
        dtype = np.float64 if column.kind == "float" else np.int64
        _require(column.values, dtype, n, name, "values")
        if column.kind == "float" and bool(np.isnan(column.values).any()):  # type: ignore[arg-type]
            raise _fault(f"{name!r}: a value is NaN")
        if column.codes is not None or column.starts is not None:
            raise _fault(f"{name!r}: numbers have no codes")
        return column
    return _checked_keywords(column, name)


def _checked_keywords(column: Column, name: str) -> Column:
    codes, starts, terms = column.codes, column.starts, column.terms
    if codes is None or codes.dtype not in (np.uint8, np.uint16, np.uint32):
        raise _fault(f"{name!r}: no codes")
    if not all(map(operator.lt, terms, terms[1:])):
        raise _fault(f"{name!r}: the dictionary is not sorted")
    if starts is None:
        has, most = codes != 0, len(terms)
        fits = codes.shape == (column.n,)
    else:
        _require(starts, np.uint64, column.n + 1, name, "starts")
        rises = bool((starts[1:] >= starts[:-1]).all())
        if not rises or int(starts[0]) != 0 or int(starts[-1]) != codes.size:
            raise _fault(f"{name!r}: the keywords of a document lie outside their section")
        has, most = starts[1:] > starts[:-1], len(terms) - 1
        inner = np.ones(codes.size + 1, dtype=np.bool_)
        inner[starts.astype(np.int64)] = False  # the first keyword of each document
        fits = not bool((inner[1:-1] & (codes[1:] <= codes[:-1])).any())
    if not fits or (codes.size and int(codes.max()) > most):
        raise _fault(f"{name!r}: a keyword is not in the dictionary, or out of order")
    if not np.array_equal(has, column.has()):
        raise _fault(f"{name!r}: which documents have a value contradicts their keywords")
    return column


def _require(array: npt.NDArray[Any] | None, dtype: Any, size: int, name: str, what: str) -> None:
    if array is None or array.dtype != dtype or array.shape != (size,):
        raise _fault(f"{name!r}: {what} must be {np.dtype(dtype).name} [{size}]")


def _fault(what: str) -> _core.CorruptIndex:
    return _core.CorruptIndex(f"columns: {what}; build the index again or restore the file")
