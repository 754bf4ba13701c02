"""What a run of the loop may be given, and the small things its parts share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from .budget import AMOUNT_MAX, Budget, BudgetMeter, Exhausted
from .loop_log import EventLog

Outcome = dict[str, Any]


class Call:
    """One call that the driver carries out for the loop; what it raises comes back to the loop."""

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function = function
        self.args = args


class NoBudget(Exception):  # noqa: N818  (it says what happened and never leaves the loop)
    """Raised inside a dispatch, before its claim: the claim would pass a limit."""

    def __init__(self, exhausted: Exhausted) -> None:
        super().__init__(exhausted.dimension)
        self.exhausted = exhausted


@dataclass(frozen=True)
class Options:
    """The keyword arguments of `run_agent`, checked."""

    budget: Budget | BudgetMeter | None = None
    log: EventLog | None = None
    principal: str | None = None
    tenant: str | None = None
    business_scope: str = ""
    scopes: Collection[str] | None = None
    guard: Callable[..., Any] | None = None
    estimate: Callable[..., Any] | None = None
    cancelled: Callable[..., Any] | None = None
    clock: Callable[[], float] = time.time
    task_id: str = ""
    errors_in_a_row_max: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.budget, (Budget, BudgetMeter, type(None))):
            raise TypeError(f"budget must be a Budget, got {type(self.budget).__name__}")
        if isinstance(self.scopes, str):
            raise TypeError("scopes must be a collection of names, got one str")
        if self.scopes is not None:
            object.__setattr__(self, "scopes", frozenset(self.scopes))
        limit = self.errors_in_a_row_max
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"errors_in_a_row_max must be None or an int >= 1, got {limit!r}")

    def meter(self, max_steps: Any, started_at: float | None) -> BudgetMeter:
        """The meter of this run; ``max_steps`` and the budget's own steps both hold."""
        if isinstance(max_steps, bool) or not isinstance(max_steps, int):
            raise TypeError(f"max_steps must be an integer, got {type(max_steps).__name__}")
        if max_steps < 0:
            raise ValueError(f"max_steps must be at least 0, got {max_steps}")
        if isinstance(self.budget, BudgetMeter):  # the meter of the run that started this one
            return self.budget.child(Budget(steps=min(max_steps, AMOUNT_MAX)))
        budget = self.budget if self.budget is not None else Budget()
        steps = min(max_steps, AMOUNT_MAX if budget.steps is None else budget.steps)
        return BudgetMeter(replace(budget, steps=steps), self.clock, started_at)
