"""The tool contract: what a tool takes, gives and may do, and what no model may ever send it.

A contract is checked once, when the tool is made: an unusable schema, a limit that is no number, or
a function that cannot take what the schema allows is an error of the program, not of a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from .jsonvalue import Bounds
from .schema import Integers, Rules
from .signature import check_importable, check_signature
from .tool_contract import Effect, Limits, Normalize, ResourceKey, ToolContract

__all__ = ["Effect", "Isolation", "Limits", "OnLarge", "Tool", "ToolContract"]

OnLarge = Literal["fail", "truncate"]
Isolation = Literal["thread", "process"]

RISK_MAX = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool as the runtime knows it.

    Parameters
    ----------
    name : str
        1 to 128 letters, digits and ``_ . - /``.
    schema : dict
        JSON Schema of the arguments (2020-12, or draft 7 by ``$schema``); its type is "object".
    risk : int
        Compared with the risk that was delegated to a runtime; 0 to 1,000,000.
    execute : callable
        Called with the arguments by name; returns ``{"status": "succeeded" | "failed" | "unknown",
        ...}``.
    purpose : str
        What the tool is for; shown to the model.
    output_schema : dict or None
        JSON Schema of the whole result.
    injected : set of str
        Arguments that the server supplies (tenant, principal, a context): absent from the schema a
        model sees, and refused when a model sends them.
    limits : Limits
    effect : "read", "write" or "destructive"
        What a call does to the world. Say "read" only where a second call would do no harm: its
        claims do not wait for the disk.
    idempotent : bool
        Whether a repeated call with the same arguments changes nothing more.
    approval : bool
        Above the delegated risk, wait for an approval instead of refusing.
    reconcile : callable or None
        Read-only look-up of what an earlier call did.
    redact_paths : tuple of str
        Secret fields: JSON Pointers ("/headers/Authorization", with ``*`` for any key) or names.
    resource_key : str, callable or None
        What a call acts on: the name of an argument, or a function of the validated arguments that
        gives a text (or None). A runtime runs one call at a time on each resource of a tenant,
        whatever the tools are, except those of effect "read".
    normalize : callable or None
        ``normalize(arguments)`` gives the validated arguments in the one form that counts (an
        address in lower case, a trimmed name), so that two ways to say the same are one operation.
        Pure, idempotent, and its answer must be valid as well.
    isolation : "thread" or "process"
        "process" calls ``execute``, a function of an importable module, in a process of its own
        that is killed when the time is over or the owner dies. Its arguments are JSON, so it takes
        no context. What it did until then is as unknown as ever.
    on_large : "fail" or "truncate"
        What becomes of a result beyond ``limits.max_result_bytes``.
    max_concurrency : int or None
        How many calls of this tool may run at once.
    integers : "strict" or "json-schema"
        Whether 5.0 is refused for an integer, or taken as 5.
    rules : "strict" or "json-schema"
        Whether unknown fields are refused unless the schema says otherwise.
    bounds : Bounds or None
        How large arguments may be; None for the default.

    Raises SchemaError for an unusable schema, ValueError and TypeError for the rest.
    """

    name: str
    schema: dict[str, Any]
    risk: int
    execute: Callable[..., Any]
    purpose: str = field(default="", kw_only=True)
    output_schema: dict[str, Any] | None = field(default=None, kw_only=True)
    injected: frozenset[str] = field(default=frozenset(), kw_only=True)
    limits: Limits = field(default=Limits(), kw_only=True)
    effect: Effect = field(default="write", kw_only=True)
    idempotent: bool = field(default=False, kw_only=True)
    approval: bool = field(default=False, kw_only=True)
    reconcile: Callable[..., Any] | None = field(default=None, kw_only=True)
    redact_paths: tuple[str, ...] = field(default=(), kw_only=True)
    resource_key: ResourceKey | None = field(default=None, kw_only=True)
    normalize: Normalize | None = field(default=None, kw_only=True)
    isolation: Isolation = field(default="thread", kw_only=True)
    on_large: OnLarge = field(default="fail", kw_only=True)
    max_concurrency: int | None = field(default=None, kw_only=True)
    integers: Integers = field(default="strict", kw_only=True)
    rules: Rules = field(default="strict", kw_only=True)
    bounds: Bounds | None = field(default=None, kw_only=True)
    contract: ToolContract = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        object.__setattr__(self, "injected", frozenset(self.injected))
        object.__setattr__(self, "redact_paths", tuple(self.redact_paths))
        object.__setattr__(self, "contract", self._compiled())
        check_signature(self.name, self.execute, self.contract.arguments.schema, self.injected)

    def _compiled(self) -> ToolContract:
        return ToolContract(
            self.name,
            self.purpose,
            self.schema,
            self.output_schema,
            self.effect,
            self.risk,
            self.idempotent,
            self.limits,
            self.injected,
            self.resource_key,
            self.reconcile,
            self.normalize,
            self.redact_paths,
            integers=self.integers,
            rules=self.rules,
            bounds=self.bounds,
        )

    @classmethod
    def of(cls, contract: ToolContract, execute: Callable[..., Any], **options: Any) -> Tool:
        """The tool of a contract; ``options`` are the rest of what Tool takes by name."""
        return cls(
            contract.name,
            contract.input_schema,
            contract.risk,
            execute,
            purpose=contract.purpose,
            output_schema=contract.output_schema,
            injected=contract.injected,
            limits=contract.limits,
            effect=contract.effect,
            idempotent=contract.idempotent,
            reconcile=contract.reconcile,
            redact_paths=contract.redact_paths,
            resource_key=contract.resource_key,
            normalize=contract.normalize,
            integers=contract.integers,
            rules=contract.rules,
            bounds=contract.bounds,
            **options,
        )

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, risk={self.risk}, effect={self.effect!r})"


def _check_fields(tool: Tool) -> None:
    if type(tool.name) is not str or not _NAME.fullmatch(tool.name):
        raise ValueError(
            f"name must be 1 to 128 letters, digits and _ . - /, got {str(tool.name)[:100]!r}"
        )
    if type(tool.risk) is not int or not 0 <= tool.risk <= RISK_MAX:
        raise ValueError(f"risk must be an int from 0 to {RISK_MAX}, got {tool.risk!r}")
    if not callable(tool.execute):
        raise TypeError(f"execute must be callable, got {type(tool.execute).__name__}")
    for name in ("reconcile", "normalize"):
        hook = getattr(tool, name)
        if hook is not None and not callable(hook):
            raise TypeError(f"{name} must be callable, got {type(hook).__name__}")
    for name, allowed in (
        ("effect", ("read", "write", "destructive")),
        ("on_large", ("fail", "truncate")),
        ("isolation", ("thread", "process")),
    ):
        if getattr(tool, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(tool, name)!r}")
    for name in ("idempotent", "approval"):
        if type(getattr(tool, name)) is not bool:
            raise TypeError(f"{name} must be True or False, got {getattr(tool, name)!r}")
    if not isinstance(tool.limits, Limits):
        raise TypeError(f"limits must be a Limits, got {type(tool.limits).__name__}")
    limit = tool.max_concurrency
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ValueError(f"max_concurrency must be None or a positive int, got {limit!r}")
    for name in ("injected", "redact_paths"):
        _check_names(name, getattr(tool, name))
    _check_resource_key(tool)
    if tool.isolation == "process":
        check_importable(tool.name, tool.execute, tool.injected)


def _check_resource_key(tool: Tool) -> None:
    key = tool.resource_key
    if key is None or callable(key):
        return
    if not isinstance(key, str):
        raise TypeError(f"resource_key must be a str or callable, got {type(key).__name__}")
    named = tool.schema.get("properties") if isinstance(tool.schema, dict) else None
    if not isinstance(named, dict) or key not in named or key in tool.injected:
        raise ValueError(f"resource_key {key!r} is no argument that a model gives; name one")


def _check_names(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a collection of names, got {type(value).__name__}")
    if not all(type(item) is str and item for item in value):
        raise TypeError(f"{name} must hold names that are not empty")
