"""Supertypes of Java types by scanning text: no tree, nothing shared with the parser."""

from __future__ import annotations

import re

_NOISE = re.compile(
    r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*[\s\S]*?\*/'
)
_HEAD = re.compile(
    r"(?<![\w.@])(class|interface|enum|record)\s+([A-Za-z_$][\w$]*)([^;{}()]*?)(\(|\{)"
)


def _without_generics(text: str) -> str:
    out, depth = [], 0
    for character in text:
        depth += (character == "<") - (character == ">")
        if depth == 0 and character != ">":
            out.append(character)
    return "".join(out)


def _types(clause: str) -> list[str]:
    words = [re.sub(r"@\w+\s*", "", word).strip() for word in clause.split(",")]
    return [word.rsplit(".", 1)[-1].strip() for word in words if word]


def supertypes(source: str) -> set[tuple[str, str, str]]:
    """Each (relation, simple name of the type, simple name of the supertype)."""
    source = _NOISE.sub(" ", source)
    found = set()
    for head in _HEAD.finditer(source):
        kind, name, tail, opener = head.groups()
        if opener == "(":
            if kind != "record":
                continue
            depth, at = 0, head.end() - 1
            while True:  # to the end of the record's components
                depth += (source[at] == "(") - (source[at] == ")")
                at += 1
                if depth == 0:
                    break
            tail = source[at : source.index("{", at)]
        tail = " " + _without_generics(tail) + " "
        parts = re.split(r"\s(extends|implements|permits)\s", tail)
        for word, clause in zip(parts[1::2], parts[2::2], strict=False):
            relation = {"extends": "inherits", "implements": "implements"}.get(word)
            if relation:
                found |= {(relation, name, target) for target in _types(clause)}
    return found
