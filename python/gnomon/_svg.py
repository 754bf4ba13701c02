"""Small charts as SVG inside HTML (which needs no namespace), for pages that load nothing."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 360, 70, 46, 16, 190


class Line(NamedTuple):
    """A named line through points, in data units."""

    name: str
    points: Sequence[tuple[float, float]]
    marks: bool = True


def chart(lines: Sequence[Line], x_label: str, y_label: str, log_y: bool = False) -> str:
    """A line chart with a legend.

    >>> chart([Line("a", [(0, 1), (1, 2)])], "x", "y")[:4]
    '<svg'
    """
    shown = [(x, y) for line in lines for x, y in line.points if not log_y or y > 0]
    if not shown:
        return ""
    xs, ys = [x for x, _ in shown], [math.log10(y) if log_y else y for _, y in shown]
    x0, x1 = _span(xs)
    y0, y1 = _span(ys)
    if log_y:
        y0, y1 = math.floor(y0), math.ceil(y1) + (math.ceil(y1) == math.floor(y0))

    def at(x: float, y: float) -> tuple[float, float]:
        value = math.log10(y) if log_y else y
        px = _LEFT + (x - x0) / (x1 - x0) * (_WIDTH - _LEFT - _RIGHT)
        py = _HEIGHT - _BOTTOM - (value - y0) / (y1 - y0) * (_HEIGHT - _BOTTOM - _TOP)
        return round(px, 1), round(py, 1)

    ticks_y = [10.0**p for p in range(int(y0), int(y1) + 1)] if log_y else _ticks(y0, y1)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="11">'
    ]
    for tick in _ticks(x0, x1):
        px = at(tick, ticks_y[0])[0]
        parts.append(_path(px, _TOP, px, _HEIGHT - _BOTTOM))
        parts.append(_text(px, _HEIGHT - _BOTTOM + 15, f"{tick:g}", "middle"))
    for tick in ticks_y:
        py = at(x0, tick)[1]
        parts.append(_path(_LEFT, py, _WIDTH - _RIGHT, py))
        parts.append(_text(_LEFT - 6, py + 4, f"{tick:g}", "end"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, x_label, "middle"))
    parts.append(_text(8, 11, y_label, "start"))
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [at(x, y) for x, y in line.points if not log_y or y > 0]
        joined = " ".join(f"{x},{y}" for x, y in places)
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        if line.marks:
            parts += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in places]
        top = _TOP + 14 + 16 * number
        left = _WIDTH - _RIGHT + 10
        parts.append(f'<rect x="{left}" y="{top - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(_WIDTH - _RIGHT + 26, top, _shortened(line.name), "start"))
    return "".join([*parts, "</svg>"])


def _shortened(name: str) -> str:
    return name if len(name) <= 26 else "…" + name[-25:]


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
