"""JSON values without surprises: strict reading, plain copies, and one canonical text (RFC 8785).

Two values share a digest exactly if they are the same JSON value. That needs a closed domain:

* integers in [-(2^53 - 1), 2^53 - 1] (I-JSON, RFC 7493): beyond it RFC 8785 would print a rounded
  number, and two different arguments would share one operation;
* finite floats; NaN and the infinities are no JSON;
* strings that UTF-8 can carry: no lone surrogates;
* object keys that are strings and, in a text, occur once;
* bounds on depth, number of values and bytes, checked before anything recursive sees the value.

Subclasses of dict, list, str, int and float are copied to the plain type, by their real content:
a dict whose items() lies cannot smuggle a key past validation.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .jsoncopy import (
    DEFAULT_BOUNDS,
    EXACT_BOUNDS,
    INTEGER_MAX,
    Bounds,
    Canonical,
    plain_copy,
)
from .jsontext import loads_canonical, loads_strict

__all__ = [
    "DEFAULT_BOUNDS",
    "EXACT_BOUNDS",
    "INTEGER_MAX",
    "Bounds",
    "Canonical",
    "canonicalize",
    "digest",
    "loads_canonical",
    "loads_strict",
]


def canonicalize(value: Any, bounds: Bounds = DEFAULT_BOUNDS) -> Canonical:
    """A plain deep copy of `value` and its canonical JSON text (RFC 8785), in one pass each.

    Raises ValidationError, which names the path and the rule, for anything that is not a JSON value
    within `bounds`. A tuple is taken as an array, as json.dumps does.

    >>> canonicalize({"b": 5.0, "a": [True, None, "ä"]}).data.decode()
    '{"a":[true,null,"ä"],"b":5}'
    >>> canonicalize({"id": 2**53})
    Traceback (most recent call last):
      ...
    gnomon.agent.problems.ValidationError: /id: is an integer beyond 2^53 - 1; send it as a string
    """
    return plain_copy(value, bounds).canonical()


def digest(data: bytes) -> str:
    """SHA-256 of `data`, as "sha256:" and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
