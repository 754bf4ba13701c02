"""Operation ids follow from the action, and from nothing else."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from gnomon.agent import ValidationError, derive_operation_id
from hypothesis import given
from hypothesis import strategies as st

SIMPLE = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8)
JSON = st.recursive(
    SIMPLE | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_the_published_value_never_changes() -> None:
    """Stored operations would be executed again under another derivation."""
    assert derive_operation_id("alice", "pay", {"amount": 5, "to": "bob"}, "invoice-7") == (
        "op_x7gez2sfpfij7wbs3hzppgtsh744gms7v7thkahhgvoqbvkzstrq"
    )


@pytest.mark.parametrize(
    "other",
    [
        ("bob", "pay", {"amount": 5}, "invoice-7", "acme"),
        ("alice", "refund", {"amount": 5}, "invoice-7", "acme"),
        ("alice", "pay", {"amount": 6}, "invoice-7", "acme"),
        ("alice", "pay", {"amount": "5"}, "invoice-7", "acme"),
        ("alice", "pay", {"amount": True}, "invoice-7", "acme"),
        ("alice", "pay", {"amount": 5}, "invoice-8", "acme"),
        ("alice", "pay", {"amount": 5}, "invoice-7", "other"),
        ("alice", "pay", {"amount": 5, "note": None}, "invoice-7", "acme"),
    ],
)
def test_every_part_counts(other: Any) -> None:
    *parts, tenant = other
    mine = derive_operation_id("alice", "pay", {"amount": 5}, "invoice-7", tenant="acme")
    assert derive_operation_id(*parts, tenant=tenant) != mine


def test_parts_cannot_flow_into_each_other() -> None:
    assert derive_operation_id("a", "bc", {}, "d") != derive_operation_id("ab", "c", {}, "d")
    assert derive_operation_id('a","b', "c", {}, "") != derive_operation_id("a", 'b","c', {}, "")


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=5))
def test_the_order_of_keys_does_not_count(arguments: dict[str, Any]) -> None:
    turned = dict(reversed(arguments.items()))
    assert derive_operation_id("a", "t", arguments, "s") == derive_operation_id(
        "a", "t", turned, "s"
    )


@given(JSON, JSON)
def test_equal_ids_mean_equal_json(left: Any, right: Any) -> None:
    same = derive_operation_id("a", "t", left, "s") == derive_operation_id("a", "t", right, "s")
    assert same == (_typed(left) == _typed(right))


def _typed(value: Any) -> Any:
    """JSON equality for Python: 1 is not True, 1.0 is 1."""
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, (int, float)):
        return ("number", float(value) if abs(value) > 2**53 else value)
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return value


def test_another_process_derives_the_same_id() -> None:
    code = (
        "from gnomon.agent import derive_operation_id as d;"
        "print(d('a', 't', {'x': [1, 2.5, 'ä'], 'y': {'b': 1, 'a': 2}}, 's'))"
    )
    ids = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    }
    mine = derive_operation_id("a", "t", {"y": {"a": 2, "b": 1}, "x": [1, 2.5, "ä"]}, "s")
    assert ids == {mine + "\n"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, 2**53, 10**400, "\ud800", {1: 2}, {1, 2}])
def test_what_is_no_json_has_no_id(bad: Any) -> None:
    with pytest.raises(ValidationError):
        derive_operation_id("a", "t", {"x": bad}, "s")


@pytest.mark.parametrize("place", range(3))
def test_names_are_text(place: int) -> None:
    names: list[Any] = ["a", "t", "s"]
    names[place] = None
    with pytest.raises(ValueError, match="must be a str"):
        derive_operation_id(names[0], names[1], {}, names[2])
