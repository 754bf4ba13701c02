"""Which BM25: a formula by name with its parameters, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _core
from .arrays import as_number

# k1, b and delta that the authors of each formula (or of the code it follows) set out with.
_OWN: dict[str, tuple[float, float, float]] = {
    "default": (1.2, 0.75, 0.5),
    "lucene": (1.2, 0.75, 0.5),
    "tf-idf": (1.2, 0.75, 0.5),
    "bm25f": (1.2, 0.75, 0.5),
    "rank_bm25-plus": (1.5, 0.75, 1.0),
    "rank_bm25-plus-head": (1.5, 0.75, 1.0),
    "haystack-plus": (1.5, 0.75, 1.0),
}
_OTHERS = (1.5, 0.75, 0.5)

SCREEN_BYTES = 1 << 30


@dataclass(frozen=True)
class Formula:
    """A formula of :func:`formulas` and its parameters.

    Attributes
    ----------
    name
        ``"default"`` is Okapi BM25 with Lucene's idf and the factor k1 + 1; ``"lucene"`` leaves
        that factor out. All are written down in ``cpp/bm25.hpp`` and, to read, in
        ``gnomon.reference.bm25_formulas``.
    k1, b
        k1 from 0 to 1e100, b from 0 to 1.
    delta
        For BM25L and BM25+ in their several forms.
    epsilon, idf_floor
        For ``rank_bm25-okapi`` and ``haystack-okapi``: a negative idf becomes ``epsilon`` times the
        mean idf of all terms, or ``idf_floor`` when it is given.
    field_weights, field_b
        For ``bm25f``: one of each for every field of the index, in its order.

    Examples
    --------
    >>> Formula.of("bm25+")
    Formula(name='bm25+', k1=1.5, b=0.75, delta=0.5)
    """

    name: str = "default"
    k1: float = 1.2
    b: float = 0.75
    delta: float = 0.5
    epsilon: float = 0.25
    idf_floor: float | None = None
    field_weights: tuple[float, ...] = ()
    field_b: tuple[float, ...] = ()

    @classmethod
    def of(
        cls,
        name: str = "default",
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
    ) -> Formula:
        """A formula with its authors' parameters where none are given.

        Raises ValueError for a name that is not in :func:`formulas` or a parameter out of range.
        """
        own = _OWN.get(_named(name), _OTHERS)
        return cls(
            name,
            own[0] if k1 is None else as_number(k1, "k1"),
            own[1] if b is None else as_number(b, "b"),
            own[2] if delta is None else as_number(delta, "delta"),
        ).checked()

    def with_(
        self,
        name: str | None = None,
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
        field_weights: Sequence[float] | None = None,
    ) -> Formula:
        """The same formula but for what is given."""
        changes: dict[str, Any] = {}
        if name is not None:
            changes["name"] = _named(name)
        for key, value in (("k1", k1), ("b", b), ("delta", delta)):
            if value is not None:
                changes[key] = as_number(value, key)
        if field_weights is not None:
            changes["field_weights"] = tuple(
                as_number(weight, "field_weights") for weight in field_weights
            )
        return replace(self, **changes) if changes else self

    def to_meta(self) -> dict[str, Any]:
        """For a manifest: all but k1 and b, which stand in it by themselves."""
        return {
            "name": self.name,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "idf_floor": self.idf_floor,
            "field_weights": list(self.field_weights),
            "field_b": list(self.field_b),
        }

    @classmethod
    def of_meta(cls, k1: Any, b: Any, meta: Any) -> Formula:
        """What a manifest says. Raises ValueError for what no index has written."""
        if not isinstance(meta, dict) or meta.keys() != cls().to_meta().keys():
            raise ValueError(f"a formula has a name and its parameters, found {meta!r}")
        weights, bs, floor = meta["field_weights"], meta["field_b"], meta["idf_floor"]
        numbers = [k1, b, meta["delta"], meta["epsilon"], *([] if floor is None else [floor])]
        if not (
            isinstance(meta["name"], str)
            and isinstance(weights, list)
            and isinstance(bs, list)
            and all(type(number) is float for number in (*numbers, *weights, *bs))
        ):
            raise ValueError(f"the parameters of a formula are numbers, found {meta!r}")
        if (meta["name"] == "bm25f") != bool(bs):
            raise ValueError("bm25f and only it has fields")
        return cls(
            meta["name"], k1, b, meta["delta"], meta["epsilon"], floor, tuple(weights), tuple(bs)
        ).checked()

    def checked(self) -> Formula:
        """Itself. Raises ValueError when a search would."""
        self.scorer(_core.Bm25Snapshot(self._empty()))
        return self

    def _empty(self) -> list[Any]:
        builder = _core.Bm25Builder(with_vocabulary=False, n_fields=max(1, len(self.field_b)))
        return [(builder.finish(), None)]

    def scorer(
        self, snapshot: _core.Bm25Snapshot, screen_bytes: int = SCREEN_BYTES
    ) -> _core.Bm25Scorer:
        """What scores a snapshot by this formula, with so many bytes of screen lists at most."""
        return _core.Bm25Scorer(
            snapshot,
            self.name,
            self.k1,
            self.b,
            self.delta,
            self.epsilon,
            self.idf_floor,
            list(self.field_weights),
            list(self.field_b),
            screen_bytes,
        )

    def __repr__(self) -> str:
        rest = "".join(
            f", {key}={value!r}"
            for key, value, plain in (
                ("epsilon", self.epsilon, 0.25),
                ("idf_floor", self.idf_floor, None),
                ("field_weights", self.field_weights, ()),
                ("field_b", self.field_b, ()),
            )
            if value != plain
        )
        return (
            f"Formula(name={self.name!r}, k1={self.k1!r}, b={self.b!r}, delta={self.delta!r}{rest})"
        )


def _named(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"formula must be a name, got a {type(name).__name__}")
    return name


def formulas() -> list[str]:
    """The names of all formulas, the default one first.

    Examples
    --------
    >>> import gnomon.bm25_formula
    >>> gnomon.bm25_formula.formulas()[:3]
    ['default', 'lucene', 'robertson']
    """
    return _core.bm25_formulas()


def field_formula(
    fields: Mapping[str, float] | Sequence[str],
    k1: float | None = None,
    b: float | Mapping[str, float] | None = None,
) -> Formula:
    """BM25F for these fields, in this order; a mapping gives their weights, a list means 1 each.

    Examples
    --------
    >>> field_formula({"title": 3, "body": 1}, b={"title": 0.3}).field_b
    (0.3, 0.75)
    """
    weights = dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(fields, 1.0)
    if isinstance(b, Mapping):
        unknown = [name for name in b if name not in weights]
        if unknown:
            raise ValueError(f"b names the field {unknown[0]!r}, which the index does not have")
        bs = [as_number(b.get(name, 0.75), "b") for name in weights]
    else:
        bs = [as_number(0.75 if b is None else b, "b")] * len(weights)
    return Formula(
        "bm25f",
        as_number(1.2 if k1 is None else k1, "k1"),
        field_weights=tuple(as_number(weight, "field_weights") for weight in weights.values()),
        field_b=tuple(bs),
    ).checked()
