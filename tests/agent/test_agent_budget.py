"""Budgets: each dimension on its own, held before the act, the first one named."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from gnomon.agent.budget import (
    DIMENSIONS,
    Budget,
    BudgetMeter,
    Exhausted,
    Reservation,
    checked_usage,
)
from hypothesis import given
from hypothesis import strategies as st

COUNTED = [name for name in DIMENSIONS if name != "seconds"]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_b1_a_budget_hit_exactly_has_no_room_for_one_more() -> None:
    for name in COUNTED:
        meter = BudgetMeter(Budget(**{name: 3}))
        held = meter.reserve(**{name: 3})
        assert isinstance(held, Reservation)
        assert meter.reserve(**{name: 1}) == Exhausted(name, 3, 3, 1)
        assert isinstance(meter.reserve(**{name: 0}), Reservation)
        meter.settle(held, {name: 2})
        assert isinstance(meter.reserve(**{name: 1}), Reservation)


def test_b1_a_parallel_batch_of_three_with_one_write() -> None:
    for _ in range(50):
        meter = BudgetMeter(Budget(writes=1))
        start = threading.Barrier(3)
        answers: list[Any] = []

        def one(
            meter: BudgetMeter = meter,
            start: threading.Barrier = start,
            answers: list[Any] = answers,
        ) -> None:
            start.wait()
            answers.append(meter.reserve(writes=1))

        threads = [threading.Thread(target=one) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(isinstance(answer, Reservation) for answer in answers) == 1


def test_b1_no_dimension_replaces_another() -> None:
    for name in COUNTED:
        others = {other: 10**6 for other in COUNTED if other != name}
        meter = BudgetMeter(Budget(seconds=1e9, **{name: 0, **others}))
        refused = meter.reserve(**dict.fromkeys(COUNTED, 1))
        assert isinstance(refused, Exhausted)
        assert refused.dimension == name


def test_b1_the_first_exhausted_dimension_is_named_and_nothing_is_held() -> None:
    meter = BudgetMeter(Budget(tokens=5, writes=0, cost_micros=0))
    refused = meter.reserve(writes=1, cost_micros=1, tokens=1)
    assert refused == Exhausted("cost_micros", 0, 0, 1)  # tokens have room; writes come later
    assert isinstance(meter.reserve(tokens=5), Reservation)


def test_b1_wall_time_and_a_clock_that_goes_backwards() -> None:
    clock = Clock()
    meter = BudgetMeter(Budget(seconds=10), clock)
    clock.now += 9.5
    assert isinstance(meter.reserve(), Reservation)
    assert meter.remaining_seconds == 0.5
    clock.now -= 100.0
    assert meter.elapsed == 9.5
    assert meter.remaining_seconds == 0.5
    clock.now = 1010.0
    assert meter.reserve() == Exhausted("seconds", 10, 10.0, 0)
    clock.now = 0.0
    assert isinstance(meter.reserve(), Exhausted)
    assert meter.remaining_seconds == 0.0


def test_b1_children_spend_their_parents_budget() -> None:
    clock = Clock()
    parent = BudgetMeter(Budget(writes=2, tokens=100, seconds=60), clock)
    child = parent.child(Budget(writes=5, tokens=10))
    grandchild = child.child(Budget())
    assert grandchild.limits() == {"seconds": 60, "tokens": 10, "writes": 2}
    assert isinstance(parent.reserve(writes=1), Reservation)
    held = grandchild.reserve(writes=1, tokens=10)
    assert isinstance(held, Reservation)
    assert child.reserve(writes=1) == Exhausted("writes", 2, 2, 1)
    assert grandchild.reserve(tokens=1) == Exhausted("tokens", 10, 10, 1)
    grandchild.settle(held, {"tokens": 7})
    assert (parent.used()["tokens"], child.used()["tokens"]) == (7, 7)
    assert isinstance(grandchild.reserve(tokens=3), Reservation)
    assert grandchild.remaining_seconds == 60.0


def test_b1_more_used_than_held_is_seen_before_the_next_act() -> None:
    meter = BudgetMeter(Budget(tokens=10))
    held = meter.reserve(tokens=1)
    assert isinstance(held, Reservation)
    meter.settle(held, {"tokens": 500})
    assert meter.reserve() == Exhausted("tokens", 10, 500, 0)


@pytest.mark.parametrize("bad", [math.nan, -1, 1.5, True, "5", [], math.inf, 2**53, 10**400])
def test_b1_reports_that_are_no_count_are_not_free(bad: Any) -> None:
    used, invalid = checked_usage({"tokens": bad, "cost_micros": 3})
    assert (used, invalid) == ({"cost_micros": 3}, {"tokens"})
    for reserved in (0, 4):
        meter = BudgetMeter(Budget(tokens=10))
        held = meter.reserve(tokens=reserved)
        assert isinstance(held, Reservation)
        meter.settle(held, used, invalid)
        refused = meter.reserve()
        assert isinstance(refused, Exhausted)
        assert refused.dimension == "tokens"
    unlimited = BudgetMeter(Budget())
    held = unlimited.reserve(tokens=4)
    assert isinstance(held, Reservation)
    unlimited.settle(held, used, invalid)
    assert unlimited.used()["tokens"] == 4


@pytest.mark.parametrize("report", ["many", 5, [1], {"tokens": None}])
def test_reports_of_another_shape(report: Any) -> None:
    used, invalid = checked_usage(report)
    assert used == {}
    assert invalid == (frozenset() if isinstance(report, dict) else {"tokens", "cost_micros"})
    assert checked_usage(None) == ({}, frozenset())


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize("bad", [True, "1", [], math.nan, math.inf, -1, -0.5])
def test_limits_that_are_none(name: str, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        Budget(**{name: bad})


def test_a_fraction_is_a_limit_of_seconds_only() -> None:
    assert Budget(seconds=0.5).limits() == {"seconds": 0.5}
    with pytest.raises(TypeError, match="tokens must be an integer"):
        Budget(tokens=1.5)  # type: ignore[arg-type]
    assert Budget(tokens=2**53 - 1).limits() == {"tokens": 2**53 - 1}
    with pytest.raises(ValueError, match="None is no limit"):
        Budget(tokens=2**53)


@pytest.mark.parametrize(
    "amounts", [{"seconds": 1}, {"nothing": 1}, {"tokens": -1}, {"tokens": True}]
)
def test_amounts_that_cannot_be_held(amounts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"seconds|nothing|tokens"):
        BudgetMeter(Budget()).reserve(**amounts)


@given(
    st.dictionaries(st.sampled_from(COUNTED), st.integers(0, 20)),
    st.lists(st.dictionaries(st.sampled_from(COUNTED), st.integers(0, 8)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_what_fits_is_held_and_what_is_held_never_passes_a_limit(
    limits: dict[str, int], wishes: list[dict[str, int]], random: Any
) -> None:
    parent = BudgetMeter(Budget(**limits))
    meter = parent.child(Budget())
    open_: list[Reservation] = []
    spent: dict[str, int] = dict.fromkeys(COUNTED, 0)
    for wish in wishes:
        held = {name: sum(one.amounts.get(name, 0) for one in open_) for name in COUNTED}
        first = next(
            (
                name
                for name in DIMENSIONS
                if name in limits and spent[name] + held[name] + wish.get(name, 0) > limits[name]
            ),
            None,
        )
        answer = meter.reserve(**wish)
        assert (answer.dimension if isinstance(answer, Exhausted) else None) == first
        if isinstance(answer, Reservation):
            open_.append(answer)
        if open_ and random.random() < 0.5:
            done = open_.pop(random.randrange(len(open_)))
            used = {name: random.randint(0, amount) for name, amount in done.amounts.items()}
            meter.settle(done, used)
            for name, amount in used.items():
                spent[name] += amount
    assert {name: meter.used()[name] for name in COUNTED} == spent
    assert {name: parent.used()[name] for name in COUNTED} == spent
