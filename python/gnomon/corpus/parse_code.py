r"""Source code by tree-sitter: classes, functions and methods are sections, shown as they are.

A definition begins at its comments, decorators and annotations. What stands between definitions is
a section of its own, titled ``(module)`` or ``(body of NAME)``. Blank lines part atoms, so chunks
break there first. Other languages are parsed by `parse_other`: blocks of lines, no sections.

>>> source = b"class A(B):\n    def f(self, x):\n        g(x)\n"
>>> parsed = parse_code(source, "python")
>>> [(h.level, h.title) for h in parsed.headings]
[(1, 'A'), (2, 'A.f')]
>>> [(e.type, e.source, e.target) for e in parsed.edges][:2]
[('inherits', 'class:A', 'class:B'), ('defines', 'class:A', 'function:A.f')]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .builder import Edge, Name, Parsed
from .code_rules import COMMENTS, PARAMETERS, SUPERTYPES, TYPE_NAMES, WRAPPERS, query_for
from .grammars import parser_for

_BLANK = re.compile(rb"\n(?:[ \t\r\f\v]*\n)+")
_CLOSERS = b" \t\r\n\f})];,"
_SELF = {b"self", b"cls", b"this"}

_ERROR_MOST = 10_000  # children of an error
_OPEN_MOST = 256  # angle brackets
_STATEMENT = re.compile(rb"[;{}]")
_DEPTH_MOST = 500
_LOOKS = 1024


@dataclass
class _Definition:
    kind: str  # "class" or "function"
    name: str  # qualified within the file
    start: int  # with its comments and decorators
    end: int
    name_span: tuple[int, int]
    node: Any
    depth: int = 1
    parent: _Definition | None = None
    inner: list[_Definition] = field(default_factory=list)


def parse_other(data: bytes, start: int = 0, language: str = "") -> Parsed:
    """Code of a language without a grammar here: blank lines part its atoms."""
    parsed = Parsed(data, start)
    parsed.verbatim, parsed.language = True, language
    _atoms(parsed, start, [])
    return parsed


def parse_code(data: bytes, language: str, start: int = 0) -> Parsed:
    """The source in `data` (UTF-8) from `start` on; `language` is one of `code_rules.RULES`."""
    import tree_sitter

    source = b" " * start + data[start:] if start else data
    _require_closed(source, language)
    tree = parser_for(language).parse(source)
    _require_sense(tree.root_node)
    _require_shallow(tree)
    captures = tree_sitter.QueryCursor(query_for(language)).captures(tree.root_node)
    parsed = Parsed(data, start)
    parsed.verbatim, parsed.language = True, language
    if tree.root_node.has_error:
        parsed.problems.append("the grammar found errors in the source")
    definitions = _definitions(data, captures)
    _headings(parsed, start, definitions)
    _Facts(parsed, definitions, captures).collect()
    return parsed


def _require_sense(root: Any) -> None:
    """Raises ValueError where the grammar made nothing of the source: a query takes time that grows
    with the square of what lies in one error.
    """
    if root.has_error and any(
        node.type == "ERROR" and node.child_count > _ERROR_MOST for node in (root, *root.children)
    ):
        raise ValueError("the grammar makes nothing of the source")


def _require_closed(source: bytes, language: str) -> None:
    """Raises ValueError where one statement opens very many angle brackets and closes none of them:
    the parsers of type arguments take time that grows with the square of their number.
    """
    if language != "python" and source.count(b"<") > _OPEN_MOST:
        for part in _STATEMENT.split(source):
            if part.count(b"<") - part.count(b">") > _OPEN_MOST:
                raise ValueError("the source opens too many angle brackets")


def _require_shallow(tree: Any) -> None:
    """Raises ValueError where the tree is very deep: a query takes time that grows with the square
    of the depth. Looks at a thousand nodes; what is deep and rare costs little.
    """
    cursor, count = tree.walk(), tree.root_node.descendant_count
    for index in range(0, count, max(count // _LOOKS, 1)):
        cursor.goto_descendant(index)
        if cursor.depth > _DEPTH_MOST:
            raise ValueError("the source nests too deeply")


def _name_node(node: Any) -> Any:
    name = node.child_by_field_name("name")
    declarator = node
    while name is None and declarator is not None:  # C: the name is inside of its declarators
        declarator = declarator.child_by_field_name("declarator")
        if declarator is not None and declarator.type in ("identifier", "field_identifier"):
            name = declarator
    return name


def _definitions(data: bytes, captures: dict[str, list[Any]]) -> list[_Definition]:
    """All definitions in order, each with its parent; what has no name is left out."""
    nodes = [("class", node) for node in captures.get("class", [])]
    nodes += [("function", node) for node in captures.get("function", [])]
    nodes.sort(key=lambda item: (item[1].start_byte, -item[1].end_byte))
    found: list[_Definition] = []
    stack: list[_Definition] = []
    for kind, node in nodes:
        name = _name_node(node)
        if name is None:
            continue
        while stack and stack[-1].end <= node.start_byte:
            stack.pop()
        parent = stack[-1] if stack else None
        word = data[name.start_byte : name.end_byte].decode("utf-8")
        receiver = node.child_by_field_name("receiver")
        if receiver is not None:  # Go
            types = re.findall(rb"\w+", data[receiver.start_byte : receiver.end_byte])
            word = f"{types[-1].decode()}.{word}" if types else word
        qualified = f"{parent.name}.{word}" if parent else word
        depth = parent.depth + 1 if parent else 1
        definition = _Definition(
            kind, qualified, _first_byte(data, node), node.end_byte,
            (name.start_byte, name.end_byte), node, depth, parent,
        )  # fmt: skip
        (parent.inner if parent else []).append(definition)
        stack.append(definition)
        found.append(definition)
    return found


def _first_byte(data: bytes, node: Any) -> int:
    """The start of a definition with its wrappers and the comments directly above."""
    while node.parent is not None and node.parent.type in WRAPPERS:
        node = node.parent
    start: int = node.start_byte
    before = node.prev_sibling
    while before is not None and before.type in COMMENTS:
        gap = data[before.end_byte : start]
        if gap.strip() or gap.count(b"\n") > 1:
            break
        line = data.rfind(b"\n", 0, before.start_byte) + 1
        if data[line : before.start_byte].strip():  # a remark at the end of another line
            break
        start = before.start_byte
        before = before.prev_sibling
    return start


def _headings(parsed: Parsed, start: int, definitions: list[_Definition]) -> None:
    """Sections for classes and for functions outside of functions, and for what lies between."""
    opens: list[tuple[int, int, str]] = []  # place, level, title
    data = parsed.data
    shown = [d for d in definitions if d.parent is None or d.parent.kind == "class"]
    for number, definition in enumerate(shown):
        opens.append((definition.start, definition.depth, definition.name))
        following = shown[number + 1] if number + 1 < len(shown) else None
        if following is not None and following.start < definition.end:
            continue
        # What remains of the classes that end here, then of the module.
        at, owner = definition.end, definition.parent
        stop = following.start if following else len(data)
        while at < stop:
            limit = min(stop, owner.end) if owner else stop
            rest = data[at:limit]
            if rest.strip(_CLOSERS) and limit > at:
                place = at + len(rest) - len(rest.lstrip(_CLOSERS))
                title = f"(body of {owner.name})" if owner else "(module)"
                opens.append((place, (owner.depth if owner else 0) + 1, title))
            at = max(limit, at)
            if owner is None:
                break
            owner = owner.parent
    _atoms(parsed, start, opens)


def _atoms(parsed: Parsed, start: int, opens: list[tuple[int, int, str]]) -> None:
    data = parsed.data
    places = {match.end() for match in _BLANK.finditer(data, start)}
    heads = {}
    for place, level, title in opens:
        line = data.rfind(b"\n", start, place) + 1 or start
        heads[place if data[line:place].strip() else line] = (place, level, title)
    for place in sorted({start, *places, *heads}):
        if place >= len(data):
            continue
        parsed.verbatim_atom(place, "code", parsed.language)
        if place in heads:
            begin, level, title = heads[place]
            end = data.find(b"\n", begin)
            parsed.heading(level, place, end if end >= 0 else len(data), title, kind="code")


class _Facts:
    """Entities and relations that the tree shows."""

    def __init__(
        self, parsed: Parsed, definitions: list[_Definition], captures: dict[str, list[Any]]
    ) -> None:
        self.parsed = parsed
        self.definitions = definitions
        self.captures = captures
        # Go exports functions in capitals; elsewhere a capital word that is called is a class.
        self.types_are_called = parsed.language not in ("go", "c")
        self.by_word: dict[str, list[_Definition]] = {}
        for definition in definitions:
            self.by_word.setdefault(definition.name.rsplit(".", 1)[-1], []).append(definition)

    def collect(self) -> None:
        for definition in self.definitions:
            self._definition(definition)
        for node in self.captures.get("package", []):
            self._name("package", self._text(node), node, "defines")
        for node in self.captures.get("import", []):
            self._name("package", self._text(node).strip('<>"'), node)
        self._uses("call", "calls", "function")
        self._uses("throw", "throws", "class")

    def _text(self, node: Any) -> str:
        return self.parsed.data[node.start_byte : node.end_byte].decode("utf-8")

    def _name(self, kind: str, name: str, node: Any, role: str = "mentions") -> None:
        self.parsed.names.append(Name(kind, name, node.start_byte, node.end_byte, role))

    def _edge(self, kind: str, source: str, target: str, node: Any) -> None:
        self.parsed.edges.append(Edge(kind, source, target, node.start_byte, node.end_byte))

    def _definition(self, definition: _Definition) -> None:
        key = f"{definition.kind}:{definition.name}"
        self.parsed.names.append(
            Name(definition.kind, definition.name, *definition.name_span, "defines")
        )
        if definition.kind == "class":
            for relation, node in self._supertypes(definition.node):
                target = self._simple(node)
                self._name("class", target, node)
                self._edge(relation, key, f"class:{target}", node)
        if definition.parent is not None:
            owner = definition.parent
            self.parsed.edges.append(
                Edge("defines", f"{owner.kind}:{owner.name}", key, *definition.name_span)
            )
        if definition.kind == "function":
            self._parameters(definition, key)

    def _supertypes(self, node: Any) -> list[tuple[str, Any]]:
        found = []
        bases = node.child_by_field_name("superclasses")  # Python
        if bases is not None:
            found += [
                ("inherits", c) for c in bases.children if c.type in ("identifier", "attribute")
            ]
        for child in node.children:
            relation = SUPERTYPES.get(child.type)
            if relation is None:
                continue
            for part in child.named_children:
                if part.type == "type_list":
                    found += [(relation, c) for c in part.named_children if c.type in TYPE_NAMES]
                elif part.type in SUPERTYPES:
                    found += [
                        (SUPERTYPES[part.type], c)
                        for c in part.named_children
                        if c.type in TYPE_NAMES
                    ]
                elif part.type in TYPE_NAMES:
                    found.append((relation, part))
        return found

    def _simple(self, node: Any) -> str:
        """The last simple name of a type: ``Map`` of ``java.util.Map<K, V>``."""
        words = self._text(node).split("<", 1)[0]
        return words.rsplit(".", 1)[-1].split()[-1] if words.strip() else words

    def _parameters(self, definition: _Definition, key: str) -> None:
        holder = definition.node.child_by_field_name("parameters")
        declarator = definition.node.child_by_field_name("declarator")
        while holder is None and declarator is not None:
            holder = declarator.child_by_field_name("parameters")
            declarator = declarator.child_by_field_name("declarator")
        for child in holder.named_children if holder is not None else []:
            if child.type not in PARAMETERS:
                continue
            name = child
            while name.type not in ("identifier", "this_pattern"):
                inner = next(
                    (
                        part
                        for part in (
                            name.child_by_field_name("name"),
                            name.child_by_field_name("pattern"),
                            name.child_by_field_name("left"),
                            name.child_by_field_name("declarator"),
                            *name.named_children,
                        )
                        if part is not None
                        and part.type in PARAMETERS | {"variable_declarator", "pointer_declarator"}
                    ),
                    None,
                )
                if inner is None:
                    break
                name = inner
            word = self._text(name)
            if name.type != "identifier" or word.encode() in _SELF:
                continue
            full = f"{definition.name}.{word}"
            self._name("parameter", full, name, "defines")
            self._edge("parameter-of", f"parameter:{full}", key, name)

    def _uses(self, capture: str, relation: str, kind: str) -> None:
        """Edges from the innermost function around each captured name."""
        stack: list[_Definition] = []
        queue = iter(self.definitions)
        following = next(queue, None)
        for node in sorted(self.captures.get(capture, []), key=lambda n: n.start_byte):
            while following is not None and following.node.start_byte <= node.start_byte:
                stack.append(following)
                following = next(queue, None)
            while stack and stack[-1].end <= node.start_byte:
                stack.pop()
            word = self._simple(node)
            is_type = (
                capture == "call"
                and self.types_are_called
                and word[:1].isupper()
                and word not in self.by_word
            )
            target_kind = "class" if is_type else kind
            targets = [d for d in self.by_word.get(word, []) if capture == "call" or d.kind == kind]
            known = targets[0] if len(targets) == 1 else None
            target = f"{known.kind}:{known.name}" if known else f"{target_kind}:{word}"
            found, _, full = target.partition(":")
            self._name(found, full, node)
            owner = next((d for d in reversed(stack) if d.end > node.start_byte), None)
            if owner is not None:
                self._edge(relation, f"{owner.kind}:{owner.name}", target, node)
