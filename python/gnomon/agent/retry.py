"""How often and after which waits an attempt that proved not to have executed is started again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RetryPolicy:
    """Retries of outcomes known not to have executed; no other outcome is ever retried.

    The wait before attempt n+1 is ``min(maximum, initial * 2 ** (n - 1))`` plus a random part of
    at most ``jitter`` seconds, or what the tool asked for (``NotExecuted.retry_after``) where that
    is longer, up to ``maximum``. Waits come from tenacity, which the extra ``gnomon[retry]``
    installs.

    Parameters
    ----------
    attempts : int
        Most attempts in one dispatch, the first included; 1 never retries.
    initial, maximum, jitter : float
        Seconds.
    uniform : callable, optional
        ``uniform(0, jitter)`` draws the random part; replaced in tests.

    Examples
    --------
    >>> policy = RetryPolicy(attempts=4, initial=0.5, maximum=2.0, jitter=0.0)
    >>> [policy.wait(attempt) for attempt in (1, 2, 3, 4)]
    [0.5, 1.0, 2.0, 2.0]
    """

    attempts: int = 1
    initial: float = 0.1
    maximum: float = 5.0
    jitter: float = 0.1
    uniform: Callable[[float, float], float] = field(default=random.uniform, repr=False)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ValueError(f"attempts must be an int of at least 1, got {self.attempts!r}")
        for name in ("initial", "maximum", "jitter"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of seconds >= 0, got {value!r}")
        if self.attempts > 1:
            _backoff(self.initial, self.maximum, 1)  # a missing extra shows here, not in a retry

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after this attempt (1, 2, …) of the dispatch."""
        seconds = _backoff(self.initial, self.maximum, attempt)
        if self.jitter:
            seconds += self.uniform(0.0, self.jitter)
        if retry_after is not None and retry_after > seconds:
            seconds = retry_after
        return min(seconds, self.maximum)


def _backoff(initial: float, maximum: float, attempt: int) -> float:
    try:
        import tenacity
    except ImportError as error:
        raise ImportError(
            "retries need tenacity; install gnomon[retry], or keep RetryPolicy(attempts=1)"
        ) from error
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = attempt
    return float(tenacity.wait_exponential(multiplier=initial, max=maximum)(state))
