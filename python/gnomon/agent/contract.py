"""The tool contract: what a tool takes, gives and may do, and what no model may ever send it.

A contract is checked once, when the tool is made: an unusable schema, a limit that is no number, or
a function that cannot take what the schema allows is an error of the program, not of a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .jsonvalue import Bounds, Canonical, canonicalize
from .schema import CompiledSchema, Integers, Rules, compile_schema
from .signature import check_signature

Effect = Literal["read", "write", "destructive"]
OnLarge = Literal["fail", "truncate"]

RISK_MAX = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


@dataclass(frozen=True)
class Limits:
    """What one call may take: milliseconds, and bytes of its result's canonical JSON.

    None is no limit. The runtime stops waiting after `timeout_ms`, and cuts or fails a result
    beyond `max_result_bytes` as the tool's `on_large` says.
    """

    timeout_ms: int | None = None
    max_result_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("timeout_ms", "max_result_bytes"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"limits.{name} must be None or a positive int, got {value!r}")


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
    redact : tuple of str
        Secret fields: JSON Pointers ("/headers/Authorization", with ``*`` for any key) or names.
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
    redact: tuple[str, ...] = field(default=(), kw_only=True)
    on_large: OnLarge = field(default="fail", kw_only=True)
    max_concurrency: int | None = field(default=None, kw_only=True)
    integers: Integers = field(default="strict", kw_only=True)
    rules: Rules = field(default="strict", kw_only=True)
    bounds: Bounds | None = field(default=None, kw_only=True)
    contract: ToolContract = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        object.__setattr__(self, "injected", frozenset(self.injected))
        object.__setattr__(self, "redact", tuple(self.redact))
        object.__setattr__(self, "contract", ToolContract(self))
        check_signature(self.name, self.execute, self.contract.arguments.schema, self.injected)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, risk={self.risk}, effect={self.effect!r})"


class ToolContract:
    """The compiled side of a tool: what judges its arguments and results.

    Attributes
    ----------
    arguments : CompiledSchema
        What a model may send: the schema without the injected arguments.
    output : CompiledSchema or None
    digest : str
        Changes when anything changes that an approval was given for: schemas, risk, effect,
        injected arguments and rules.
    """

    def __init__(self, tool: Tool) -> None:
        whole = compile_schema(
            tool.schema,
            rules=tool.rules,
            integers=tool.integers,
            is_object=True,
            bounds=tool.bounds,
        )
        self._name, self._purpose, self._injected = tool.name, tool.purpose, tool.injected
        self.arguments: CompiledSchema = (
            compile_schema(
                _without(whole.schema, tool.injected),
                rules=tool.rules,
                integers=tool.integers,
                is_object=True,
                bounds=tool.bounds,
            )
            if tool.injected
            else whole
        )
        self._injected_schema = _only(whole.schema, tool.injected, tool.rules, tool.integers)
        self.output: CompiledSchema | None = (
            None
            if tool.output_schema is None
            else compile_schema(tool.output_schema, rules=tool.rules, integers=tool.integers)
        )
        self._hints = {
            "readOnlyHint": tool.effect == "read",
            "destructiveHint": tool.effect == "destructive",
            "idempotentHint": tool.idempotent or tool.effect == "read",
        }
        self.digest = canonicalize(
            [
                "contract/1",
                tool.name,
                whole.digest,
                self.output.digest if self.output else None,
                sorted(tool.injected),
                tool.effect,
                tool.risk,
            ]
        ).digest

    @property
    def model_schema(self) -> dict[str, Any]:
        """A copy of the schema that a model may see."""
        schema: dict[str, Any] = canonicalize(self.arguments.schema, _ANY_SIZE).value
        return schema

    def validate(self, arguments: Any) -> Canonical:
        """The canonical copy of a model's arguments, or ValidationError."""
        return self.arguments.validate(arguments)

    def call_arguments(
        self, arguments: Mapping[str, Any], injected: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Validated arguments and the server's own, as `execute` takes them.

        Raises ValueError where an injected argument is missing, and ValidationError where it breaks
        its part of the schema: both are errors of the program around the tool.
        """
        missing = self._injected - injected.keys()
        if missing:
            raise ValueError(f"tool {self._name!r} needs injected arguments: {sorted(missing)}")
        given = {name: injected[name] for name in self._injected}
        if self._injected_schema is not None:
            described = self._injected_schema.schema["properties"].keys()
            self._injected_schema.validate({name: given[name] for name in described})
        return {**arguments, **given}

    def check_result(self, result: Any) -> None:
        """Raise ValidationError if a result breaks the output schema."""
        if self.output is not None:
            self.output.validate(result)

    def describe(self) -> dict[str, Any]:
        """The tool as a model or an MCP client is told of it; nothing injected stands in it."""
        described: dict[str, Any] = {
            "name": self._name,
            "description": self._purpose,
            "inputSchema": self.model_schema,
            "annotations": dict(self._hints),
        }
        if self.output is not None:
            described["outputSchema"] = canonicalize(self.output.schema, _ANY_SIZE).value
        return described


_ANY_SIZE = Bounds(max_bytes=1_000_000, max_depth=128, max_integer=None)


def _check_fields(tool: Tool) -> None:
    if type(tool.name) is not str or not _NAME.fullmatch(tool.name):
        raise ValueError(
            f"name must be 1 to 128 letters, digits and _ . - /, got {str(tool.name)[:100]!r}"
        )
    if type(tool.risk) is not int or not 0 <= tool.risk <= RISK_MAX:
        raise ValueError(f"risk must be an int from 0 to {RISK_MAX}, got {tool.risk!r}")
    if not callable(tool.execute):
        raise TypeError(f"execute must be callable, got {type(tool.execute).__name__}")
    if tool.reconcile is not None and not callable(tool.reconcile):
        raise TypeError(f"reconcile must be callable, got {type(tool.reconcile).__name__}")
    for name, allowed in (
        ("effect", ("read", "write", "destructive")),
        ("on_large", ("fail", "truncate")),
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
    for name in ("injected", "redact"):
        _check_names(name, getattr(tool, name))


def _check_names(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a collection of names, got {type(value).__name__}")
    if not all(type(item) is str and item for item in value):
        raise TypeError(f"{name} must hold names that are not empty")


# --- injected arguments ---------------------------------------------------------------------------


def _without(schema: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    copy = dict(schema)
    if "properties" in copy:
        copy["properties"] = {k: v for k, v in copy["properties"].items() if k not in names}
    if "required" in copy:
        copy["required"] = [name for name in copy["required"] if name not in names]
    return copy


def _only(
    schema: dict[str, Any], names: frozenset[str], rules: Rules, integers: Integers
) -> CompiledSchema | None:
    """The part of the schema that speaks of injected arguments, or None."""
    properties = {k: v for k, v in schema.get("properties", {}).items() if k in names}
    if not properties:
        return None
    part: dict[str, Any] = {"type": "object", "properties": properties}
    part.update({key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema})
    return compile_schema(part, rules=rules, integers=integers, is_object=True)
