r"""Regular expressions of schemas: ECMA-262 in its linear part, or refused.

The engine translates ECMA-262 and runs every pattern in linear time, without look-around and
backreferences. It also takes some constructs of its own, to which ECMA-262 gives another meaning or
none; those are refused here, so that a pattern means one thing. `\\b` knows ASCII words only, as in
ECMA-262.
"""

from __future__ import annotations

import re

# One unit of a pattern: a group's opening, an escape with its operand, or a character.
_UNIT = re.compile(
    r"\(\?(?:<[A-Za-z_$][\w$]*>|:)?|\\c[A-Za-z]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
    r"|\\u\{[0-9A-Fa-f]{1,6}\}|\\[pP]\{[A-Za-z0-9_=]+\}|\\.|\{\d+(?:,\d*)?\}|.",
    re.DOTALL,
)
_LETTER_ESCAPES = frozenset("dDwWsSbBtnvfr")
_QUANTIFIERS = frozenset("*+?")
_ASCII_BOUNDARY = {"\\b": r"(?-u:\b)", "\\B": r"(?-u:\B)"}


def engine_pattern(pattern: str) -> str:
    r"""The pattern as the engine must read it; ValueError says what is not ECMA-262.

    >>> engine_pattern(r"^\d{4}\b")
    '^\\d{4}(?-u:\\b)'
    >>> engine_pattern("(?i)yes")
    Traceback (most recent call last):
      ...
    ValueError: has (?, which is no group of ECMA-262 without look-around
    """
    pieces = []
    in_class = after_quantifier = False
    for match in _UNIT.finditer(pattern):
        unit = match[0]
        if unit.startswith("\\"):
            _check_escape(unit, in_class=in_class)
            pieces.append(unit if in_class else _ASCII_BOUNDARY.get(unit, unit))
            after_quantifier = False
            continue
        pieces.append(unit)
        if in_class:
            in_class = unit != "]"
            continue
        if unit == "(?":
            raise ValueError("has (?, which is no group of ECMA-262 without look-around")
        is_quantifier = unit in _QUANTIFIERS or (unit[0] == "{" and len(unit) > 1)
        if is_quantifier and after_quantifier and unit != "?":
            raise ValueError("repeats a repetition, which ECMA-262 does not allow")
        in_class = unit == "["
        # "a+?" is lazy, and "a+??" is nothing.
        after_quantifier = is_quantifier
    return "".join(pieces)


def shown_pattern(pattern: str) -> str:
    """The author's pattern again, for messages."""
    for written, read in _ASCII_BOUNDARY.items():
        pattern = pattern.replace(read, written)
    return pattern


def _check_escape(unit: str, *, in_class: bool) -> None:
    letter = unit[1:2]
    if len(unit) > 2 or letter in _LETTER_ESCAPES or letter == "0":
        return
    if not letter or letter.isalnum() or letter in "<>":
        raise ValueError(f"has the escape {unit}, which is not read here as ECMA-262 reads it")
