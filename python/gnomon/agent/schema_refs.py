"""Reading a schema document: its closed keyword list, its size, and where its references lead.

References are followed inside the document only. Nothing is ever fetched: a `$ref` to http:// or
file:// in a tool contract would make the validator a client of whoever wrote the contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from .problems import Problem, SchemaError, pointer
from .schema_keywords import CONTENT, DIALECTS, DRAFT_7, DRAFT_2020_12, Dialect, positions

SUBSCHEMAS_MAX = 5_000
REFS_MAX = 1_000
# A base that no document can name, so that a relative reference has something to be relative to.
_ROOT = "gnomon-contract:/schema"


def refuse(path: tuple[str | int, ...], rule: str, message: str, remedy: str) -> SchemaError:
    """A SchemaError with this one problem."""
    problem = Problem(pointer(path), rule, message, remedy)
    return SchemaError(str(problem), [problem])


@dataclass
class Node:
    """One schema object of the document."""

    schema: dict[str, Any]
    path: tuple[str | int, ...]
    base: str


@dataclass
class Document:
    """A checked schema document: its nodes by identity, its resources and anchors by URI."""

    root: dict[str, Any]
    dialect: Dialect
    is_strict: bool
    nodes: dict[int, Node] = field(default_factory=dict)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    anchors: dict[str, dict[str, Any]] = field(default_factory=dict)
    dynamic: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # What a `$ref` leads to, and the schemas of which a `$dynamicRef` leads to one.
    targets: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    choices: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    # Whether a schema, alone or with those that judge the same value, describes an object at all,
    # and whether it names fields: computed once, before anything is closed.
    describes: dict[int, bool] = field(default_factory=dict)
    names: dict[int, bool] = field(default_factory=dict)

    def node(self, schema: dict[str, Any]) -> Node:
        """The node of a schema object of this document."""
        return self.nodes[id(schema)]


def dialect_of(schema: dict[str, Any], default: str) -> Dialect:
    """The dialect that the root names by `$schema`, else the default."""
    uri = schema.get("$schema", default)
    known = {DRAFT_2020_12: DRAFT_2020_12, DRAFT_7: DRAFT_7, DRAFT_7.rstrip("#"): DRAFT_7}
    name = known.get(uri.removesuffix("#") if isinstance(uri, str) else "")
    if name is None:
        message = "names a dialect that is not known here"
        raise refuse(("$schema",), "$schema", message, f"use {DRAFT_2020_12} or {DRAFT_7}")
    return DIALECTS[name]


def read_document(root: dict[str, Any], dialect: Dialect, *, is_strict: bool) -> Document:
    """Check every keyword of the document and resolve every reference, or raise SchemaError.

    `root` must be a plain copy in which no two places share one object.
    """
    document = Document(root, dialect, is_strict)
    _collect(document)
    refs = 0
    for node in document.nodes.values():
        for keyword, found in (("$ref", document.targets), ("$dynamicRef", document.choices)):
            if keyword in node.schema:
                refs += 1
                found[id(node.schema)] = _resolved(document, node, keyword)
    if refs > REFS_MAX:
        message = f"has {refs} references, more than {REFS_MAX}"
        raise refuse((), "schema-size", message, "split the tool or simplify its schema")
    return document


def _collect(document: Document) -> None:
    stack: list[tuple[Any, tuple[str | int, ...], str]] = [(document.root, (), _ROOT)]
    while stack:
        schema, path, base = stack.pop()
        if isinstance(schema, bool):
            continue
        if not isinstance(schema, dict):
            raise refuse(path, "schema", "must be a schema", "write an object, true or false")
        if len(document.nodes) >= SUBSCHEMAS_MAX:
            message = f"has more than {SUBSCHEMAS_MAX} subschemas"
            raise refuse((), "schema-size", message, "split the tool or simplify its schema")
        base = _identify(document, schema, path, base)
        _check_keywords(document, schema, path)
        document.nodes[id(schema)] = Node(schema, path, base)
        inner = [
            (p.schema, (*path, p.keyword, *(() if p.key is None else (p.key,))), base)
            for p in positions(schema)
        ]
        stack.extend(reversed(inner))


def _check_keywords(
    document: Document, schema: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    dialect = document.dialect
    for keyword in schema:
        if keyword not in dialect.keywords:
            message = f"is no keyword of JSON Schema {dialect.name} known here"
            raise refuse((*path, keyword), "unknown-keyword", message, "correct or remove it")
        if document.is_strict and keyword in CONTENT:
            message = "checks nothing by the standard and is refused"
            raise refuse((*path, keyword), "unknown-keyword", message, "remove it or use a pattern")
    if path and "$schema" in schema and dialect_of(schema, dialect.uri) is not dialect:
        message = "names another dialect than the root"
        raise refuse((*path, "$schema"), "$schema", message, "use one dialect in a document")


def _identify(
    document: Document, schema: dict[str, Any], path: tuple[str | int, ...], base: str
) -> str:
    """Enter the names this schema gives itself; returns the base URI for what is inside."""
    own = schema.get("$id")
    is_draft7 = document.dialect.is_draft7
    if is_draft7 and "$ref" in schema:
        own = None  # Draft 7 ignores all siblings of $ref.
    if isinstance(own, str):
        uri, fragment = urldefrag(own)
        if uri or not fragment:
            base = _join(base, uri)
        if fragment and is_draft7:
            _enter(document.anchors, f"{base}#{fragment}", schema, path, "$id")
        if uri or not fragment:
            _enter(document.resources, base, schema, path, "$id")
    if not path:
        document.resources.setdefault(base, schema)
        document.resources[_ROOT] = schema
    for keyword in ("$anchor", "$dynamicAnchor"):
        name = schema.get(keyword)
        if isinstance(name, str) and not is_draft7:
            _enter(document.anchors, f"{base}#{name}", schema, path, keyword)
            if keyword == "$dynamicAnchor":
                document.dynamic.setdefault(name, []).append(schema)
    return base


def _enter(
    names: dict[str, dict[str, Any]],
    name: str,
    schema: dict[str, Any],
    path: tuple[str | int, ...],
    keyword: str,
) -> None:
    if names.setdefault(name, schema) is not schema:
        raise refuse((*path, keyword), keyword, "gives a name that is taken", "rename one of them")


def _join(base: str, uri: str) -> str:
    try:
        return urljoin(base.replace("gnomon-contract:", "http:"), uri) if uri else base
    except ValueError:
        return uri


def _resolved(document: Document, node: Node, keyword: str) -> list[dict[str, Any]]:
    text = node.schema[keyword]
    where = (*node.path, keyword)
    if not isinstance(text, str):
        raise refuse(where, keyword, "must be a string", "name a schema of this document")
    uri, fragment = urldefrag(text)
    base = _join(node.base, uri)
    resource = document.resources.get(base)
    if resource is None:
        message = "points outside the document, and nothing is fetched"
        raise refuse(where, "remote-ref", message, "copy the schema into $defs")
    if fragment and not fragment.startswith("/"):
        target = document.anchors.get(f"{base}#{fragment}")
    else:
        target = _at_pointer(resource, fragment)
    if target is None or (isinstance(target, dict) and id(target) not in document.nodes):
        message = "points to no schema of this document"
        raise refuse(where, keyword, message, "correct the reference")
    found = [target] if isinstance(target, dict) else []
    if keyword == "$dynamicRef" and found and found[0].get("$dynamicAnchor") == fragment:
        found += [s for s in document.dynamic[fragment] if s is not target]
    return found


def _at_pointer(resource: Any, fragment: str) -> Any:
    value = resource
    for token in unquote(fragment).split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value if isinstance(value, (dict, bool)) else None


def ref_siblings_count(document: Document, schema: dict[str, Any]) -> bool:
    """Whether the other keywords of `schema` apply: draft 7 ignores all siblings of `$ref`."""
    return not (document.dialect.is_draft7 and "$ref" in schema)


def in_place(document: Document, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas that judge the same value as `schema`, or may."""
    yield from always_in_place(document, schema)
    yield from document.choices.get(id(schema), ())


def always_in_place(document: Document, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same without those that a `$dynamicRef` may lead to."""
    yield from document.targets.get(id(schema), ())
    if ref_siblings_count(document, schema):
        for position in positions(schema):
            if position.kind == "in-place" and isinstance(position.schema, dict):
                yield position.schema
