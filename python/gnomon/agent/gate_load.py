"""Traces out of files: bounded, strict about what JSON text may say, never a traceback.

A text that is no JSON, not UTF-8, too large or too deep is unreadable. A text that Python's json
reads although two readers may understand it differently (a key twice, NaN, 1e999) is judged as
Python reads it, with a finding of rule G105 on top.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from .gate_core import TraceFinding
from .jsontext import loads_strict
from .jsonvalue import Bounds
from .problems import ValidationError

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 200
_SAID_TWICE = frozenset({"duplicate-key", "not-finite"})
_HARMLESS = frozenset({"integer-range", "surrogate"})


@dataclass(frozen=True)
class Loaded:
    """One text of a file: its value, or the reason why it is ``unreadable``.

    ``line`` is the line of a JSON Lines file, 0 for a file that is one text.
    """

    line: int = 0
    value: Any = None
    findings: tuple[TraceFinding, ...] = ()
    unreadable: str = ""


def read_text(data: bytes, max_bytes: int = MAX_BYTES, line: int = 0) -> Loaded:
    """Read one JSON text."""
    bounds = Bounds(max_bytes=max_bytes, max_depth=MAX_DEPTH, max_items=max_bytes, max_integer=None)
    try:
        return Loaded(line, loads_strict(data, bounds))
    except ValidationError as error:
        problem = error.problems[0]
    if problem.rule not in _SAID_TWICE | _HARMLESS:
        return Loaded(line, unreadable=problem.message)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # an integer of more digits than Python reads
        return Loaded(line, unreadable=problem.message)
    if problem.rule in _HARMLESS:
        return Loaded(line, value)
    return Loaded(line, value, (TraceFinding("G105", problem.path, f"trace {problem.message}"),))


def read_stream(stream: BinaryIO, lines: bool, max_bytes: int = MAX_BYTES) -> Iterator[Loaded]:
    """The texts of an open file: one, or with ``lines`` one per line that is not blank."""
    if not lines:
        data = stream.read(max_bytes + 1)
        yield read_text(data, max_bytes)
        return
    number = 0
    while line := stream.readline(max_bytes + 2):
        number += 1
        if len(line.rstrip(b"\r\n")) > max_bytes:
            yield Loaded(number, unreadable=f"is larger than {max_bytes} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(max_bytes)
        elif line.strip():
            yield read_text(line, max_bytes, number)


def is_lines(name: str) -> bool:
    """Whether a file is JSON Lines, by its name."""
    return name.lower().endswith((".jsonl", ".ndjson"))
