"""DenseIndex.build_to: an index written block by block answers as one that was built in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest

N, DIM = 3000, 48
BLOCK = 100_000  # bytes: 192 rows


def vectors() -> Any:
    rows = np.random.default_rng(5).standard_normal((N, DIM)).astype(np.float32)
    rows[2900] = rows[7]  # a tie over segments
    return rows


def same(index: gnomon.DenseIndex, other: gnomon.DenseIndex, queries: Any, **how: Any) -> None:
    ours, theirs = index.search(queries, 12, **how), other.search(queries, 12, **how)
    assert np.asarray(ours.ids).tolist() == np.asarray(theirs.ids).tolist()
    assert ours.scores.tobytes() == theirs.scores.tobytes()


def in_blocks(rows: Any, sizes: list[int]) -> Iterator[Any]:
    first = 0
    while first < len(rows):
        for size in sizes:
            yield rows[first : first + size]
            first += size


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_every_source_gives_the_same_index(tmp_path: Path, metric: str) -> None:
    rows = vectors()
    np.save(tmp_path / "rows.npy", rows)
    sources: list[Any] = [
        tmp_path / "rows.npy",
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        in_blocks(rows, [1, 0, 500, 77]),
        [rows],
    ]
    memory = gnomon.DenseIndex.build(rows, metric=metric)
    for number, source in enumerate(sources):
        done: list[int] = []
        index = gnomon.DenseIndex.build_to(
            tmp_path / f"index{number}",
            source,
            metric=metric,
            memory_budget=BLOCK,
            progress=done.append,
        )
        assert index.segments == len(done) > 10
        assert len(index) == done[-1] == N
        index.verify()
        same(index, memory, rows[:9])


def test_ids_columns_and_edits_afterwards(tmp_path: Path) -> None:
    rows = vectors()
    names = [f"n{i}" for i in range(N)]
    columns = {"even": [i % 2 for i in range(N)]}
    memory = gnomon.DenseIndex.build(rows, ids=names, columns=columns)
    index = gnomon.DenseIndex.build_to(
        tmp_path / "index", rows, iter(names), columns=columns, memory_budget=BLOCK
    )
    same(index, memory, rows[7], filter=gnomon.field("even") == 1)
    for each in (index, memory):
        each.remove(["n7", "n2000"])
        each.add(rows[:1] * 2, ids=["twice"], columns={"even": [5]})
    index.save(tmp_path / "index")
    index = gnomon.DenseIndex.load(tmp_path / "index")
    same(index, memory, rows[:3])
    same(index, memory, rows[7], filter=gnomon.field("even") != 0)


def test_no_rows(tmp_path: Path) -> None:
    for number, source in enumerate((np.zeros((0, 3)), [np.zeros((0, 3))])):
        index = gnomon.DenseIndex.build_to(tmp_path / f"index{number}", source, ids=[])
        assert (len(index), index.dim) == (0, 3)
        index.add(np.eye(3), ids=[4, 5, 6])
        assert index.search([0.0, 1, 0], 1).ids.tolist() == [5]


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ([], {}, "empty iterable"),
        ([np.eye(2), np.eye(3)], {}, r"vectors\[1\] must be a block \[n, 2\]"),
        ([np.ones(2)], {}, r"vectors\[0\] must be a block \[n, D\]"),
        (np.ones((4, 2)), {"ids": [1, 2, 3]}, "3 entries, but there are more"),
        (np.ones((4, 2)), {"ids": range(9)}, "more than 4 entries"),
        (np.ones((400, 2)), {"ids": [*range(399), 3], "memory_budget": 1500}, "repeats 3"),
        (np.ones((4, 2)), {"columns": {"a": [1, 2, 3, 4, 5]}}, "5 values for 4 vectors"),
        (np.ones((4, 2)), {"columns": {"a": [1]}}, "1 values"),
        (np.ones((4, 2)), {"memory_budget": 0}, "memory_budget must be at least 1"),
        (np.diag([1.0] * 399 + [np.nan]), {"memory_budget": 300_000}, "row 399 holds a NaN"),
        (np.eye(400)[:, :399], {"on_zero": "error", "memory_budget": 300_000}, "row 399 is a zero"),
    ],
)
def test_errors_leave_nothing(
    tmp_path: Path, source: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        gnomon.DenseIndex.build_to(tmp_path / "index", source, **arguments)
    assert not (tmp_path / "index").exists()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


SANITIZED = os.environ.get("GNOMON_HYPOTHESIS") == "sanitize"

BOUNDED = """
import resource, sys
import gnomon, numpy as np
folder, limit = sys.argv[1], int(sys.argv[2])
with open("/proc/self/status") as status:
    data = next(int(line.split()[1]) for line in status if line.startswith("VmData")) << 10
resource.setrlimit(resource.RLIMIT_DATA, (data + limit, data + limit))
index = gnomon.DenseIndex.build_to(
    folder + "/index", folder + "/rows.npy", memory_budget=limit // 3, threads=1
)
print(index.segments, index.search(np.load(folder + "/rows.npy", mmap_mode="r")[77], 3).ids[0])
"""


@pytest.mark.skipif(SANITIZED, reason="AddressSanitizer's allocator hangs at RLIMIT_DATA")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA is Linux's")
def test_memory_is_bounded(tmp_path: Path) -> None:
    """64 MB of vectors are indexed and searched with 48 MB of memory beside the interpreter's."""
    rows = np.random.default_rng(1).standard_normal((125_000, 128)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    ran = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(tmp_path), str(48 << 20)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    segments, first = map(int, ran.stdout.split())
    assert (first, segments > 3) == (77, True)
