"""Index directories whose checksums are right and whose content is not: a forger recomputes them.

Each is CorruptIndex, never a crash, an endless wait, or numbers out of uninitialised memory.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core
from gnomon._manifest import FileFacts, Manifest, Part, decode, encode
from gnomon.cli_search import Opened
from gnomon.storage import Directory

Sections = dict[str, Any]
Change = Callable[[Sections], None]


@pytest.fixture(autouse=True)
def no_endless_wait() -> Iterator[None]:
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def bm25(tmp_path: Path) -> Path:
    path = tmp_path / "bm25"
    gnomon.BM25Index.build(["red apple", "green apple pie", "pie"], ids=[7, 8, 9]).save(path)
    return path


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    path = tmp_path / "dense"
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    gnomon.DenseIndex.build(vectors, ids=["a", "b", "c", "d"], metric="ip").save(path)
    return path


def manifest_of(path: Path) -> Manifest:
    return decode((path / "MANIFEST.json").read_bytes(), "test")


def seal(path: Path, parts: dict[str, Part]) -> None:
    """A new manifest with right checksums over whatever the files hold now."""
    old = manifest_of(path)
    containers = {name: _core.Container(path / name) for name in old.files}
    facts = {name: FileFacts(c.file_bytes, c.table_crc) for name, c in containers.items()}
    (path / "MANIFEST.json").write_bytes(encode(Manifest(old.generation, parts, facts)))


def forge(path: Path, part: str, role: str, change: Change) -> None:
    """Rewrites one file with changed sections; all checksums fit again."""
    parts = dict(manifest_of(path).parts)
    file = path / parts[part].files[role]
    container = _core.Container(file)
    sections = {name: container.array(name).copy() for name, _, _ in container.sections()}
    change(sections)
    file.unlink()
    writer = _core.ContainerWriter(file)
    for name, values in sections.items():
        writer.section(name, values)
    writer.finish()
    seal(path, parts)


def forge_meta(path: Path, part: str, key: str, value: Any) -> None:
    parts = dict(manifest_of(path).parts)
    parts[part] = Part(parts[part].files, {**parts[part].meta, key: value})
    seal(path, parts)


def put(name: str, place: int, value: float) -> Change:
    def change(sections: Sections) -> None:
        sections[name][place] = value

    return change


def flip_a_byte(path: Path, role: str) -> None:
    """Damage without new checksums, in the middle of the file."""
    file = next(path.glob(f"*-{role}-*.gno"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("section", ["vectors", "squares"])
def test_vectors_that_are_not_those_of_the_squares(dense: Path, section: str, value: float) -> None:
    """NaN scores once left holes of uninitialised memory in the answer."""
    forge(dense, "dense", "vectors", put(section, 1, value))
    index = gnomon.DenseIndex.load(dense)
    with pytest.raises(gnomon.CorruptIndex, match="row"):
        index.search(np.ones((2, 3)), k=4)
    with pytest.raises(gnomon.CorruptIndex, match="row"):
        index.verify()


@pytest.mark.parametrize("tokens", [0, 1, 2**64 - 1])
def test_a_token_count_that_is_not_the_sum_of_the_lengths(bm25: Path, tokens: int) -> None:
    def change(sections: Sections) -> None:
        sections["counts"][3] = np.uint64(tokens)

    forge(bm25, "bm25", "postings", change)
    index = gnomon.BM25Index.load(bm25)
    with pytest.raises(gnomon.CorruptIndex, match="stored count"):
        index.search("apple")
    with pytest.raises(gnomon.CorruptIndex, match="stored count"):
        index.verify()


def test_verify_adds_up_each_document(bm25: Path) -> None:
    def change(sections: Sections) -> None:
        sections["0.lengths"][:] = sections["0.lengths"][::-1].copy()

    forge(bm25, "bm25", "postings", change)
    with pytest.raises(gnomon.CorruptIndex, match="document 0"):
        gnomon.BM25Index.load(bm25).verify()


def test_verify_finds_repeated_ids(bm25: Path, dense: Path) -> None:
    forge(bm25, "bm25", "ids", put("ids.int", 0, 8))
    forge(dense, "dense", "ids", put("ids.bytes", 0, ord("b")))
    with pytest.raises(gnomon.CorruptIndex, match="ids: not unique"):
        gnomon.BM25Index.load(bm25).verify()
    with pytest.raises(gnomon.CorruptIndex, match="ids: not unique"):
        gnomon.DenseIndex.load(dense).verify()


@pytest.mark.parametrize("kind", ["position", "str", "other", None, []])
def test_ids_of_another_kind_than_the_manifest_says(bm25: Path, kind: Any) -> None:
    forge_meta(bm25, "bm25", "ids", kind)
    with pytest.raises(gnomon.CorruptIndex):
        gnomon.BM25Index.load(bm25)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("k1", value) for value in (-1.0, 10**400, True, "1.2", None, [])),
        *(("b", value) for value in (-0.1, 1.5, None)),
        *(("formula", {"name": value}) for value in ("nope", "bm25f", None, 1)),
        *(("formula", {"field_weights": value}) for value in ([1.0], None, "ab")),
        *(("formula", value) for value in (None, [], {}, "default")),
        *(("fields", value) for value in (["a", "b"], ["a", "a"], [1], None, "a")),
        *(("store_text", value) for value in (True, 1, None)),
        *(("next_id", value) for value in (-1, 2**62, None, True)),
        *(("next_number", value) for value in (0, -1, None)),
        *(("segments", value) for value in ([], None, [{}], [0], {}, "a")),
        *(("analyzer", value) for value in (0, "standard-v1", [], {}, {"name": []})),
        ("analyzer", {"custom": True}),
    ],
)
def test_settings_that_no_index_was_saved_with(bm25: Path, key: str, value: Any) -> None:
    if key == "formula" and isinstance(value, dict) and value:
        value = {**manifest_of(bm25).parts["bm25"].meta["formula"], **value}
    forge_meta(bm25, "bm25", key, value)
    with pytest.raises(gnomon.CorruptIndex):
        gnomon.BM25Index.load(bm25)


def test_settings_nested_too_deeply_to_copy(bm25: Path) -> None:
    value: list[Any] = []
    for _ in range(600):
        value = [value]
    forge_meta(bm25, "bm25", "more", value)
    with pytest.raises(gnomon.CorruptIndex, match="nested"):
        gnomon.BM25Index.load(bm25)


def test_a_pipe_in_the_place_of_the_manifest(bm25: Path) -> None:
    (bm25 / "MANIFEST.json").unlink()
    os.mkfifo(bm25 / "MANIFEST.json")
    with pytest.raises(gnomon.CorruptIndex, match="not a regular file"):
        Directory.open(bm25)


def test_saving_a_damaged_index_gives_it_no_new_checksums(
    tmp_path: Path, bm25: Path, dense: Path
) -> None:
    flip_a_byte(bm25, "postings")
    with pytest.raises(gnomon.CorruptIndex, match="damaged block"):
        gnomon.BM25Index.load(bm25).save(tmp_path / "copy")
    flip_a_byte(dense, "vectors")
    with pytest.raises(gnomon.CorruptIndex, match="damaged block"):
        gnomon.DenseIndex.load(dense).save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    from gnomon.cli_index import write_index
    from gnomon.documents import Document

    path = tmp_path / "passages"
    documents = iter([Document("a.txt", "red apple", line=1), Document("b.txt", "green pear")])
    write_index(documents, str(path), "standard-v1", lambda: 0)
    return path


def recast(name: str, dtype: str) -> Change:
    def change(sections: Sections) -> None:
        sections[name] = sections[name].astype(dtype)

    return change


@pytest.mark.parametrize(
    "change",
    [
        recast("document", "i8"),
        recast("text_end", "f8"),
        recast("paths", "u4"),
        put("end", 0, 10),
        put("start", 0, 1),
    ],
)
def test_passages_whose_places_contradict_one_another(passages: Path, change: Change) -> None:
    forge(passages, "passages", "places", change)
    with pytest.raises(gnomon.CorruptIndex):
        Opened(str(passages)).search("red", 1)


def test_an_index_of_ids_is_not_one_of_passages(passages: Path) -> None:
    def drop_vocabulary(sections: Sections) -> None:
        del sections["vocabulary.slots"]

    forge(passages, "bm25", "postings", drop_vocabulary)
    with pytest.raises(ValueError, match="made of tokens"):
        Opened(str(passages))
