"""Ground truth of a base that is larger than the memory it may use, killed and resumed.

bench_groundtruth.py [GIGABYTES] [--memory 512M] [--queries 1000] [--kills 5] [--folder DIR]
default: 2.5 GB of 384-dimensional float32 under 512 MB. 10 GB under 2 GB is the same proportion:
bench_groundtruth.py 10 --memory 2G --no-index

The base is clusters with repeated rows. Three answers must be equal, byte by byte, before anything
is printed: that of one index in memory (--no-index leaves it out), that of a run under the limit,
and that of a run under the limit that was killed at random moments and resumed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
from gnomon.formats import open_vectors, write_vectors
from gnomon.groundtruth import parse_bytes
from gnomon.groundtruth_file import GroundTruth

DIM, K = 384, 100
BLOCK = 20_000

CHILD = """
import json, sys, time, gnomon
base, queries, out, memory = sys.argv[1:5]
began = time.perf_counter()
gnomon.groundtruth(base, queries, 100, out=out, memory=memory, checkpoint_s=float(sys.argv[5]))
seconds = time.perf_counter() - began
status = open("/proc/self/status").read()
print(json.dumps({"seconds": seconds, "peak": int(status.split("VmHWM:")[1].split()[0]) * 1024}))
"""


def blocks(n_rows: int) -> Iterator[Any]:
    """Rows around 2,000 centres; every fiftieth repeats the one before, so that there are ties."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((2000, DIM), np.float32)
    for start in range(0, n_rows, BLOCK):
        n = min(BLOCK, n_rows - start)
        rows = centres[rng.integers(0, 2000, n)] + rng.standard_normal((n, DIM), np.float32)
        rows[49::50] = rows[48::50][: len(rows[49::50])]
        yield rows


def command(folder: Path, out: str, memory: str, every: float) -> list[str]:
    files = [str(folder / name) for name in ("base.fbin", "queries.fbin", out)]
    return [sys.executable, "-c", CHILD, *files, memory, str(every)]


def uninterrupted(folder: Path, memory: str) -> dict[str, float]:
    done = subprocess.run(
        command(folder, "whole.npz", memory, 30.0), stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def killed(folder: Path, memory: str, kills: int, whole_s: float) -> float:
    """Seconds of all attempts together, the last of which comes to its end."""
    rng = random.Random(1)
    began = time.perf_counter()
    left = kills
    while True:
        child = subprocess.Popen(command(folder, "killed.npz", memory, 0.0), stdout=subprocess.PIPE)
        try:
            child.communicate(timeout=rng.uniform(0.2, 0.6) * whole_s if left else None)
            break
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            left -= 1
    assert child.returncode == 0, "the run did not end"
    return time.perf_counter() - began


def in_memory(folder: Path) -> float:
    """Builds one index, searches it and compares; seconds of build and search."""
    truth = GroundTruth.load(folder / "whole.npz")
    with (
        open_vectors(folder / "base.fbin") as base,
        open_vectors(folder / "queries.fbin") as queries,
    ):
        rows, wanted = base.read(0, base.n_rows), queries.read(0, queries.n_rows)
    began = time.perf_counter()
    index = gnomon.DenseIndex.build(rows)
    del rows
    hits = index.search(wanted, K)
    seconds = time.perf_counter() - began
    assert hits.ids.tobytes() == truth.ids.tobytes()
    assert hits.scores.tobytes() == truth.scores.tobytes()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", nargs="?", type=float, default=2.5)
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--folder", help="where the base is written; default: a temporary folder")
    parser.add_argument("--no-index", action="store_true")
    options = parser.parse_args()
    n_rows = int(options.gigabytes * 1e9) // (DIM * 4)
    with tempfile.TemporaryDirectory(prefix="gnomon-bench-", dir=options.folder) as name:
        folder = Path(name)
        write_vectors(folder / "base.fbin", blocks(n_rows), n_rows=n_rows, dim=DIM)
        rng = np.random.default_rng(1)
        with open_vectors(folder / "base.fbin") as base:
            picked = base.take(rng.integers(0, n_rows, options.queries))
        noise = rng.standard_normal(picked.shape, np.float32)
        write_vectors(folder / "queries.fbin", picked + noise)
        whole = uninterrupted(folder, options.memory)
        seconds = killed(folder, options.memory, options.kills, whole["seconds"])
        same = (folder / "whole.npz").read_bytes() == (folder / "killed.npz").read_bytes()
        assert same, "the resumed run gave another file"
        one_index = None if options.no_index else in_memory(folder)
    limit = parse_bytes(options.memory)
    what = f"{n_rows * DIM * 4 / 1e9:.3g} GB x {options.queries:,} queries in {options.memory}"
    rows = [
        {"what": f"{what}, peak memory", "value": whole["peak"] / limit, "unit": "x the limit"},
        {"what": "the same, check and search", "value": whole["seconds"], "unit": "s"},
        {
            "what": f"the same, killed {options.kills} times and resumed, in all",
            "value": seconds / whole["seconds"],
            "unit": "x the time, the same file",
        },
    ]
    if one_index is not None:
        rows.append(
            {
                "what": "the same, against one index in memory (no reading, no check)",
                "value": whole["seconds"] / one_index,
                "unit": "x the time, the same bits",
            }
        )
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
