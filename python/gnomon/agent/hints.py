"""JSON Schema from type hints, and plain JSON values back into what the hints say."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, Union

Reader = Callable[[Any], Any]


class Injected:
    """Marks a parameter that the server supplies: ``tenant: Annotated[str, Injected]``."""


class Hint(NamedTuple):
    """What a type hint means: its schema, how to read a value, and whether the server gives it."""

    schema: dict[str, Any]
    read: Reader | None
    is_injected: bool = False


_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


def hint_of(annotation: Any, where: str, open_types: tuple[Any, ...] = ()) -> Hint:
    """The meaning of one annotation; TypeError names `where` it stands if it has none."""
    if annotation in open_types:
        raise TypeError(f"{where}: {annotation!r} contains itself; write the schema by hand")
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments, where, open_types)
    if origin is not None and origin in _FIELD_MARKS:
        return hint_of(arguments[0], where, open_types)
    if annotation is None or (isinstance(annotation, type) and annotation in _PLAIN):
        plain = _PLAIN[type(None) if annotation is None else annotation]
        return Hint(dict(plain), float if annotation is float else None)
    if annotation is Any:
        return Hint({}, None)
    if origin is Literal:
        return Hint(_choice(list(arguments), where), None)
    if origin in (Union, types.UnionType):
        return _union(arguments, where, open_types)
    if origin in (list, Sequence) and len(arguments) == 1:
        return _list(arguments[0], where, open_types)
    if origin in (dict, Mapping) and len(arguments) == 2 and arguments[0] is str:
        return _dict(arguments[1], where, open_types)
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            schema = _choice([member.value for member in annotation], where)
            return Hint(schema, annotation)
        if dataclasses.is_dataclass(annotation):
            return _dataclass(annotation, where, open_types)
        if typing.is_typeddict(annotation):
            return _typed_dict(annotation, where, open_types)
    raise TypeError(
        f"{where}: {annotation!r} has no JSON Schema here; use str, int, float, bool, Literal, "
        "Enum, Optional, list[T], dict[str, T], a dataclass or a TypedDict, or write the schema"
    )


# Python 3.10 does not know them.
_FIELD_MARKS = [getattr(typing, n) for n in ("Required", "NotRequired") if hasattr(typing, n)]


def _annotated(arguments: tuple[Any, ...], where: str, open_types: tuple[Any, ...]) -> Hint:
    notes = arguments[1:]
    if any(note is Injected or isinstance(note, Injected) for note in notes):
        return Hint({}, None, is_injected=True)
    hint = hint_of(arguments[0], where, open_types)
    schema = dict(hint.schema)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Mapping):
            schema.update(note)
        else:
            raise TypeError(
                f"{where}: {note!r} means nothing here; annotate with Injected, a description, or "
                'a dict of JSON Schema keywords such as {"minimum": 1}'
            )
    return Hint(schema, hint.read)


def _choice(values: list[Any], where: str) -> dict[str, Any]:
    names = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    bases = [
        next((k for k in (bool, str, int, float) if isinstance(v, k)), type(v)) for v in values
    ]
    found = list(dict.fromkeys(names.get(base, "") for base in bases))
    if not values or "" in found:
        raise TypeError(f"{where}: choices must be str, int, float, bool or None, got {values!r}")
    return {"type": found[0] if len(found) == 1 else found, "enum": values}


def _union(members: tuple[Any, ...], where: str, open_types: tuple[Any, ...]) -> Hint:
    hints = [hint_of(member, where, open_types) for member in members]
    schemas = [hint.schema for hint in hints]
    types_only = [s["type"] for s in schemas if list(s) == ["type"] and isinstance(s["type"], str)]
    if len(types_only) == len(schemas):
        return Hint({"type": types_only}, None)
    readers = [hint.read for hint in hints if hint.schema != _PLAIN[type(None)]]
    if len(readers) > 1 and any(readers):
        raise TypeError(
            f"{where}: a union of classes cannot be told apart; use one class or None, or a schema"
        )
    read = readers[0] if readers else None
    return Hint({"anyOf": schemas}, None if read is None else _unless_none(read))


def _unless_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _list(member: Any, where: str, open_types: tuple[Any, ...]) -> Hint:
    hint = hint_of(member, f"{where}[]", open_types)
    read = hint.read
    reader = None if read is None else lambda value: [read(item) for item in value]
    return Hint({"type": "array", "items": hint.schema}, reader)


def _dict(member: Any, where: str, open_types: tuple[Any, ...]) -> Hint:
    hint = hint_of(member, f"{where}{{}}", open_types)
    read = hint.read
    reader = None if read is None else lambda value: {k: read(item) for k, item in value.items()}
    return Hint({"type": "object", "additionalProperties": hint.schema or True}, reader)


def _fields(
    owner: Any, names: Sequence[str], where: str, open_types: tuple[Any, ...]
) -> dict[str, Hint]:
    hints = typing.get_type_hints(owner, include_extras=True)
    inner = (*open_types, owner)
    found = {name: hint_of(hints[name], f"{where}.{name}", inner) for name in names}
    if any(hint.is_injected for hint in found.values()):
        raise TypeError(f"{where}: only a parameter of the function itself can be Injected")
    return found


def _dataclass(owner: Any, where: str, open_types: tuple[Any, ...]) -> Hint:
    fields = [field for field in dataclasses.fields(owner) if field.init]
    hints = _fields(owner, [field.name for field in fields], where, open_types)
    required = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return Hint(object_schema(hints, required), lambda value: owner(**read_fields(value, hints)))


def _typed_dict(owner: Any, where: str, open_types: tuple[Any, ...]) -> Hint:
    hints = _fields(owner, list(owner.__annotations__), where, open_types)
    required = [name for name in hints if name in owner.__required_keys__]
    return Hint(object_schema(hints, required), lambda value: read_fields(value, hints))


def object_schema(hints: Mapping[str, Hint], required: Sequence[str]) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {name: hint.schema for name, hint in hints.items()},
        "required": list(required),
        "additionalProperties": False,
    }


def read_fields(value: Mapping[str, Any], hints: Mapping[str, Hint]) -> dict[str, Any]:
    """Each field as its hint says."""
    found = {}
    for name, item in value.items():
        hint = hints.get(name)
        found[name] = item if hint is None or hint.read is None else hint.read(item)
    return found
