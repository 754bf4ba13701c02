"""Filters and scopes of a question: which passages may answer it at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .query_ast import Meta, Quoted
from .query_compile import Compiler, QueryError
from .query_fields import FIELDS, META_FIELDS, TEXT_FIELDS
from .slots import Mask, Slots

_RANGES = {"$gte": (0, False), "$gt": (0, True), "$lte": (1, False), "$lt": (1, True)}
_VALUE_MOST = 4096
_OPERATORS = ("$eq", "$ne", "$in", "$nin", "$exists", *_RANGES)


@dataclass(frozen=True)
class Restriction:
    """`clauses` are (how it is shown, passages it lets through); `mask` is all of them together."""

    clauses: tuple[tuple[str, Mask], ...] = ()
    mask: Mask | None = None

    def shown(self) -> tuple[str, ...]:
        """What was applied."""
        return tuple(text for text, _ in self.clauses)


def restriction(
    slots: Slots, filters: Mapping[str, Any] | None, scope: Any, more: Mask | None = None
) -> Restriction:
    """What filters and scope let through. Raises QueryError naming the field or the scope."""
    compiler = Compiler(slots)
    clauses = [_filter(compiler, name, value) for name, value in sorted((filters or {}).items())]
    if scope is not None:
        clauses.append(_scope(slots, compiler, scope))
    if more is not None:
        clauses.append(("previous results", more))
    if not clauses:
        return Restriction()
    mask = clauses[0][1]
    for _, other in clauses[1:]:
        mask = mask & other
    return Restriction(tuple(clauses), mask)


def _filter(compiler: Compiler, name: str, value: Any) -> tuple[str, Mask]:
    field = name.casefold()
    if field not in FIELDS:
        raise QueryError(
            "unknown_field",
            f"there is no field {name!r}",
            f"use one of {', '.join(sorted(FIELDS))}",
        )
    if isinstance(value, Mapping):
        if not value:
            raise QueryError("bad_filter", f"the filter of {name!r} has no condition", _ways())
        masks = [_condition(compiler, field, op, each) for op, each in sorted(value.items())]
        shown = ", ".join(f"{op} {each}" for op, each in sorted(value.items()))
        return f"{field}: {shown}", np.logical_and.reduce(masks)
    values = value if isinstance(value, list) else [value]
    shown = ", ".join(map(str, values))
    return f"{field}: {shown}", _any_of(compiler, field, values)


def _condition(compiler: Compiler, field: str, operator: str, value: Any) -> Mask:
    live = compiler.slots.live
    if operator in ("$eq", "$in", "$ne", "$nin"):
        values = value if isinstance(value, list) else [value]
        found = _any_of(compiler, field, values)
        return found if operator in ("$eq", "$in") else live & ~found
    if operator == "$exists" and field in META_FIELDS:
        found = compiler.meta(Meta(META_FIELDS[field], "*"))
        return found if value else live & ~found
    if operator in _RANGES and field in META_FIELDS:
        side, is_open = _RANGES[operator]
        text = _text(value, field)
        meta = (
            Meta(META_FIELDS[field], "", text, None, is_open)
            if side == 0
            else Meta(META_FIELDS[field], "", None, text, False, is_open)
        )
        return compiler.meta(meta)
    raise QueryError(
        "bad_filter", f"the filter of {field!r} has no condition {operator!r}", _ways()
    )


def _any_of(compiler: Compiler, field: str, values: list[Any]) -> Mask:
    found = np.zeros(compiler.slots.n, dtype=np.bool_)
    for each in values:
        found |= _one(compiler, field, _text(each, field))
    return found


def _one(compiler: Compiler, field: str, text: str) -> Mask:
    if field in META_FIELDS:
        return compiler.meta(Meta(META_FIELDS[field], text))
    slots = compiler.slots
    query = compiler.query(Quoted(text.replace("*", " "), 0, TEXT_FIELDS[field]))
    if query is None:
        return slots.live if "*" in text else np.zeros(slots.n, dtype=np.bool_)
    return slots.mask(slots.matching(query))


def _text(value: Any, field: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QueryError(
            "bad_filter", f"a value of {field!r} is a text, a number or a list of them", _ways()
        )
    text = str(value)
    if len(text) > _VALUE_MOST:
        message = f"a value of {field!r} has at most {_VALUE_MOST:,} characters, got {len(text):,}"
        raise QueryError("bad_filter", message, "filter by a part of it")
    return text


def _ways() -> str:
    return f"give a value, a list of values, or an object with {', '.join(_OPERATORS)}"


def _scope(slots: Slots, compiler: Compiler, scope: Any) -> tuple[str, Mask]:
    if isinstance(scope, list):
        known = [each for each in scope if slots.snapshot.has_chunk(each)]
        return f"{len(known)} passages", slots.mask(slots.of_chunks(known))
    kind, _, name = scope.partition(":")
    make = _SCOPES.get(kind)
    if make is None or not name:
        raise QueryError(
            "bad_scope",
            f"there is no scope {scope!r}",
            "use doc:ID, section:ID, path:GLOB, a list of passage ids, or workspace:NAME in a "
            "session that has it",
        )
    return scope, make(compiler, name)


def _doc(compiler: Compiler, name: str) -> Mask:
    found = compiler.meta(Meta("doc", name))
    if found.any():
        return found
    ids = [document.id for document in compiler.slots.snapshot.find_document(name)]
    return _any_of(compiler, "doc", list(ids))


_SCOPES: dict[str, Callable[[Compiler, str], Mask]] = {
    "doc": _doc,
    "section": lambda compiler, name: compiler.meta(Meta("within", name)),
    "path": lambda compiler, name: compiler.meta(Meta("path", name)),
}
