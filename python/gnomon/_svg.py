"""Small charts as SVG inside HTML (which needs no namespace), for pages that load nothing."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
# Beyond as many lines the colours come again, dashed another way.
DASHES = ("", "7 3", "2 3", "9 3 2 3")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 760, 360, 70, 46, 16, 310
_LETTERS, _ENTRY = 44, 16  # of a legend's names; height of one


class Line(NamedTuple):
    """A named line through points, in data units."""

    name: str
    points: Sequence[tuple[float, float]]
    marks: bool = True


class _Axis(NamedTuple):
    """From data to pixels, and where the ticks are."""

    log: bool
    low: float
    high: float
    start: float  # pixel of `low`
    end: float

    @classmethod
    def over(cls, values: Sequence[float], log: bool, start: float, end: float) -> _Axis:
        """The axis that shows these values; whole powers of ten if it is logarithmic."""
        if not log:
            return cls(log, *_span(values), start, end)
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(log, low, high + (low == high), start, end)

    def at(self, value: float) -> float:
        """The pixel of a value."""
        place = math.log10(value) if self.log else value
        share = (place - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Values to be marked."""
        if self.log:
            return [10.0**power for power in range(int(self.low), int(self.high) + 1)]
        return _ticks(self.low, self.high)


def chart(
    lines: Sequence[Line], x_label: str, y_label: str, log_y: bool = False, log_x: bool = False
) -> str:
    """A line chart with a legend; a logarithmic axis leaves out what is not above 0.

    >>> chart([Line("a", [(0, 1), (1, 2)])], "x", "y")[:4]
    '<svg'
    """
    kept = [
        [(x, y) for x, y in line.points if not (log_y and y <= 0) and not (log_x and x <= 0)]
        for line in lines
    ]
    shown = [point for points in kept for point in points]
    if not shown:
        return ""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    across = _Axis.over([x for x, _ in shown], log_x, _LEFT, right)
    up = _Axis.over([y for _, y in shown], log_y, bottom, _TOP)
    height = max(_HEIGHT, _TOP + 14 + _ENTRY * len(lines))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="11">'
    ]
    for tick in across.ticks():
        px = across.at(tick)
        parts.append(_path(px, _TOP, px, bottom))
        parts.append(_text(px, bottom + 15, f"{tick:g}", "middle"))
    for tick in up.ticks():
        py = up.at(tick)
        parts.append(_path(_LEFT, py, right, py))
        parts.append(_text(_LEFT - 6, py + 4, f"{tick:g}", "end"))
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 8, x_label, "middle"))
    parts.append(_text(_LEFT, 11, y_label, "start"))
    for number, (line, points) in enumerate(zip(lines, kept, strict=True)):
        pen = _pen(number)
        places = [(across.at(x), up.at(y)) for x, y in points]
        joined = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline points="{joined}" {pen}/>')
        if line.marks:
            colour = COLOURS[number % len(COLOURS)]
            parts += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in places]
        top, left = _TOP + 14 + _ENTRY * number, right + 10
        parts.append(f'<path d="M{left} {top - 4}h26" {pen}/>')
        parts.append(_text(left + 32, top, _shortened(line.name), "start"))
    return "".join([*parts, "</svg>"])


def _pen(number: int) -> str:
    """Colour and dashes of a line."""
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"{dashed}'


def _shortened(name: str) -> str:
    """Both ends of a long name: which index it is, and which setting or file."""
    half = (_LETTERS - 1) // 2
    return name if len(name) <= _LETTERS else f"{name[:half]}…{name[-(_LETTERS - 1 - half) :]}"


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    gap = (high - low) * 0.03 or 0.05 * max(1.0, abs(low)) or 1.0
    return low - gap, high + gap


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    while (high - low) / step > 8:
        step *= 2 if (high - low) / step <= 16 else 5
    first = math.ceil(low / step)
    return [round(i * step, 12) for i in range(first, math.floor(high / step) + 1)]


def _path(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'
