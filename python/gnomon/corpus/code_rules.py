"""What tree-sitter's trees call definitions, calls and supertypes, language by language.

Each rule is a query whose captures are gathered by name: `class` and `function` open sections, the
others are read by `gnomon.corpus.parse_code`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .grammars import parser_for

_SCRIPT = """
(class_declaration) @class
(function_declaration) @function
(generator_function_declaration) @function
(method_definition) @function
(call_expression function: (identifier) @call)
(call_expression function: (member_expression property: (property_identifier) @call))
(new_expression constructor: (identifier) @call)
(import_statement source: (string (string_fragment) @import))
(throw_statement (new_expression constructor: (identifier) @throw))
"""
_TYPED = """
(interface_declaration) @class
(abstract_class_declaration) @class
"""

RULES = {
    "python": """
(class_definition) @class
(function_definition) @function
(call function: (identifier) @call)
(call function: (attribute attribute: (identifier) @call))
(import_statement name: (dotted_name) @import)
(import_statement name: (aliased_import name: (dotted_name) @import))
(import_from_statement module_name: (dotted_name) @import)
(raise_statement (call function: (identifier) @throw))
(raise_statement (call function: (attribute attribute: (identifier) @throw)))
(raise_statement (identifier) @throw)
""",
    "java": """
(class_declaration) @class
(interface_declaration) @class
(enum_declaration) @class
(record_declaration) @class
(annotation_type_declaration) @class
(method_declaration) @function
(constructor_declaration) @function
(compact_constructor_declaration) @function
(method_invocation name: (identifier) @call)
(object_creation_expression type: (_) @call)
(package_declaration (_) @package)
(import_declaration (scoped_identifier) @import)
(throws (_) @throw)
(throw_statement (object_creation_expression type: (_) @throw))
""",
    "javascript": _SCRIPT,
    "typescript": _SCRIPT + _TYPED,
    "tsx": _SCRIPT + _TYPED,
    "go": """
(type_spec) @class
(function_declaration) @function
(method_declaration) @function
(call_expression function: (identifier) @call)
(call_expression function: (selector_expression field: (field_identifier) @call))
(package_clause (package_identifier) @package)
(import_spec path: (interpreted_string_literal (interpreted_string_literal_content) @import))
""",
    "c": """
(struct_specifier name: (_) body: (_)) @class
(function_definition) @function
(call_expression function: (identifier) @call)
(preproc_include path: (_) @import)
""",
}

# Types of nodes that hold supertypes -> the relation they stand for.
SUPERTYPES = {
    "superclass": "inherits",
    "super_interfaces": "implements",
    "extends_interfaces": "inherits",
    "extends_clause": "inherits",
    "implements_clause": "implements",
    "extends_type_clause": "inherits",
    "class_heritage": "inherits",
}
# Types of nodes that name one type; of a qualified or generic one the last simple name counts.
TYPE_NAMES = frozenset(
    {"type_identifier", "identifier", "attribute", "scoped_type_identifier", "generic_type"}
    | {"member_expression", "nested_type_identifier", "annotated_type"}
)
PARAMETERS = frozenset(
    {"formal_parameter", "spread_parameter", "identifier", "typed_parameter", "default_parameter"}
    | {"typed_default_parameter", "list_splat_pattern", "dictionary_splat_pattern"}
    | {"required_parameter", "optional_parameter", "assignment_pattern", "rest_pattern"}
    | {"parameter_declaration", "variadic_parameter_declaration"}
)
COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
WRAPPERS = frozenset({"decorated_definition", "export_statement", "type_declaration"})


@cache
def query_for(language: str) -> Any:
    """The compiled query of a language."""
    import tree_sitter

    return tree_sitter.Query(parser_for(language).language, RULES[language])
