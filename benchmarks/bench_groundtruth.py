"""Ground truth of a base that is larger than the memory it may use, killed and resumed.

bench_groundtruth.py [GIGABYTES] [--memory 512M] [--queries 1000] [--kills 5] [--folder DIR]
default: 2.5 GB of 384-dimensional float32 under 512 MB. 10 GB under 2 GB is the same proportion:
bench_groundtruth.py 10 --memory 2G --queries 100 --kills 3 --no-index --oracle --record FILE

The base is clusters with repeated rows. Before anything is printed these must be equal, byte by
byte: the answer of one index in memory (--no-index leaves it out), that of a run under the limit,
that of a run under the limit that was killed and resumed, and, with --oracle, ids, scores and the
sizes of the tie groups of a float64 oracle that shares no code with the core.

The runs cannot exceed the limit: RLIMIT_AS, which counts every mapping, is set to it. A kill is
SIGKILL, at a random moment after the checkpoint went on; the rows it then held are in the output.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
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
from gnomon.groundtruth import checkpoint_of, parse_bytes
from gnomon.groundtruth_file import GroundTruth
from gnomon.groundtruth_state import State
from run import machine

DIM, K = 384, 100
BLOCK = 20_000

CHILD = """
import json, resource, sys, time, gnomon
from gnomon.groundtruth import parse_bytes
base, queries, out, memory = sys.argv[1:5]
resource.setrlimit(resource.RLIMIT_AS, (parse_bytes(memory),) * 2)
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


def rows_saved(folder: Path) -> int:
    """How far the checkpoint of a killed run got."""
    saved = checkpoint_of(folder / "killed.npz")
    return State.load(str(saved), {}).rows_done if saved.exists() else 0


def killed(folder: Path, memory: str, kills: int, whole_s: float) -> tuple[float, list[int]]:
    """Seconds of all attempts together, the last of which comes to its end, and rows kept."""
    rng = random.Random(1)
    kept = [0]
    began = time.perf_counter()
    while True:
        child = subprocess.Popen(command(folder, "killed.npz", memory, 0.0), stdout=subprocess.PIPE)
        if len(kept) > kills:
            break
        while child.poll() is None and rows_saved(folder) <= kept[-1]:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 0.1) * whole_s)
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL, "the run ended before it was killed"
        kept.append(rows_saved(folder))
    child.communicate()
    assert child.returncode == 0, "the run did not end"
    return time.perf_counter() - began, kept[1:]


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


def require_oracle(folder: Path, n_rows: int) -> None:
    """Ends the run unless a float64 oracle over the whole file, mapped, gives the same answer."""
    from oracle_dense import oracle

    truth = GroundTruth.load(folder / "whole.npz")
    with open_vectors(folder / "queries.fbin") as source:
        queries = source.read(0, source.n_rows)
    rows = np.memmap(folder / "base.fbin", np.float32, "r", offset=8, shape=(n_rows, DIM))
    ids, scores = oracle(rows, queries, K + 32, ["cosine"])["cosine"]
    assert (scores[:, -1] < scores[:, K - 1]).all(), "a tie group longer than the oracle's list"
    assert truth.ids.tobytes() == ids[:, :K].tobytes()
    assert truth.scores.tobytes() == scores[:, :K].tobytes()
    assert (truth.n_tied == (scores == scores[:, K - 1 : K]).sum(1)).all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", nargs="?", type=float, default=2.5)
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--folder", help="where the base is written; default: a temporary folder")
    parser.add_argument("--no-index", action="store_true")
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--record", type=Path, help="write what was found, and where, as JSON")
    options = parser.parse_args()
    where = machine()  # before the oracle asks for one thread of everything
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
        seconds, kept = killed(folder, options.memory, options.kills, whole["seconds"])
        same = (folder / "whole.npz").read_bytes() == (folder / "killed.npz").read_bytes()
        assert same, "the resumed run gave another file"
        if options.oracle:
            require_oracle(folder, n_rows)
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
            "rows_in_the_checkpoint_after_each_kill": kept,
            "equal_to_a_float64_oracle": options.oracle,
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
    if options.record:
        record = {"benchmark": "groundtruth", "machine": where, "rows": rows}
        options.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
