r"""Patterns as programs that the compiled core runs over raw text, many documents in one call.

A program has steps, for the matcher, and a window: up to eight classes of bytes that stand side by
side in every match. The core screens the text for the window with vector instructions and matches
in the lines that hold it. Which window, is a matter of speed alone: the rarest by the frequencies
below, which are about those of technical prose. A pattern in which nothing rare stands side by side
has no program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import log2
from typing import NamedTuple

from .. import _core
from .line_syntax import (
    ASCII,
    BEYOND,
    FEED,
    Alternatives,
    Characters,
    Edge,
    Node,
    Repeated,
    Sequence,
    syntax,
)

_STEPS_MOST = 500
_WIDEST = 8
_USEFUL = 1 / 16  # of all places may hold the window
_OP = {"set": 0, "jump": 1, "split": 2, "begin": 3, "end": 4, "word": 5, "not_word": 6, "match": 7}
_BANDS = {
    0.12: " ",
    0.045: "etaoinsr",
    0.022: "lcdumpghf\n",
    0.009: "ybwvkx.-_`*,/:()[]|#\"'=",
    0.004: "0123456789jqzABCDEFGHILMNOPRSTUWS<>{}\\;&+@!?$%",
}


def _frequencies() -> list[float]:
    found = [0.0005] * 128 + [0.0001] * 128
    for share, signs in _BANDS.items():
        for sign in signs:
            found[ord(sign)] = share
    return found


_SHARE = _frequencies()
Run = tuple[int, ...]  # classes side by side


@lru_cache(maxsize=256)
def line_program(pattern: str, literal: bool, ignore_case: bool) -> _core.LineProgram | None:
    """The program of a pattern; None for one that RE2, or a plain search, is to look for."""
    node = _literal(pattern) if literal and not ignore_case else None
    if not literal:
        node = syntax(pattern, ignore_case)
    elif ignore_case and pattern.isascii():
        node = syntax("".join(f"\\x{ord(sign):02x}" for sign in pattern), True)
    code = _Code()
    if node is None or not code.emit(node):  # before the window: its search takes long patterns
        return None
    window = _window(node)
    if window is None:
        return None
    code.steps.append((_OP["match"], 0, 0))
    run, order = window.run, range(len(window.run))
    return _core.LineProgram(
        code.steps,
        _packed(code.sets),
        code.wide,
        _packed(run),
        sorted(order, key=lambda k: _share(run[k])),
        int(run[0] == FEED),
        window.offset,
        FEED in run,
        _packed(_runs(node).begin),
    )


def _packed(sets: Iterable[int]) -> list[bytes]:
    return [bits.to_bytes(32, "little") for bits in sets]


def _literal(text: str) -> Node | None:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        return None
    if not data or b"\n" in data:
        return None
    return Sequence(tuple(Characters(1 << byte) for byte in data))


class _Code:
    """Steps of a tree; `emit` is False when there are too many."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.sets: list[int] = []
        self.wide = False
        self._numbers: dict[int, int] = {}

    def emit(self, node: Node) -> bool:
        if isinstance(node, Characters):
            self.wide |= node.wide
            number = self._numbers.setdefault(node.bits, len(self.sets))
            if number == len(self.sets):
                self.sets.append(node.bits)
            self.steps.append((_OP["set"], number, 0))
        elif isinstance(node, Edge):
            self.steps.append((_OP[node.kind], 0, 0))
        elif isinstance(node, Sequence):
            return all(map(self.emit, node.parts))
        elif isinstance(node, Alternatives):
            return self._alternatives(node)
        else:
            return self._repeated(node)
        return len(self.steps) <= _STEPS_MOST

    def _alternatives(self, node: Alternatives) -> bool:
        ends = []
        for part in node.parts[:-1]:
            split = self._hole()
            if not self.emit(part):
                return False
            ends.append(self._hole())
            self.steps[split] = (_OP["split"], split + 1, len(self.steps))
        good = self.emit(node.parts[-1])
        for end in ends:
            self.steps[end] = (_OP["jump"], len(self.steps), 0)
        return good

    def _repeated(self, node: Repeated) -> bool:
        last = 0
        for _ in range(node.least):
            last = len(self.steps)
            if not self.emit(node.part):
                return False
        if node.most is None and node.least:
            self._split(self._hole(), last, len(self.steps), node.greedy)
            return True
        if node.most is None:
            split = self._hole()
            good = self.emit(node.part)
            self.steps.append((_OP["jump"], split, 0))
            self._split(split, split + 1, len(self.steps), node.greedy)
            return good
        holes = []
        for _ in range(node.most - node.least):
            holes.append(self._hole())
            if not self.emit(node.part):
                return False
        for hole in holes:
            self._split(hole, hole + 1, len(self.steps), node.greedy)
        return True

    def _hole(self) -> int:
        self.steps.append((_OP["jump"], 0, 0))
        return len(self.steps) - 1

    def _split(self, at: int, more: int, done: int, greedy: bool) -> None:
        self.steps[at] = (_OP["split"], more, done) if greedy else (_OP["split"], done, more)


class _Runs(NamedTuple):
    """What stands side by side in a match: at its begin, at its end, anywhere; `whole` is all of
    it, where every match is of this width.
    """

    whole: Run | None
    begin: Run
    end: Run
    inside: tuple[Run, ...] = ()


def _runs(node: Node) -> _Runs:
    if isinstance(node, Characters):
        if node.wide:  # of several bytes, perhaps: the first and the last are in the class
            side = (node.bits & ASCII | BEYOND,)
            return _Runs(None, side, side)
        return _Runs((node.bits,), (node.bits,), (node.bits,))
    if isinstance(node, Edge):
        return _Runs((), (), ())
    if isinstance(node, Sequence):
        return _joined(list(map(_runs, node.parts)))
    if isinstance(node, Repeated):
        if node.least == 0:
            return _Runs(None, (), ())
        part = _runs(node.part)
        once = _joined([part] * min(node.least, 2 * _WIDEST))
        if node.least == node.most and node.least <= 2 * _WIDEST:
            return once
        return _Runs(None, once.begin, once.end, once.inside)
    return _either(list(map(_runs, node.parts)))


def _joined(parts: list[_Runs]) -> _Runs:
    found = _Runs((), (), ())
    for part in parts:
        if found.whole is not None and part.whole is not None:
            whole = found.whole + part.whole
            found = _Runs(whole, whole, whole)
            continue
        begin = found.begin if found.whole is None else found.whole + part.begin
        end = part.end if part.whole is None else found.end + part.whole
        between = (found.end + part.begin,)
        found = _Runs(None, begin, end, found.inside + part.inside + between)
    return found


def _either(parts: list[_Runs]) -> _Runs:
    first = parts[0]
    for part in parts[1:]:
        begin = tuple(a | b for a, b in zip(first.begin, part.begin, strict=False))
        backwards = zip(reversed(first.end), reversed(part.end), strict=False)
        end = tuple(reversed([a | b for a, b in backwards]))
        whole = None
        if first.whole is not None and part.whole is not None:
            whole = begin if len(first.whole) == len(part.whole) else None
        first = _Runs(whole, begin, end)
    return first


class _Window(NamedTuple):
    """Classes side by side, and how far from the begin of a match the first of them lies that is
    not a line feed before it; None where that is not the same in all.
    """

    run: Run
    offset: int | None


def _windows(node: Node) -> Iterator[_Window]:
    parts = list(node.parts) if isinstance(node, Sequence) else [node]
    lead, tail = parts[:1] == [Edge("begin")], parts[-1:] == [Edge("end")]
    found = _runs(node)
    begin = (FEED,) * lead + found.begin
    if tail and found.whole is not None:
        begin += (FEED,)
    elif tail:
        yield from _parts((*found.end, FEED), None)
    yield from _parts(begin, -int(lead))
    for run in (found.end, *found.inside):
        yield from _parts(run, None)


def _parts(run: Run, offset: int | None) -> Iterator[_Window]:
    for start in range(len(run)):
        for stop in range(start + 1, min(start + _WIDEST, len(run)) + 1):
            if run[start:stop] != (FEED,):
                here = None if offset is None else max(offset + start, 0)
                yield _Window(run[start:stop], here)


def _window(node: Node) -> _Window | None:
    """The rarest window of a pattern; None when none is rare."""
    best, weight = None, log2(_USEFUL)
    for window in _windows(node):
        here = sum(log2(max(_share(bits), 1e-9)) for bits in window.run)
        if here < weight:
            best, weight = window, here
    return best


@lru_cache(maxsize=1024)
def _share(bits: int) -> float:
    return sum(share for byte, share in enumerate(_SHARE) if bits >> byte & 1)
