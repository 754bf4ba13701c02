"""What a segment keeps small: compressed strings, and columns that a reader makes by sorting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core
from gnomon.corpus import CorpusIndex, Documents
from gnomon.corpus.columns_io import PackedStrings, Strings, strings_of, write_packed_strings
from gnomon.corpus.columns_io import write_strings as write_plain_strings
from gnomon.corpus.segment import Segment
from hypothesis import given
from hypothesis import strategies as st
from test_hostile_index import forge, forge_meta


def container(
    path: Path, write: Callable[..., None], strings: list[bytes], **changes: Any
) -> _core.Container:
    writer = _core.ContainerWriter(path / "first")
    write(writer, "s", strings)
    writer.finish()
    first = _core.Container(path / "first")
    writer = _core.ContainerWriter(path / "second")
    for name, _, _ in first.sections():
        writer.section(name, changes.get(name, lambda values: values)(first.array(name).copy()))
    writer.finish()
    return _core.Container(path / "second")


@given(st.lists(st.binary(max_size=9), max_size=200, unique=True).map(sorted), st.binary())
def test_packed_strings_are_the_strings(
    tmp_path_factory: pytest.TempPathFactory, strings: list[bytes], other: bytes
) -> None:
    place = tmp_path_factory.mktemp("strings")
    found = strings_of(container(place, write_packed_strings, strings), "s")
    assert isinstance(found, PackedStrings)
    assert len(found) == len(strings)
    assert [found[i] for i in reversed(range(len(strings)))] == strings[::-1]
    assert found.all() == strings
    assert [found.find(s) for s in strings] == list(range(len(strings)))
    assert found.find(other) == (strings.index(other) if other in strings else -1)
    with pytest.raises(IndexError):
        found[len(strings)]


def put(place: int, value: int) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values[place] = value
        return values

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"s_packed": lambda values: np.roll(values, 1)},
        {"s_packed": lambda values: values[:-1]},
        {"s_packed": put(20, 0)},
        {"s_block": put(0, 3)},
        {"s_block": put(-1, 9)},
        {"s_block": lambda values: values[:1]},
        {"s_end": put(3, 0)},
        {"s_end": put(-1, 60_000)},  # more than the blocks give
        {"s_end": lambda values: values[:-1]},  # less
        {"s_end": lambda values: values // 2},
    ],
)
def test_forged_strings(tmp_path: Path, changes: dict[str, Any]) -> None:
    strings = [b"path:%05d/%d" % (i, i * i) for i in range(100)]
    with pytest.raises(gnomon.CorruptIndex):
        strings_of(container(tmp_path, write_packed_strings, strings, **changes), "s").all()


def test_a_segment_of_the_version_before(tmp_path: Path) -> None:
    pages = [
        (f"{i}.md", f"# Page {i}\n\nSee [one](https://example.org/{i}), `max_size`.\n".encode())
        for i in range(90)
    ]
    with CorpusIndex.create(tmp_path / "corpus") as index:
        index.update([Documents("docs", pages)])
    (path,) = (tmp_path / "corpus" / "seg").iterdir()

    def shown() -> list[Any]:
        graph = Segment.open(path, "s").graph
        found: list[Any] = [graph.name(node) for node in range(graph.n_nodes)]
        found += [graph.edges_in(node).tolist() for node in range(graph.n_nodes)]
        return found + [graph.mentions(entity).tolist() for entity in range(graph.n_entities)]

    def older(sections: dict[str, Any]) -> None:
        text = PackedStrings(_core.Container(next(path.glob("*graph*.gno"))), "other").all()
        del sections["other_packed"], sections["other_block"]
        sections["other_text"] = np.frombuffer(b"".join(text), np.uint8)

    before = shown()
    assert len(Segment.open(path, "s").graph.others) > 64
    forge(path, "segment", "graph", older)
    forge_meta(path, "segment", "version", 2)
    assert type(Segment.open(path, "s").graph.others) is Strings
    assert shown() == before
    forge_meta(path, "segment", "version", 4)
    with pytest.raises(gnomon.CorruptIndex, match="format version 4"):
        Segment.open(path, "s")


def test_plain_strings_are_read_as_before(tmp_path: Path) -> None:
    found = strings_of(container(tmp_path, write_plain_strings, [b"a", b"", b"b"]), "s")
    assert (type(found), found.all()) == (Strings, [b"a", b"", b"b"])
