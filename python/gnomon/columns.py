"""Typed columns beside the documents of one segment: what filters ask about.

A `ColumnBlock` holds one value (or none) a document and column; keywords may be several. Blocks are
immutable; a segment has one. Merging segments is `take` (the live documents) and `concat`.

In a container file, column number i has the sections

- ``ci.present``  uint64, bit d of the packed words: document d has a value; only when some lack one
- ``ci.values``   int64 (integer, date) or float64; 0 where there is none
- ``ci.codes``    keyword: uint8, uint16 or uint32 places in the sorted dictionary. One a document,
  counted from 1 with 0 for none; with ``ci.counts`` (uint8, uint16 or uint32) any number, counted
  from 0, ascending within a document
- ``ci.terms.sizes``, ``ci.terms.bytes``  keyword: the dictionary; or ``ci.same`` (uint8), the
  number of an earlier column that has the same one

and ``names.sizes``, ``names.bytes``, ``kinds`` (uint8, place in KINDS) over all columns. Sizes are
uint8, uint16 or uint32. Where a file has ``starts`` (uint64, from 0, one more) for counts or sizes,
it is an older one, and read as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from .column_values import KINDS, as_date, as_float, as_integer, as_keywords, date_of, kind_of
from .column_words import pack, unpack
from .results import StringTable

__all__ = ["Column", "ColumnBlock", "ColumnWriter", "block_of"]

Words = npt.NDArray[np.uint64]


class Column:
    """One column of one segment. `kind` says which of the arrays are there (see the module)."""

    __slots__ = ("codes", "kind", "n", "present", "starts", "terms", "tested", "values")

    def __init__(
        self,
        kind: str,
        n: int,
        *,
        present: Words | None = None,
        values: npt.NDArray[Any] | None = None,
        codes: npt.NDArray[Any] | None = None,
        starts: npt.NDArray[np.uint64] | None = None,
        terms: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.n = n
        self.present = present  # None: every document has a value
        self.values = values
        self.codes = codes
        self.starts = starts
        self.terms = terms
        self.tested: dict[Any, Words] = {}  # by predicates.py; replaced, never changed

    @classmethod
    def of_keywords(cls, cells: Sequence[str | Sequence[str] | None]) -> Column:
        """A keyword column; None and an empty sequence are a document without a value."""
        rows = [(cell,) if isinstance(cell, str) else (cell or ()) for cell in cells]
        n = len(rows)
        counts = np.fromiter(map(len, rows), np.int64, n)
        flat = list(chain.from_iterable(rows))
        terms = sorted(set(flat))
        place = {term: i for i, term in enumerate(terms)}
        codes = np.fromiter(map(place.__getitem__, flat), np.int64, len(flat))
        if n and int(counts.max()) > 1:
            keys = np.repeat(np.arange(n), counts) * len(terms) + codes
            keys.sort()  # np.unique would import np.ma for this
            once = np.ones(keys.size, dtype=np.bool_)
            once[1:] = keys[1:] != keys[:-1]
            owners, codes = np.divmod(keys[once], len(terms))  # ascending, each once
            counts = np.bincount(owners, minlength=n)
        return cls._of_codes(counts, codes, terms)

    @classmethod
    def _of_codes(
        cls, counts: npt.NDArray[np.int64], codes: npt.NDArray[Any], terms: Sequence[str]
    ) -> Column:
        """`counts` codes for each document, ascending within it, all of them places in `terms`."""
        n = counts.size
        has = counts > 0
        present = None if bool(has.all()) else pack(has)
        narrow = _code_type(len(terms) + 1)
        if n == 0 or int(counts.max()) <= 1:
            single = np.zeros(n, dtype=narrow)
            single[has] = codes + 1
            return cls("keyword", n, present=present, codes=single, terms=terms)
        starts = np.zeros(n + 1, dtype=np.uint64)
        np.cumsum(counts, out=starts[1:])
        packed = codes.astype(narrow)
        return cls("keyword", n, present=present, codes=packed, starts=starts, terms=terms)

    def has(self) -> npt.NDArray[np.bool_]:
        """Bool [n]: the document has a value."""
        if self.present is None:
            return np.ones(self.n, dtype=np.bool_)
        return unpack(self.present, self.n)

    def value(self, doc: int) -> Any:
        """The value as Python knows it: None, int, float, datetime, str, or a list of str."""
        if self.present is not None and not int(self.present[doc >> 6]) >> (doc & 63) & 1:
            return None
        if self.values is not None:
            value = self.values[doc].item()
            return date_of(value) if self.kind == "date" else value
        assert self.codes is not None
        if self.starts is None:
            return self.terms[int(self.codes[doc]) - 1]
        first, last = int(self.starts[doc]), int(self.starts[doc + 1])
        keywords = [self.terms[code] for code in self.codes[first:last].tolist()]
        return keywords[0] if len(keywords) == 1 else keywords

    def _flat(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Keyword codes counted from 0, and how many each document has."""
        assert self.codes is not None
        if self.starts is not None:
            starts = self.starts.astype(np.int64)
            return starts[1:] - starts[:-1], self.codes
        some = self.codes != 0
        return some.astype(np.int64), self.codes[some] - 1

    def pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Each value with its document, both flat: int64, or str objects for keywords."""
        if self.values is not None:
            docs = np.nonzero(self.has())[0]
            return docs, self.values[docs]
        counts, flat = self._flat()
        terms = np.array([*self.terms, None], dtype=object)[:-1]  # None: an array of objects
        owners: npt.NDArray[np.int64] = np.repeat(np.arange(self.n, dtype=np.int64), counts)
        return owners, terms[flat]

    def take(self, docs: npt.NDArray[np.int64]) -> Column:
        """The column of these documents, in this order."""
        has = self.has()[docs]
        present = None if bool(has.all()) else pack(has)
        if self.values is not None:
            return Column(self.kind, docs.size, present=present, values=self.values[docs])
        wanted, codes = self._taken(docs)
        used, codes = np.unique(codes, return_inverse=True)
        terms = [self.terms[code] for code in used.tolist()]
        return Column._of_codes(wanted, codes.reshape(-1), terms)

    def repeated(self, times: Sequence[int]) -> Column:
        """The column in which each document stands so many times, once at least."""
        docs = np.repeat(np.arange(self.n), times)
        if self.values is not None:
            return self.take(docs)
        return Column._of_codes(*self._taken(docs), self.terms)

    def _taken(self, docs: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """How many keywords each of these documents has, and their codes."""
        counts, flat = self._flat()
        starts = np.concatenate([[0], np.cumsum(counts)])
        wanted = counts[docs]
        ends = np.cumsum(wanted)
        # Place j of document d comes from starts[d] + j: one arange, moved for each document.
        moves = np.repeat(starts[docs] - (ends - wanted), wanted)
        return wanted, flat[np.arange(int(wanted.sum())) + moves]

    @staticmethod
    def missing(kind: str, n: int) -> Column:
        """A column of n documents without a value."""
        if kind == "keyword":
            return Column._of_codes(np.zeros(n, dtype=np.int64), np.zeros(0, dtype=np.uint32), [])
        dtype = np.float64 if kind == "float" else np.int64
        return Column(kind, n, present=pack(np.zeros(n, dtype=np.bool_)), values=np.zeros(n, dtype))

    @staticmethod
    def concat(columns: Sequence[Column]) -> Column:
        """Columns of one kind, one after the other."""
        kind = columns[0].kind
        has = np.concatenate([column.has() for column in columns])
        if kind != "keyword":
            values = np.concatenate([c.values for c in columns if c.values is not None])
            present = None if bool(has.all()) else pack(has)
            return Column(kind, has.size, present=present, values=values)
        terms = sorted({term for column in columns for term in column.terms})
        place = {term: i for i, term in enumerate(terms)}
        counts, codes = [], []
        for column in columns:
            count, flat = column._flat()
            new = np.array([place[term] for term in column.terms], dtype=np.uint32)
            counts.append(count)
            codes.append(new[flat] if flat.size else np.zeros(0, dtype=np.uint32))
        return Column._of_codes(np.concatenate(counts), np.concatenate(codes), terms)


class Runs(NamedTuple):
    """A column whose values stand for several documents each: `values[i]` for `counts[i]` of them,
    one at least.

    >>> block, _ = block_of({"source": Runs(["a", None], [2, 1])}, 3, {})
    >>> [block.row(doc)["source"] for doc in range(3)]
    ['a', 'a', None]
    """

    values: list[Any]
    counts: list[int]

    def column(self, name: str, kind: str | None, n: int) -> Column | None:
        """The column of all n documents; None where nothing says its kind."""
        if sum(self.counts) != n:
            raise ValueError(f"columns[{name!r}] has {sum(self.counts)} values for {n} documents")
        writer = ColumnWriter({} if kind is None else {name: kind})
        writer.extend({name: self.values}, len(self.values))
        made = writer.finish().columns.get(name)
        if made is None:
            return None
        return made.repeated(self.counts)


class ColumnBlock:
    """The columns of one segment, by name. Make one with `ColumnWriter` or `of`.

    >>> block = ColumnBlock.of({"year": [1999, None], "tags": [["a", "b"], "b"]}, 2)
    >>> block.kinds
    {'year': 'integer', 'tags': 'keyword'}
    >>> block.row(0), block.row(1)
    ({'year': 1999, 'tags': ['a', 'b']}, {'year': None, 'tags': 'b'})
    """

    def __init__(self, n: int, columns: Mapping[str, Column]) -> None:
        self.n = n
        self.columns = dict(columns)

    @classmethod
    def of(
        cls, values: Mapping[str, Iterable[Any]], n: int, kinds: Mapping[str, str] | None = None
    ) -> ColumnBlock:
        """A block from whole columns of n values each. Raises TypeError or ValueError."""
        writer = ColumnWriter(kinds)
        writer.extend(values, n)
        return writer.finish()

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column, by name."""
        return {name: column.kind for name, column in self.columns.items()}

    def row(self, doc: int) -> dict[str, Any]:
        """What one document has in each column; None for nothing."""
        return {name: column.value(doc) for name, column in self.columns.items()}

    def take(self, docs: Any) -> ColumnBlock:
        """The block of these documents (int array in the wanted order, or a bool mask)."""
        places = np.asarray(docs)
        if places.dtype == np.bool_:
            places = np.nonzero(places)[0]
        places = places.astype(np.int64)
        return ColumnBlock(places.size, {name: c.take(places) for name, c in self.columns.items()})

    @classmethod
    def concat(cls, blocks: Sequence[ColumnBlock]) -> ColumnBlock:
        """Blocks one after the other. A column that a block lacks has no values there.

        Raises ValueError when two blocks give one column different kinds.
        """
        kinds: dict[str, str] = {}
        for block in blocks:
            for name, kind in block.kinds.items():
                require_kind(kinds.setdefault(name, kind), kind, name)
        columns = {
            name: Column.concat(
                [block.columns.get(name) or Column.missing(kind, block.n) for block in blocks]
            )
            for name, kind in kinds.items()
        }
        return cls(sum(block.n for block in blocks), columns)

    def write(self, writer: _core.ContainerWriter) -> None:
        """Adds the sections of the block (see the module) to a container file."""
        write_strings(writer, "names", list(self.columns))
        places = [KINDS.index(column.kind) for column in self.columns.values()]
        writer.section("kinds", np.array(places, dtype=np.uint8))
        written: list[Column] = []
        for i, column in enumerate(self.columns.values()):
            for what in ("present", "values", "codes"):
                array = getattr(column, what)
                if array is not None:
                    writer.section(f"c{i}.{what}", array)
            if column.starts is not None:
                writer.section(f"c{i}.counts", narrow(column.starts[1:] - column.starts[:-1]))
            same = [j for j, one in enumerate(written[:256]) if _same_terms(one, column)]
            if column.kind == "keyword" and same:
                writer.section(f"c{i}.same", np.array(same[:1], dtype=np.uint8))
            elif column.kind == "keyword":
                write_strings(writer, f"c{i}.terms", column.terms)
            written.append(column)

    @classmethod
    def read(cls, container: _core.Container, n: int) -> ColumnBlock:
        """The block that `write` wrote, for n documents; every array is checked against the others.

        Raises CorruptIndex when they do not fit.
        """
        from .column_check import read_columns

        return cls(n, read_columns(container, n))


class ColumnWriter:
    """Collects the values of a segment's documents; `finish` makes the block.

    `kinds` declares columns (name -> "keyword", "integer", "float" or "date"); a column that is not
    declared gets the kind of its first value. Nothing changes when a call raises.

    >>> writer = ColumnWriter({"price": "float"})
    >>> writer.add({"price": 3, "lang": "en"})
    >>> writer.add({})
    >>> writer.finish().row(0)
    {'price': 3.0, 'lang': 'en'}
    """

    def __init__(self, kinds: Mapping[str, str] | None = None) -> None:
        self.n = 0
        self._kinds: dict[str, str] = {}
        self._values: dict[str, list[Any]] = {}
        for name, kind in (kinds or {}).items():
            _check_name(name)
            if kind not in KINDS:
                raise ValueError(f"columns[{name!r}] must be one of {', '.join(KINDS)}: {kind!r}")
            self._kinds[name] = kind
            self._values[name] = []

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column known so far."""
        return dict(self._kinds)

    def add(self, row: Mapping[str, Any]) -> None:
        """The values of the next document; columns that `row` does not name have none."""
        self.extend({name: [value] for name, value in row.items()}, 1)

    def extend(self, values: Mapping[str, Iterable[Any]], n: int) -> None:
        """The values of the next n documents, by column; each has n, None where there is none."""
        kinds: dict[str, str] = {}
        stored: dict[str, list[Any]] = {}
        for name, given in values.items():
            _check_name(name)
            if isinstance(given, (str, bytes)):
                raise TypeError(f"columns[{name!r}] is one text; pass a list of {n} values")
            cells = list(given)
            if len(cells) != n:
                raise ValueError(f"columns[{name!r}] has {len(cells)} values for {n} documents")
            kind = self._kinds.get(name) or _first_kind(cells, name, self.n)
            if kind is None:
                continue  # nothing but None in a column that nobody declared
            kinds[name] = kind
            stored[name] = _stored(cells, kind, name, self.n)
        for name, kind in kinds.items():
            self._kinds[name] = kind
            self._values.setdefault(name, [None] * self.n).extend(stored[name])
        self.n += n
        for column in self._values.values():
            column.extend([None] * (self.n - len(column)))

    def finish(self) -> ColumnBlock:
        """The block; the writer is empty afterwards and keeps its columns' kinds."""
        columns = {name: _made(kind, self._values[name]) for name, kind in self._kinds.items()}
        block = ColumnBlock(self.n, columns)
        self.n = 0
        self._values = {name: [] for name in self._kinds}
        return block


def block_of(
    values: Any, n: int, kinds: Mapping[str, str]
) -> tuple[ColumnBlock | None, dict[str, str]]:
    """The block of n documents from what a caller gave as columns, and the kinds known then.

    `values` is a mapping from column to its n values, or to :class:`Runs` of them, or a list of n
    mappings from column to value. None, when no column is known.
    """
    writer = ColumnWriter(kinds)
    runs: dict[str, Runs] = {}
    if values is None or isinstance(values, Mapping):
        whole = dict(values or {})
        runs = {name: given for name, given in whole.items() if isinstance(given, Runs)}
        writer.extend({name: given for name, given in whole.items() if name not in runs}, n)
    else:
        if isinstance(values, (str, bytes)):
            raise TypeError("columns is one text; pass a mapping from column to values")
        for place, row in enumerate(values):
            if not isinstance(row, Mapping):
                raise TypeError(
                    f"columns[{place}] is a {type(row).__name__}; pass a mapping from column to "
                    "values, or a list with a mapping for each document"
                )
            writer.add(row)
        if writer.n != n:
            raise ValueError(f"columns has {writer.n} rows for {n} documents")
    known = writer.kinds
    block = writer.finish()
    for name, given in runs.items():
        column = given.column(name, known.get(name), n)
        if column is not None:
            block.columns[name] = column
            known[name] = column.kind
    return (block if known else None), known


def require_kind(known: str, kind: str, name: str) -> None:
    """Raises ValueError when a column would change its kind."""
    if known != kind:
        raise ValueError(f"column {name!r} holds {known} values, these are {kind}")


def write_strings(writer: _core.ContainerWriter, name: str, strings: Sequence[str]) -> None:
    """Sections NAME.sizes and NAME.bytes, which StringTable reads."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
    writer.section(f"{name}.sizes", narrow(np.fromiter(map(len, encoded), np.int64, len(encoded))))
    writer.section(f"{name}.bytes", np.frombuffer(b"".join(encoded), dtype=np.uint8))


def narrow(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The counts in the narrowest of uint8, uint16 and uint32 that holds all of them."""
    most = int(counts.max()) if counts.size else 0
    if most >= 2**32:
        raise ValueError("a document has too many keywords, or a keyword is too long")
    return counts.astype(_code_type(most + 1))


def _same_terms(one: Column, other: Column) -> bool:
    """Of a dictionary that is worth it: most are a few words."""
    return len(one.terms) == len(other.terms) > 64 and one.terms == other.terms


def read_strings(container: _core.Container, name: str, n: int) -> list[str]:
    """What write_strings wrote, when there are n. Raises CorruptIndex."""
    return StringTable(container, name, n).values()


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"a column's name is a str that is not empty, got {name!r}")
    if name.startswith("$"):
        raise ValueError(f"a column's name must not start with '$', as operators do: {name!r}")


def _first_kind(cells: list[Any], name: str, first: int) -> str | None:
    for place, value in enumerate(cells):
        if value is not None:
            return kind_of(value, f"columns[{name!r}][{first + place}]")
    return None


_CONVERT = {"keyword": as_keywords, "integer": as_integer, "float": as_float, "date": as_date}
_PLAIN: dict[str, set[type]] = {
    "keyword": {str},
    "integer": {int},
    "float": {float, int},
    "date": set(),
}


def _stored(cells: list[Any], kind: str, name: str, first: int) -> list[Any]:
    """The values as they are stored. Values of the plain types of a kind need no look each."""
    if set(map(type, cells)) - {type(None)} <= _PLAIN[kind]:
        if kind == "keyword":
            return cells
        least = min((cell for cell in cells if cell is not None), default=0)
        most = max((cell for cell in cells if cell is not None), default=0)
        if kind == "integer" and -(2**63) <= least <= most < 2**63:
            return cells
    convert = _CONVERT[kind]
    stored = []
    for place, value in enumerate(cells):
        try:
            stored.append(None if value is None else convert(value, ""))
        except (TypeError, ValueError):
            convert(value, f"columns[{name!r}][{first + place}]")  # the same, with its place
            raise
    return stored


def _made(kind: str, cells: list[Any]) -> Column:
    if kind == "keyword":
        return Column.of_keywords(cells)
    has = np.array([cell is not None for cell in cells], dtype=np.bool_)
    dtype = np.float64 if kind == "float" else np.int64
    values = np.array([0 if cell is None else cell for cell in cells], dtype=dtype)
    present = None if bool(has.all()) else pack(has)
    return Column(kind, len(cells), present=present, values=values)


def _code_type(codes: int) -> type[np.unsignedinteger[Any]]:
    if codes <= 2**8:
        return np.uint8
    return np.uint16 if codes <= 2**16 else np.uint32
