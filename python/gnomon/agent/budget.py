"""Limits of a run, one per dimension, each checked and reserved before the act.

No dimension replaces another: a run with steps left and no writes left must not write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

#: In the order in which they are checked; the first one without room is the one that is named.
DIMENSIONS = ("steps", "seconds", "tokens", "cost_micros", "writes", "risk", "result_bytes")
#: What a model or a tool may report about itself after the act.
REPORTED = ("tokens", "cost_micros")
AMOUNT_MAX = 2**53 - 1  # a larger report is no count; an event could not carry it


@dataclass(frozen=True)
class Budget:
    """Limits of a run; None is no limit. All are upper bounds on what is used, the bound included.

    Parameters
    ----------
    steps : int, optional
        Rounds of the loop, each of which asks the policy once.
    seconds : float, optional
        Wall time from the start of the run, or of the first run of a resumed task.
    tokens, cost_micros : int, optional
        As reported by policy and tools; cost in millionths of the account's currency.
    writes : int, optional
        Operations of tools that are not read-only. A replayed result is no write.
    risk : int, optional
        Sum of the risk of the operations that are started.
    result_bytes : int, optional
        Size of the tools' results as compact JSON.

    Raises TypeError or ValueError, naming the limit, for what is no non-negative number.

    >>> Budget(steps=3, writes=1).limits()
    {'steps': 3, 'writes': 1}
    """

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    writes: int | None = None
    risk: int | None = None
    result_bytes: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_limit(item.name, getattr(self, item.name))

    def limits(self) -> dict[str, int | float]:
        """The limits that are set, in the order of checking."""
        found = {name: getattr(self, name) for name in DIMENSIONS}
        return {name: limit for name, limit in found.items() if limit is not None}


def _check_limit(name: str, value: Any) -> None:
    if value is None:
        return
    right = isinstance(value, (int, float) if name == "seconds" else int)
    if isinstance(value, bool) or not right:
        kind = "a number" if name == "seconds" else "an integer"
        raise TypeError(f"{name} must be {kind} or None, got {type(value).__name__}")
    if not 0 <= value <= AMOUNT_MAX:
        raise ValueError(f"{name} must be from 0 to 2**53 - 1; None is no limit")


@dataclass(frozen=True)
class Exhausted:
    """Why a reservation was refused: ``used`` + ``requested`` would pass ``limit``."""

    dimension: str
    limit: int | float
    used: int | float
    requested: int | float


@dataclass(frozen=True)
class Reservation:
    """Room that is held until ``BudgetMeter.settle`` turns it into what was really used."""

    amounts: Mapping[str, int]


def checked_usage(reported: Any) -> tuple[dict[str, int], frozenset[str]]:
    """What a model or tool says it used: valid amounts, and dimensions whose report is no count.

    >>> checked_usage({"tokens": 5, "cost_micros": float("nan")})
    ({'tokens': 5}, frozenset({'cost_micros'}))
    """
    if reported is None:
        return {}, frozenset()
    if not isinstance(reported, Mapping):
        return {}, frozenset(REPORTED)
    valid, invalid = {}, set()
    for name in REPORTED:
        value = reported.get(name)
        if value is None:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= AMOUNT_MAX:
            valid[name] = int(value)
        else:
            invalid.add(name)
    return valid, frozenset(invalid)


class BudgetMeter:
    """Counts what a run has used and holds, against a `Budget`. Safe for threads.

    ``parent`` is the meter of the run that started this one: each reservation must fit in both.
    ``started_at`` is epoch seconds; a clock that goes backwards gives no time back.

    >>> meter = BudgetMeter(Budget(writes=1))
    >>> held = meter.reserve(writes=1)
    >>> meter.reserve(writes=1)
    Exhausted(dimension='writes', limit=1, used=1, requested=1)
    """

    def __init__(
        self,
        budget: Budget,
        clock: Callable[[], float] = time.time,
        started_at: float | None = None,
        parent: BudgetMeter | None = None,
    ) -> None:
        self.budget = budget
        self.clock = clock
        self.parent = parent
        self._used: dict[str, int] = {name: 0 for name in DIMENSIONS if name != "seconds"}
        self._held = dict(self._used)
        self._started_at = clock() if started_at is None else started_at
        self._elapsed = 0.0
        # One lock for a family of meters: a reservation in all of them is one step.
        self._lock: threading.RLock = parent._lock if parent else threading.RLock()

    def child(self, budget: Budget) -> BudgetMeter:
        """A meter for a run within this one."""
        return BudgetMeter(budget, self.clock, parent=self)

    @property
    def elapsed(self) -> float:
        """Seconds since the start; never falls."""
        with self._lock:
            self._elapsed = max(self._elapsed, self.clock() - self._started_at)
            return self._elapsed

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds until the nearest deadline of this meter and its parents, or None."""
        own = None if self.budget.seconds is None else max(0.0, self.budget.seconds - self.elapsed)
        above = self.parent.remaining_seconds if self.parent else None
        return min((left for left in (own, above) if left is not None), default=None)

    def limit(self, name: str) -> int | float | None:
        """The tightest limit of a dimension in this meter and its parents, or None."""
        limits = [getattr(meter.budget, name) for meter in self._family()]
        return min((limit for limit in limits if limit is not None), default=None)

    def limits(self) -> dict[str, int | float]:
        """All limits that hold here, the tightest of each dimension."""
        found = {name: self.limit(name) for name in DIMENSIONS}
        return {name: limit for name, limit in found.items() if limit is not None}

    def used(self) -> dict[str, int | float]:
        """What was used so far, by dimension; what is only held is not in it."""
        with self._lock:
            return {
                name: self.elapsed if name == "seconds" else self._used[name] for name in DIMENSIONS
            }

    def reserve(self, **amounts: int) -> Reservation | Exhausted:
        """Hold these amounts in every meter up to the root, or nothing and the first refusal.

        Seconds are not held: they are exhausted once the deadline has come. A dimension that is
        not named is refused only where its use has passed the limit already.
        """
        for name, amount in amounts.items():
            if name not in self._used:
                raise ValueError(f"{name!r} cannot be reserved; use one of {', '.join(self._used)}")
            if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
                raise ValueError(f"{name} must be an integer of at least 0, got {amount!r}")
        with self._lock:
            for meter in self._family():
                refusal = meter._refusal(amounts)
                if refusal is not None:
                    return refusal
            for meter in self._family():
                for name, amount in amounts.items():
                    meter._held[name] += amount
        return Reservation(dict(amounts))

    def settle(
        self,
        reservation: Reservation,
        used: Mapping[str, int],
        invalid: frozenset[str] = frozenset(),
    ) -> None:
        """Give the reservation back and count what was used, also where that is more.

        A dimension in ``invalid`` (the report was no count) is charged with all that was left of
        its limit, and at least with what was held: a report that cannot be read must not be free.
        """
        with self._lock:
            for meter in self._family():
                for name, amount in reservation.amounts.items():
                    meter._held[name] -= amount
                for name in invalid:
                    meter._charge_rest(name, reservation.amounts.get(name, 0))
                for name, amount in used.items():
                    meter._used[name] += amount

    def charge(self, used: Mapping[str, int]) -> None:
        """Count what was used without a reservation, e.g. by an earlier run of the same task."""
        self.settle(Reservation({}), used)

    def _family(self) -> list[BudgetMeter]:
        return [self] if self.parent is None else [self, *self.parent._family()]

    def _refusal(self, amounts: Mapping[str, int]) -> Exhausted | None:
        for name in DIMENSIONS:
            limit = getattr(self.budget, name)
            if limit is None:
                continue
            if name == "seconds":
                if self.elapsed >= limit:
                    return Exhausted(name, limit, self.elapsed, 0)
                continue
            taken, wanted = self._used[name] + self._held[name], amounts.get(name, 0)
            if taken + wanted > limit:
                return Exhausted(name, limit, taken, wanted)
        return None

    def _charge_rest(self, name: str, held: int) -> None:
        limit = getattr(self.budget, name)
        left = 0 if limit is None else limit - self._used[name] + 1  # + 1: no room, not even for 0
        self._used[name] += max(left, held, 0)
