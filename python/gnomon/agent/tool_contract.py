"""What a tool takes, gives and may do: the compiled contract, apart from the function behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .jsonvalue import Bounds, Canonical, canonicalize
from .schema import CompiledSchema, Integers, Rules, compile_schema

Effect = Literal["read", "write", "destructive"]
#: Names the resource that a call acts on: an argument's name, or a function of the arguments.
ResourceKey = str | Callable[[Mapping[str, Any]], str | None]
Normalize = Callable[[dict[str, Any]], dict[str, Any]]


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


NO_LIMITS = Limits()
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


class ToolContract:
    """What a tool takes, gives and may do, compiled once; ``Tool`` adds the function.

    Parameters
    ----------
    name, purpose : str
    input_schema : dict
        JSON Schema of all arguments, injected ones included; the default takes none.
    output_schema : dict or None
    effect, risk, idempotent, limits, injected, reconcile, redact_paths, resource_key, normalize
        See Tool.
    integers, rules, bounds
        See Tool.

    Attributes
    ----------
    arguments : CompiledSchema
        What a model may send: the schema without the injected arguments.
    output : CompiledSchema or None
    digest : str
        Changes when anything changes that an approval was given for: schemas, risk, effect,
        injected arguments and rules.

    >>> schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    >>> lower = lambda arguments: {"to": arguments["to"].lower()}
    >>> ToolContract("send", input_schema=schema, normalize=lower).validate({"to": "ANN"}).value
    {'to': 'ann'}
    """

    def __init__(
        self,
        name: str,
        purpose: str = "",
        input_schema: dict[str, Any] = NO_ARGUMENTS,
        output_schema: dict[str, Any] | None = None,
        effect: Effect = "write",
        risk: int = 0,
        idempotent: bool = False,
        limits: Limits = NO_LIMITS,
        injected: Iterable[str] = (),
        resource_key: ResourceKey | None = None,
        reconcile: Callable[..., Any] | None = None,
        normalize: Normalize | None = None,
        redact_paths: Iterable[str] = (),
        *,
        integers: Integers = "strict",
        rules: Rules = "strict",
        bounds: Bounds | None = None,
    ) -> None:
        self.name, self.purpose = name, purpose
        self.effect, self.risk, self.idempotent = effect, risk, idempotent
        self.limits = limits
        self.injected = frozenset(injected)
        self.resource_key = resource_key
        self.reconcile = reconcile
        self.normalize = normalize
        self.redact_paths = tuple(redact_paths)
        self.integers, self.rules, self.bounds = integers, rules, bounds
        compiled: dict[str, Any] = {"rules": rules, "integers": integers}
        arguments = {**compiled, "is_object": True, "bounds": bounds}
        whole = compile_schema(input_schema, **arguments)
        self.input_schema: dict[str, Any] = whole.schema
        self.arguments: CompiledSchema = whole
        if self.injected:
            self.arguments = compile_schema(_without(whole.schema, self.injected), **arguments)
        self._injected_schema = _only(whole.schema, self.injected, rules, integers)
        self.output: CompiledSchema | None = (
            None if output_schema is None else compile_schema(output_schema, **compiled)
        )
        self.digest = canonicalize(
            [
                "contract/1",
                name,
                whole.digest,
                self.output.digest if self.output else None,
                sorted(self.injected),
                effect,
                risk,
            ]
        ).digest

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the whole result, or None."""
        return None if self.output is None else self.output.schema

    @property
    def model_schema(self) -> dict[str, Any]:
        """A copy of the schema that a model may see."""
        schema: dict[str, Any] = canonicalize(self.arguments.schema, _ANY_SIZE).value
        return schema

    def validate(self, arguments: Any) -> Canonical:
        """The canonical copy of a model's arguments, normalized, or ValidationError.

        Raises ValueError for a ``normalize`` that says something else the second time: what is
        recorded must normalize to itself.
        """
        canonical = self.arguments.validate(arguments)
        if self.normalize is None:
            return canonical
        once = self.arguments.validate(self.normalize(json.loads(canonical.data)))
        twice = self.arguments.validate(self.normalize(json.loads(once.data)))
        if once.data != twice.data:
            raise ValueError(
                f"normalize of tool {self.name!r} changes its own answer; make it idempotent"
            )
        return once

    def normalized(self, arguments: Any) -> Any:
        """Arguments as a dispatch would record them; as they came where they are invalid."""
        if self.normalize is None:
            return arguments
        try:
            return self.validate(arguments).value
        except ValueError:
            return arguments

    def resource(self, arguments: Mapping[str, Any]) -> str | None:
        """The resource that a call with these validated arguments acts on, or None."""
        key = self.resource_key
        if key is None:
            return None
        if callable(key):
            found = key(arguments)
            if found is not None and not isinstance(found, str):
                raise TypeError(
                    f"resource_key of tool {self.name!r} must give a str or None, "
                    f"got {type(found).__name__}"
                )
            return found
        if key not in arguments:
            return None
        return f"{key}={canonicalize(arguments[key], _ANY_SIZE).data.decode()}"

    def call_arguments(
        self, arguments: Mapping[str, Any], injected: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Validated arguments and the server's own, as `execute` takes them.

        Raises ValueError where an injected argument is missing, and ValidationError where it breaks
        its part of the schema: both are errors of the program around the tool.
        """
        missing = self.injected - injected.keys()
        if missing:
            raise ValueError(f"tool {self.name!r} needs injected arguments: {sorted(missing)}")
        given = {name: injected[name] for name in self.injected}
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
            "name": self.name,
            "description": self.purpose,
            "inputSchema": self.model_schema,
            "annotations": {
                "readOnlyHint": self.effect == "read",
                "destructiveHint": self.effect == "destructive",
                "idempotentHint": self.idempotent or self.effect == "read",
            },
        }
        if self.output is not None:
            described["outputSchema"] = canonicalize(self.output.schema, _ANY_SIZE).value
        return described


_ANY_SIZE = Bounds(max_bytes=1_000_000, max_depth=128, max_integer=None)


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
