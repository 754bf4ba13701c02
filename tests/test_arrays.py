"""Lists of Python floats become the array that numpy makes of them, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gnomon import _core
from gnomon.arrays import as_float32
from hypothesis import given, settings
from hypothesis import strategies as st

FLOATS = st.floats(allow_nan=True, allow_infinity=True)


def by_numpy(value: Any) -> Any:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.asarray(value, np.float64), np.float32)


def equal_bits(found: Any, expected: Any) -> bool:
    return (
        found.dtype == np.float32
        and found.shape == expected.shape
        and bool(found.flags.carray)
        and found.tobytes() == expected.tobytes()
    )


@settings(max_examples=100, deadline=None)
@given(data=st.data(), n=st.integers(1, 6), dim=st.integers(1, 5))
def test_lists_of_floats(data: st.DataObject, n: int, dim: int) -> None:
    row = st.lists(FLOATS, min_size=dim, max_size=dim)
    rows = data.draw(st.lists(st.one_of(row, row.map(tuple)), min_size=n, max_size=n))
    for value in (rows, tuple(rows), rows[0], [list(map(np.float64, row)) for row in rows]):
        assert equal_bits(_core.float_rows(value), by_numpy(value))
        assert equal_bits(as_float32(value, "rows"), by_numpy(value))


class Sly(list[float]):
    def __getitem__(self, place: Any) -> Any:
        return 7.0

    def __iter__(self) -> Any:
        return iter([7.0] * len(self))


class Half(float):
    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        [[1.0, 2], [3.0, 4.0]],
        [1.0, True],
        [[np.float32(1), np.float32(2)]],
        [np.ones(2), np.zeros(2)],
        [[1.0], np.ones(1)],
        [[[1.0]], [[2.0]]],
        [],
        [[], []],
        [Half(3.0)],
        1.5,
    ],
    ids=str,
)
def test_the_rest_is_left_to_numpy(value: Any) -> None:
    assert _core.float_rows(value) is None
    assert equal_bits(as_float32(value, "value"), by_numpy(value))


def test_what_numpy_refuses_is_refused() -> None:
    assert _core.float_rows(Sly([1.0])) is None
    for bad in ([[1.0, 2.0], [3.0]], [[1.0], 2.0], [1.0, [2.0]]):
        assert _core.float_rows(bad) is None
        with pytest.raises(ValueError, match="inhomogeneous"):
            as_float32(bad, "bad")
    for bad in ([[1.0, "2"]], [None], [1.0, None]):
        assert _core.float_rows(bad) is None
        with pytest.raises(TypeError, match="bad must hold real numbers"):
            as_float32(bad, "bad")
