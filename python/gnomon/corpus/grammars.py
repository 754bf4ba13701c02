"""The tree-sitter grammars, each from its own wheel: nothing is fetched when a parser starts."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

# language -> (module, function that gives the grammar)
GRAMMARS = {
    "rst": ("tree_sitter_rst", "language"),
    "python": ("tree_sitter_python", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "c": ("tree_sitter_c", "language"),
}


@cache
def parser_for(language: str) -> Any:
    """The parser of a language.

    Raises ImportError that names the extra when the grammar is not installed.

    >>> parser_for("python").parse(b"x = 1").root_node.type
    'module'
    """
    module, function = GRAMMARS[language]
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        grammar = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is needed to parse {language}: pip install 'gnomon[corpus]'"
        ) from error
    return tree_sitter.Parser(tree_sitter.Language(getattr(grammar, function)()))
