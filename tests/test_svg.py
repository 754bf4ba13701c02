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
    st.lists(st.lists(st.tuples(VALUE, VALUE), max_size=6), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_everything_is_inside(
    points: list[list[tuple[float, float]]], log_y: bool, log_x: bool
) -> None:
    lines = [Line(f"line {number}", line) for number, line in enumerate(points)]
    text = chart(lines, "x", "y", log_y, log_x)
    shown = [
        (x, y) for line in points for x, y in line if (y > 0 or not log_y) and (x > 0 or not log_x)
    ]
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
            assert name == "stroke" or -1 <= float(value) <= 761
    order = sorted(range(len(shown)), key=lambda place: shown[place][0])
    assert [places[i][0] for i in order] == sorted(place[0] for place in places)


def test_texts_are_escaped() -> None:
    text = chart([Line('<b>&"', [(0, 1)])], "<x>", "&y")
    assert {'<b>&"', "<x>", "&y"} <= {node.text for node in ET.fromstring(text).iter("text")}
    assert re.search(r"<(b|x)>", text) is None


@pytest.mark.parametrize("name", ["a", "x" * 44, "a" + "x" * 100 + "b"])
def test_long_names_keep_both_ends(name: str) -> None:
    texts = [
        node.text for node in ET.fromstring(chart([Line(name, [(0, 1)])], "x", "y")).iter("text")
    ]
    assert texts[-1] == (name if len(name) <= 44 else "a" + "x" * 20 + "…" + "x" * 21 + "b")


def test_a_long_legend_is_inside_and_no_two_lines_look_alike() -> None:
    """Indexes are swept over dozens of settings."""
    lines = [Line(f"faiss:HNSW efSearch={n}", [(0, n), (1, n + 1)]) for n in range(32)]
    tree = ET.fromstring(chart(lines, "x", "y"))
    height = float(tree.attrib["height"])
    assert tree.attrib["viewBox"] == f"0 0 760 {tree.attrib['height']}"
    assert all(float(node.attrib["y"]) <= height for node in tree.iter("text"))
    drawn = list(tree.iter("polyline"))
    looks = {(node.attrib["stroke"], node.attrib.get("stroke-dasharray")) for node in drawn}
    assert len(looks) == len(drawn) == 32
    legend = [(n.attrib["stroke"], n.attrib.get("stroke-dasharray")) for n in tree.iter("path")]
    assert legend == [(n.attrib["stroke"], n.attrib.get("stroke-dasharray")) for n in drawn]


def test_logarithmic_ticks() -> None:
    """Times of 0.01 to 20 ms do not all stand at the left edge."""
    text = chart([Line("a", [(0.01, 0.0), (0.1, 0.5), (20.0, 1.0)])], "ms", "share", log_x=True)
    tree = ET.fromstring(text)
    (line,) = tree.iter("polyline")
    places = [float(pair.split(",")[0]) for pair in line.attrib["points"].split()]
    # Points of a drawing, which are written with one decimal.
    assert places[1] - places[0] == pytest.approx(380 / 4, abs=0.2)
    assert {"0.01", "0.1", "1", "10", "100"} <= {node.text for node in tree.iter("text")}
