"""Files with right checksums and arbitrary content: CorruptIndex or an answer, never a crash.

Meant for a build with sanitizers, where a read outside an array ends the process. GNOMON_FLIPS sets
how many bytes of each file are damaged one at a time; "all" damages every one.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import shutil
from pathlib import Path
from typing import Any, Literal

import gnomon
import numpy as np
import pytest
from gnomon.bm25_query import Fuzzy, Match, Near, Or, Phrase, Prefix
from hypothesis import given
from hypothesis import strategies as st
from test_hostile_index import forge, manifest_of, seal

FLIPS = os.environ.get("GNOMON_FLIPS", "8")
CONDITIONS: tuple[dict[str, Any], ...] = (
    {"year": {"$gte": 3}},
    {"weight": {"$lt": 1.0}},
    {"scope": {"$in": ["x", "z"]}},
    {"day": {"$gt": "2024-02-03"}},
)
EDGES = (0, 1, 2, 7, 63, 64, 255, 256, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same index with plain and with packed postings."""
    folder = tmp_path_factory.mktemp("fuzz")
    return [original(folder / "plain", "plain"), original(folder / "packed", "packed")]


def original(path: Path, postings: Literal["plain", "packed"]) -> Path:
    """Everything that an index may have, and a term of more than 255 occurrences.

    Two segments with deletions, texts, two fields with positions, columns of each kind.
    """
    n = 26  # so that two deletions are too few to rewrite the segment
    columns = {
        "year": list(range(n)),
        "weight": [i / 4 for i in range(n)],
        "scope": [["x", "y"], "x", None, *["z"] * (n - 3)],
        "day": [datetime.date(2024, 2, 1 + i) for i in range(n)],
    }
    documents = [{"title": f"red {i}", "body": "apple pie " * i} for i in range(n - 1)]
    documents.append({"title": "red", "body": "red " * 300})
    ids = [f"d{i}" for i in range(n)]
    index = gnomon.BM25Index.build(
        documents,
        ids,
        fields=["title", "body"],
        store_text=True,
        positions=True,
        columns=columns,
        postings=postings,
    )
    index.save(path)
    with gnomon.BM25Index.open(path, mode="w") as writer:
        more = [{"year": 2, "scope": "x"}, {"weight": 0.5, "day": datetime.date(2025, 1, 1)}]
        writer.add([{"title": "green pear"}, {"body": "red apple"}], ["x", "y"], columns=more)
        writer.delete(["d3", "d4"])
    assert writer.n_segments == 2
    return path


def use(path: Path) -> None:
    """Everything that reads a file."""
    index = gnomon.BM25Index.load(path)
    for query in ("red", "apple pie red", "pear zzz"):
        index.search(query, 5)
        index.scores(query)
    for condition in CONDITIONS:
        index.search(Phrase("apple pie", slop=2), 5, filter=condition)
    index.count(Or(Prefix("p"), Fuzzy("aple", 1), Near(["apple", "red"], 4)))
    index.term_stats("red")
    for id in [*index.ids[:2], *index.ids[-1:]]:
        index.text(id)
        index.match_positions(Match("red apple"), id)
    index.verify()


@given(data=st.data())
def test_forged_sections(
    originals: list[Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("forged") / "index"
    shutil.copytree(data.draw(st.sampled_from(originals)), path)
    roles = sorted(manifest_of(path).parts["bm25"].files)
    role = data.draw(st.sampled_from(roles))

    def change(sections: dict[str, Any]) -> None:
        name = data.draw(st.sampled_from(sorted(sections)))
        values = sections[name]
        how = data.draw(
            st.sampled_from(("value", "value", "value", "cut", "longer", "type", "drop"))
        )
        if how == "value" and values.size:
            for _ in range(data.draw(st.integers(1, 3))):
                place = data.draw(st.integers(0, values.size - 1))
                value = data.draw(st.sampled_from(EDGES) | st.integers(0, 300))
                values[place] = np.array(value % 2**64, np.uint64).astype(values.dtype)
        elif how == "cut":
            sections[name] = values[: data.draw(st.integers(0, values.size))].copy()
        elif how == "longer":
            sections[name] = np.concatenate([values, values[:3]])
        elif how == "type":
            sections[name] = values.astype(data.draw(st.sampled_from(("u1", "u4", "u8", "i8"))))
        else:
            del sections[name]

    forge(path, "bm25", role, change)
    try:
        use(path)
    except gnomon.CorruptIndex:
        pass
    finally:
        shutil.rmtree(path)


@given(st.data())
def test_files_of_other_segments(
    originals: list[Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whole and well-formed files in each other's places."""
    path = tmp_path_factory.mktemp("swapped") / "index"
    shutil.copytree(data.draw(st.sampled_from(originals)), path)
    parts = dict(manifest_of(path).parts)
    files = dict(parts["bm25"].files)
    one, two = data.draw(st.permutations(sorted(files)))[:2]
    (path / "swap").write_bytes((path / files[one]).read_bytes())
    (path / files[one]).write_bytes((path / files[two]).read_bytes())
    (path / files[two]).write_bytes((path / "swap").read_bytes())
    (path / "swap").unlink()
    seal(path, parts)
    try:
        use(path)
    except gnomon.CorruptIndex:
        pass
    finally:
        shutil.rmtree(path)


def test_damaged_bytes_without_new_checksums(originals: list[Path], tmp_path: Path) -> None:
    rng = random.Random(1)
    shutil.copytree(originals[0], tmp_path / "index")
    files = sorted((tmp_path / "index").glob("*.gno"))
    for _ in range(150):
        file = rng.choice(files)
        whole = file.read_bytes()
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged if rng.random() < 0.8 else damaged[: rng.randrange(len(damaged))])
        with pytest.raises(gnomon.CorruptIndex):
            _verify(tmp_path / "index")
        file.write_bytes(whole)
    _verify(tmp_path / "index")


def test_one_damaged_byte_is_found(originals: list[Path], tmp_path: Path) -> None:
    """By verify() always; by what is read before that as CorruptIndex, if at all."""
    rng = random.Random(2)
    shutil.copytree(originals[1], tmp_path / "index")
    for file in sorted((tmp_path / "index").iterdir()):
        whole = file.read_bytes()
        every = range(len(whole))
        places = every if FLIPS == "all" else sorted(rng.choices(every, k=int(FLIPS)))
        for place in places:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            with contextlib.suppress(gnomon.CorruptIndex):
                use(tmp_path / "index")
            with pytest.raises(gnomon.CorruptIndex):
                _verify(tmp_path / "index")
        file.write_bytes(whole)
    _verify(tmp_path / "index")


def _verify(path: Path) -> None:
    gnomon.storage.Directory.open(path).verify()
    use(path)


def test_a_segment_that_is_no_container(originals: list[Path], tmp_path: Path) -> None:
    shutil.copytree(originals[0], tmp_path / "index")
    file = next((tmp_path / "index").glob("bm25-dead-*.gno"))
    file.write_bytes(b"GNOMON")
    with pytest.raises(gnomon.CorruptIndex):
        gnomon.BM25Index.load(tmp_path / "index")
