"""Results, and the caller's own ids behind the positions that the core works with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from . import _core

if TYPE_CHECKING:
    from .storage import Directory

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
_Ids = TypeVar("_Ids", bound="Ids")


class Hits(NamedTuple):
    """The answer to one query (or, from a dense batch, to all of them), best first.

    ids
        int64 array of positions or of the caller's integer ids, or a list of the caller's string
        ids (a list of lists for a dense batch).
    scores
        float64 array of the same shape: the canonical score, bit for bit.

    >>> import gnomon
    >>> index = gnomon.BM25Index.build(["red apple", "green pear"], ids=["a", "b"])
    >>> index.search("apple").ids
    ['a']
    """

    ids: Any
    scores: Float64Array


class MatchedHits(Hits):
    """Hits that also say which terms of the query each document holds; unpacks to two as well.

    matched
        For each hit the query's tokens (or token ids, or names of a query object's parts) that
        stand in it, each once, in query order.

    >>> import gnomon
    >>> index = gnomon.BM25Index.build(["red fox", "red dog"])
    >>> index.search("dog red", matched=True).matched
    [['dog', 'red'], ['red']]
    """

    matched: list[list[Any]]

    @classmethod
    def of(cls, hits: Hits, matched: list[list[Any]]) -> MatchedHits:
        """The same hits with what they matched."""
        made = cls(*hits)
        made.matched = matched
        return made


class Ids:
    """The caller's ids by document position: positions, unique ints, or unique strings."""

    def __init__(
        self, n: int, ints: Int64Array | None = None, strings: Sequence[str] | None = None
    ):
        self.n = n
        self._ints = ints
        self._strings = strings

    @classmethod
    def of(cls: type[_Ids], ids: Iterable[Any] | None, n: int) -> _Ids:
        """Checks ids given by a caller. Raises ValueError or TypeError naming the entry."""
        if ids is None:
            return cls(n)
        if isinstance(ids, (str, bytes)):
            raise TypeError("ids is one text; pass a list of ids")
        if isinstance(ids, np.ndarray) and ids.ndim != 1:
            raise TypeError(f"ids must be a flat list of ids, got {ids.ndim} dimensions")
        values = as_list(ids, n)
        if len(values) != n:
            raise ValueError(f"ids has {len(values)} entries but there are {n} documents")
        kind = str if values and isinstance(values[0], str) else int
        seen: dict[Any, int] = {}
        for place, value in enumerate(values):
            if not isinstance(value, (kind, np.integer) if kind is int else kind) or isinstance(
                value, bool
            ):
                raise TypeError(
                    f"ids[{place}] is a {type(value).__name__}; ids are all str or all int"
                )
            if value in seen:
                raise ValueError(
                    f"ids[{place}] repeats ids[{seen[value]}]: {value!r}; ids are unique"
                )
            seen[value] = place
        if kind is str:
            return cls(n, strings=values)
        for place, value in enumerate(values):
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"ids[{place}] does not fit 64 bits: {value}; use a string id")
        return cls(n, ints=np.array(values, dtype=np.int64))

    @property
    def kind(self) -> str:
        """'position', 'int' or 'str'."""
        if self._strings is not None:
            return "str"
        return "position" if self._ints is None else "int"

    def take(self, positions: Int64Array) -> Any:
        """The ids at these positions, of any shape."""
        if self._ints is not None:
            return self._ints[positions]
        if self._strings is None:
            return positions
        strings = self._strings
        if positions.ndim == 1:
            return [strings[p] for p in positions.tolist()]
        return [[strings[p] for p in row] for row in positions.tolist()]

    def write(self, path: str) -> None:
        """Writes a container file; not called for positions."""
        writer = _core.ContainerWriter(path)
        if self._ints is not None:
            writer.section("ids.int", self._ints)
        elif self._strings is not None:
            encoded = [text.encode("utf-8", "surrogatepass") for text in self._strings]
            starts = np.zeros(len(encoded) + 1, dtype=np.uint64)
            np.cumsum([len(text) for text in encoded], out=starts[1:])
            writer.section("ids.starts", starts)
            writer.section("ids.bytes", np.frombuffer(b"".join(encoded), dtype=np.uint8))
        writer.finish()

    @classmethod
    def of_part(cls, directory: Directory, part: str, n: int) -> Ids:
        """The ids of a saved index. Raises CorruptIndex when they are not what its meta says."""
        kind = directory.meta(part).get("ids")
        table = cls(n) if kind == "position" else cls.read(directory.container(part, "ids"), n)
        if table.kind != kind or ("ids" in directory.files(part)) == (kind == "position"):
            raise _core.CorruptIndex(
                f"{directory.path}: part {part!r} says that its ids are {kind!r}, its files "
                "do not; build the index again"
            )
        return table

    def verify(self) -> None:
        """Raises CorruptIndex when an id occurs twice or cannot be read."""
        values = self._strings if self._ints is None else self._ints.tolist()
        if values is not None and len(set(values)) != self.n:
            raise _core.CorruptIndex("ids: not unique; build the index again")

    @classmethod
    def read(cls: type[_Ids], container: _core.Container, n: int) -> _Ids:
        """Opens what write() wrote. Raises CorruptIndex when it does not fit n documents."""
        names = {name for name, _, _ in container.sections()}
        if "ids.int" in names:
            ints = container.array("ids.int")
            if ints.shape != (n,) or ints.dtype != np.int64:
                raise _core.CorruptIndex(f"ids: {ints.shape[0]} integer ids for {n} documents")
            return cls(n, ints=ints)
        return cls(n, strings=StringTable(container, "ids", n))


def as_list(ids: Iterable[Any], n: int | None = None) -> list[Any]:
    """Ids as a list; of an iterator no more than one beyond n, so that an endless one ends."""
    if isinstance(ids, np.ndarray):
        values: list[Any] = ids.tolist()
        return values
    if n is None or isinstance(ids, Sized):
        return list(ids)
    return list(islice(ids, n + 1))


def starts_of(sizes: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Where things of stored sizes start, one after the other from 0, and end: CorruptIndex."""
    if sizes.dtype not in (np.uint8, np.uint16, np.uint32):
        raise _core.CorruptIndex(f"sizes of the type {sizes.dtype}; build the index again")
    starts = np.zeros(sizes.size + 1, dtype=np.uint64)
    np.cumsum(sizes, out=starts[1:])
    return starts


class StringTable(Sequence[str]):
    """Strings in a container file, decoded when asked for: sections NAME.bytes and NAME.starts, or
    NAME.sizes where the file is to be small.
    """

    def __init__(self, container: _core.Container, name: str, n: int):
        if f"{name}.sizes" in container:
            self._starts = starts_of(container.array(f"{name}.sizes"))
        else:
            self._starts = container.array(f"{name}.starts")
        self._bytes = container.array(f"{name}.bytes")
        starts = self._starts
        if (
            starts.shape != (n + 1,)
            or starts.dtype != np.uint64
            or self._bytes.dtype != np.uint8
            or int(starts[0]) != 0
            or int(starts[-1]) != self._bytes.shape[0]
            or bool((starts[1:] < starts[:-1]).any())
        ):
            raise _core.CorruptIndex(f"{name}: the string table does not fit {n} entries")

    def __len__(self) -> int:
        """How many strings there are."""
        return int(self._starts.shape[0]) - 1

    def values(self) -> list[str]:
        """All strings: a tenth of the time of asking for each."""
        data = self._bytes.tobytes()
        starts = self._starts.tolist()
        if data.isascii():
            text = data.decode("ascii")
            return [text[first:last] for first, last in pairwise(starts)]
        try:
            return [
                data[first:last].decode("utf-8", "surrogatepass")
                for first, last in pairwise(starts)
            ]
        except UnicodeDecodeError as error:
            raise _core.CorruptIndex(f"a string is not UTF-8: {error}") from None

    def __getitem__(self, place: Any) -> Any:
        """The string at this place."""
        place = range(len(self))[place]
        if isinstance(place, range):
            return [self[p] for p in place]
        first, last = int(self._starts[place]), int(self._starts[place + 1])
        try:
            return self._bytes[first:last].tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise _core.CorruptIndex(f"string {place} is not UTF-8: {error}") from None
