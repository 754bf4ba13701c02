"""The small charts of reports: every mark lies inside the picture, every text is escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from gnomon._svg import Line, chart
from hypothesis import given
from hypothesis import strategies as st

VALUE = st.floats(0, 1e9, allow_subnormal=False)


@given(
    st.lists(st.lists(st.tuples(VALUE, VALUE), max_size=6), min_size=1, max_size=4), st.booleans()
)
def test_everything_is_inside(points: list[list[tuple[float, float]]], log_y: bool) -> None:
    lines = [Line(f"line {number}", line) for number, line in enumerate(points)]
    text = chart(lines, "x", "y", log_y)
    shown = [(x, y) for line in points for x, y in line if y > 0 or not log_y]
    if not shown:
        assert text == ""
        return
    tree = ET.fromstring(text)
    places = [
        tuple(map(float, pair.split(",")))
        for node in tree.iter("polyline")
        for pair in node.attrib["points"].split()
    ]
    assert len(places) == len(shown)
    assert len(list(tree.iter("circle"))) == len(shown)
    for x, y in places:
        assert 70 <= x <= 450
        assert 16 <= y <= 314
    for node in tree.iter("line"):
        for name, value in node.attrib.items():
            assert name == "stroke" or -1 <= float(value) <= 641
    order = sorted(range(len(shown)), key=lambda place: shown[place][0])
    assert [places[i][0] for i in order] == sorted(place[0] for place in places)


def test_texts_are_escaped() -> None:
    text = chart([Line('<b>&"', [(0, 1)])], "<x>", "&y")
    assert {'<b>&"', "<x>", "&y"} <= {node.text for node in ET.fromstring(text).iter("text")}
    assert re.search(r"<(b|x)>", text) is None


@pytest.mark.parametrize("name", ["a", "x" * 100])
def test_long_names_are_shortened_in_front(name: str) -> None:
    texts = [
        node.text for node in ET.fromstring(chart([Line(name, [(0, 1)])], "x", "y")).iter("text")
    ]
    assert texts[-1] == (name if len(name) <= 26 else "…" + name[-25:])
