"""Column files whose checksums are right and whose content is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core
from gnomon.columns import ColumnBlock

VALUES: dict[str, list[Any]] = {
    "one": ["b", None, "a"],
    "many": [["a", "b", "c"], [], ["b"]],
    "count": [1, None, 2],
    "score": [0.5, 1.5, 2.5],
}


def forged(folder: Path, name: str, change: Any) -> _core.Container:
    writer = _core.ContainerWriter(folder / "right")
    ColumnBlock.of(VALUES, 3).write(writer)
    writer.finish()
    container = _core.Container(folder / "right")
    assert name in container
    writer = _core.ContainerWriter(folder / "forged")
    for section, _, _ in container.sections():
        values = container.array(section).copy()
        if section == name:
            values = change(values)
        if values is not None:
            writer.section(section, values)
    writer.finish()
    return _core.Container(folder / "forged")


def put(place: int, value: float) -> Any:
    def change(values: Any) -> Any:
        values[place] = value
        return values

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kinds", put(0, 9)),
        ("kinds", put(2, 0)),
        ("kinds", put(0, 1)),
        ("kinds", lambda values: values.astype(np.int64)),
        ("kinds", lambda values: None),
        ("names.bytes", put(0, 255)),
        ("names.sizes", put(1, 99)),
        ("names.sizes", lambda values: values.astype(np.uint64)),
        ("c0.present", put(0, 0b111)),
        ("c0.present", put(0, 0b1101)),
        ("c0.present", lambda values: None),
        ("c0.codes", put(0, 3)),
        ("c0.codes", put(0, 0)),
        ("c0.codes", lambda values: values[:2]),
        ("c0.codes", lambda values: values.astype(np.float64)),
        ("c0.terms.bytes", put(0, ord("c"))),
        ("c0.terms.sizes", lambda values: values[:0]),
        ("c1.counts", put(0, 2)),
        ("c1.counts", put(1, 9)),
        ("c1.counts", put(2, 0)),
        ("c1.counts", lambda values: values[:2]),
        ("c1.counts", lambda values: values.astype(np.int64)),
        ("c1.codes", put(0, 1)),
        ("c1.codes", put(3, 3)),
        ("c1.terms.bytes", put(1, ord("a"))),
        ("c2.values", lambda values: values[:2]),
        ("c2.values", lambda values: values.astype(np.float64)),
        ("c2.present", lambda values: np.append(values, values)),
        ("c3.values", put(1, np.nan)),
    ],
)
def test_forged_columns(tmp_path: Path, name: str, change: Any) -> None:
    container = forged(tmp_path, name, change)
    with pytest.raises(gnomon.CorruptIndex):
        ColumnBlock.read(container, 3)


@pytest.mark.parametrize("n", [0, 2, 4, 100])
def test_columns_of_another_number_of_documents(tmp_path: Path, n: int) -> None:
    container = forged(tmp_path, "kinds", lambda values: values)
    assert ColumnBlock.read(container, 3).row(0)["many"] == ["a", "b", "c"]
    with pytest.raises(gnomon.CorruptIndex):
        ColumnBlock.read(container, n)


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    writer = _core.ContainerWriter(tmp_path / "twice")
    writer.section("names.starts", np.array([0, 1, 2], dtype=np.uint64))
    writer.section("names.bytes", np.frombuffer(b"aa", dtype=np.uint8))
    writer.section("kinds", np.array([1, 1], dtype=np.uint8))
    for i in range(2):
        writer.section(f"c{i}.values", np.zeros(1, dtype=np.int64))
    writer.finish()
    with pytest.raises(gnomon.CorruptIndex, match="twice"):
        ColumnBlock.read(_core.Container(tmp_path / "twice"), 1)


def test_columns_of_one_dictionary_share_it(tmp_path: Path) -> None:
    words = [f"word {i}" for i in range(70)]
    many = [[word, words[0]] for word in words]
    block = ColumnBlock.of({"n": range(70), "one": words, "two": words[::-1], "more": many}, 70)
    writer = _core.ContainerWriter(tmp_path / "shared")
    block.write(writer)
    writer.finish()
    container = _core.Container(tmp_path / "shared")
    assert [f"c{i}.terms.bytes" in container for i in range(4)] == [False, True, False, False]
    read = ColumnBlock.read(container, 70)
    assert [read.row(i) for i in range(70)] == [block.row(i) for i in range(70)]
    for value in (2, 3, 200, 0):  # itself, a later one, none, a column of numbers
        writer = _core.ContainerWriter(tmp_path / f"forged {value}")
        for section, _, _ in container.sections():
            same = section == "c2.same"
            writer.section(
                section, np.array([value], np.uint8) if same else container.array(section)
            )
        writer.finish()
        with pytest.raises(gnomon.CorruptIndex):
            ColumnBlock.read(_core.Container(tmp_path / f"forged {value}"), 70)


def test_a_file_of_before_has_places_for_counts(tmp_path: Path) -> None:
    new = forged(tmp_path, "kinds", lambda values: values)
    writer = _core.ContainerWriter(tmp_path / "older")
    for section, _, _ in new.sections():
        values, stem = new.array(section), section.rpartition(".")[0]
        if section.endswith((".sizes", ".counts")):
            section, values = f"{stem}.starts", np.cumsum([0, *values], dtype=np.uint64)
        writer.section(section, values)
    writer.finish()
    older = ColumnBlock.read(_core.Container(tmp_path / "older"), 3)
    assert [older.row(i) for i in range(3)] == [ColumnBlock.read(new, 3).row(i) for i in range(3)]
