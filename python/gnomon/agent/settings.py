"""Settings of a runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .approval import ApprovalPolicy
from .identity import check_name
from .redact import Redactor
from .retry import RetryPolicy


@dataclass(frozen=True)
class Settings:
    """Settings of a runtime besides its tools, risk limit and ledger.

    Parameters
    ----------
    principal, tenant : str
        On whose behalf calls are made unless a dispatch says otherwise.
    approvals : ApprovalPolicy
        Who may allow calls above ``max_risk`` of tools with ``approval=True``; the default is
        nobody.
    retry : RetryPolicy
        For attempts that proved not to have executed.
    lease_seconds : float
        How long other processes take this one for alive after its last sign of life. Longer than
        any pause of this process: see ``gnomon.agent.leases`` for what happens after a longer one.
    heartbeat : bool
        Whether a thread gives that sign every third of a lease. False: call ``heartbeat()``
        yourself; a tool with ``isolation="process"`` is killed when its lease is over.
    max_concurrency : int or None
        Most tools that run at once in this runtime.
    slot_seconds : float
        How long a dispatch waits for a place before it raises ConcurrencyLimit.
    store_arguments : "full" or "digest"
        "digest" keeps arguments out of the ledger, and results without their declared secrets; the
        dispatch then answers that same result.
    injected : mapping
        Values for injected arguments of tools, beside those the runtime knows itself.
    recover : bool
        Whether the runtime looks for operations of dead owners when it starts.
    redactor : Redactor, optional
        Takes secrets out of logs, spans, exceptions and approval texts; tools add their ``redact``.
    logger, tracer
        See Observer.
    """

    principal: str = ""
    tenant: str = ""
    approvals: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    lease_seconds: float = 30.0
    heartbeat: bool = True
    max_concurrency: int | None = None
    slot_seconds: float = 30.0
    store_arguments: Literal["full", "digest"] = "full"
    injected: Mapping[str, Any] = field(default_factory=dict)
    recover: bool = True
    redactor: Redactor | None = None
    logger: Any = None
    tracer: Any = None

    def __post_init__(self) -> None:
        check_name("principal", self.principal, empty=True)
        check_name("tenant", self.tenant, empty=True)
        if not 0 < self.lease_seconds < float("inf"):
            raise ValueError(f"lease_seconds must be a positive number, got {self.lease_seconds!r}")
        if self.max_concurrency is not None and (
            type(self.max_concurrency) is not int or self.max_concurrency < 1
        ):
            raise ValueError(
                f"max_concurrency must be None or an int >= 1, got {self.max_concurrency!r}"
            )
        if self.store_arguments not in ("full", "digest"):
            raise ValueError(
                f'store_arguments must be "full" or "digest", got {self.store_arguments!r}'
            )
