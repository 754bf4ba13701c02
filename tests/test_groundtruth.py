"""Ground truth equals one index over everything, whatever the blocks, the memory or the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from gnomon import cli_groundtruth
from gnomon.cli import cli
from gnomon.formats import ArraySource, FormatError, write_vectors
from gnomon.formats_neighbors import read_neighbors
from gnomon.groundtruth import checkpoint_of, parse_bytes, rows_that_fit
from gnomon.groundtruth_file import GroundTruth
from gnomon.reference import dense as reference
from hypothesis import given
from hypothesis import strategies as st

METRICS = ("cosine", "ip", "l2")
Rows = npt.NDArray[np.float32]


def lattice(rng: np.random.Generator, n: int, dim: int) -> Rows:
    """Few distinct values, so that almost everything ties."""
    return rng.integers(-1, 2, (n, dim)).astype(np.float32)


def check_against_one_index(truth: GroundTruth, base: Rows, queries: Rows, metric: str) -> None:
    """Ids, scores, the size of the last group and its members, by ==."""
    hits = gnomon.DenseIndex.build(base, metric=metric).search(queries, len(base))
    k = truth.ids.shape[1]
    assert truth.ids.tolist() == hits.ids[:, :k].tolist()
    assert truth.scores.tobytes() == hits.scores[:, :k].tobytes()
    last = hits.scores[:, k - 1 : k]
    assert truth.n_tied.tolist() == (hits.scores == last).sum(axis=1).tolist()
    limit = truth.meta["ties_max"]
    for q in range(len(queries)):
        behind = hits.ids[q, k:][hits.scores[q, k:] == last[q]]
        beyond = truth.tied_ids[truth.tied_offsets[q] : truth.tied_offsets[q + 1]]
        assert beyond.tolist() == behind[:limit].tolist()


@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(1, 70),
    st.sampled_from(METRICS),
    st.integers(1, 61),
    st.sampled_from((0, 1, 1000)),
)
def test_any_blocks_give_the_answer_of_one_index(
    seed: int, n: int, dim: int, k: int, metric: str, block_rows: int, ties_max: int
) -> None:
    rng = np.random.default_rng(seed)
    base, queries = lattice(rng, n, dim), lattice(rng, 3, dim)
    truth = gnomon.groundtruth(
        base,
        queries,
        k,
        metric=metric,
        on_zero="zero",
        block_rows=block_rows,
        ties_max=ties_max,
        threads=1,
    )
    check_against_one_index(truth, base, queries, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_it_equals_the_reference(metric: str) -> None:
    rng = np.random.default_rng(3)
    base, queries = lattice(rng, 40, 3), rng.standard_normal((4, 3)).astype(np.float32)
    truth = gnomon.groundtruth(base, queries, 7, metric=metric, on_zero="zero", block_rows=6)
    for q in range(4):
        want = reference.top_k(queries[q].tolist(), base.tolist(), 7, metric)
        got = zip(truth.ids[q].tolist(), truth.scores[q].tolist(), strict=True)
        assert list(got) == want


@pytest.mark.parametrize("metric", METRICS)
def test_many_queries_deep_lists_and_threads(metric: str) -> None:
    rng = np.random.default_rng(4)
    base = rng.standard_normal((3000, 24)).astype(np.float32)
    base[1500:1600] = base[:100]
    queries = rng.standard_normal((1100, 24)).astype(np.float32)  # more than one batch
    truths = [
        gnomon.groundtruth(base, queries, 50, metric=metric, block_rows=rows, threads=threads)
        for rows, threads in ((3000, 1), (701, 2), (64, 1))
    ]
    check_against_one_index(truths[0], base, queries, metric)
    for other in truths[1:]:
        for name in ("ids", "scores", "n_tied", "tied_offsets", "tied_ids"):
            assert getattr(other, name).tobytes() == getattr(truths[0], name).tobytes()
        assert other.meta == truths[0].meta


def test_all_rows_equal() -> None:
    truth = gnomon.groundtruth(np.ones((500, 4)), np.ones((2, 4)), 10, block_rows=99, ties_max=50)
    assert truth.ids.tolist() == [list(range(10))] * 2
    assert truth.n_tied.tolist() == [500, 500]
    assert truth.tied_ids.tolist() == list(range(10, 60)) * 2


@pytest.mark.parametrize(
    "kind", ["fvecs", "bvecs", "fbin", "f16bin", "u8bin", "i8bin", "npy", "npz", "hdf5", "parquet"]
)
def test_every_format_of_vectors_gives_the_same(kind: str, tmp_path: Path) -> None:
    pytest.importorskip({"hdf5": "h5py", "parquet": "pyarrow"}.get(kind, "numpy"))
    rng = np.random.default_rng(5)
    base = rng.integers(0, 100, (300, 12))
    queries = rng.integers(0, 100, (5, 12))
    own = {"npy": "f8", "npz": "i8", "hdf5": "f4", "parquet": "f4"}.get(kind)
    for name, rows in (("base", base), ("queries", queries)):
        write_vectors(tmp_path / f"{name}.{kind}", rows if own is None else rows.astype(own))
    truth = gnomon.groundtruth(
        tmp_path / f"base.{kind}",
        f"{tmp_path}/queries.{kind}" + ("::train" if kind in ("npz", "hdf5") else ""),
        20,
        metric="l2",
        block_rows=77,
    )
    check_against_one_index(truth, base.astype(np.float32), queries.astype(np.float32), "l2")


@pytest.mark.parametrize("suffix", ["bin", "ivecs", "ibin", "npy", "npz", "hdf5", "parquet"])
@pytest.mark.parametrize("metric", METRICS)
def test_every_format_of_results(suffix: str, metric: str, tmp_path: Path) -> None:
    pytest.importorskip({"hdf5": "h5py", "parquet": "pyarrow"}.get(suffix, "numpy"))
    rng = np.random.default_rng(6)
    base = rng.standard_normal((50, 4)).astype(np.float32)
    out = tmp_path / f"truth.{suffix}"
    truth = gnomon.groundtruth(base, base[:6], 8, metric=metric, out=out)
    found = read_neighbors(out, n_base=50)
    assert found.ids.tolist() == truth.ids.tolist()
    if suffix == "bin":
        assert found.distances is not None
        assert found.distances.tolist() == truth.distances.astype(np.float32).tolist()
    if suffix == "npz":
        loaded = GroundTruth.load(out)
        assert loaded.scores.tobytes() == truth.scores.tobytes()
        assert loaded.meta["base_sha256"] == truth.meta["base_sha256"]
    assert [entry.name for entry in tmp_path.iterdir()] == [out.name]  # no checkpoint, no lock
    if metric == "l2" and suffix == "npz":
        assert truth.distances[0, 0] == 0.0


def test_the_file_of_a_truth_is_checked(tmp_path: Path) -> None:
    out = tmp_path / "truth.npz"
    gnomon.groundtruth(np.eye(4), np.eye(4)[:2], 2, out=out)
    data = bytearray(out.read_bytes())
    for place in range(100, len(data), 97):
        broken = bytearray(data)
        broken[place] ^= 0x10
        out.write_bytes(broken)
        try:
            loaded = GroundTruth.load(out)
        except FormatError:
            continue
        # A bit that npz does not check (a time, an attribute) changes nothing that is read.
        assert loaded.ids.tolist() == [[0, 1], [1, 0]]
    np.savez(out, ids=np.array([[1]]))
    with pytest.raises(FormatError, match="not a ground truth that gnomon wrote"):
        GroundTruth.load(out)


def refused(why: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(ValueError, match=why):
        gnomon.groundtruth(*arguments, **options)


def test_bad_arguments_are_named() -> None:
    eye = np.eye(3, dtype=np.float32)
    refused("metric must be one of cosine, ip, l2, got 'dot'", eye, eye, metric="dot")
    refused("k must be at least 1, got 0", eye, eye, 0)
    refused("on_zero must be", eye, eye, on_zero="skip")
    refused("memory must be a size such as 512M or 2G, got '2X'", eye, eye, memory="2X")
    refused("queries: dimension 2, but base has 3", eye, np.eye(2))
    refused("base: no rows", np.zeros((0, 3)), eye)
    refused("queries: no rows", eye, np.zeros((0, 3)))
    refused("queries: row 1: a row of zeros", eye, [[1, 0, 0], [0, 0, 0]])
    refused("base: row 0: component 2 is nan", [[0, 0, np.nan]], eye)
    refused("memory of 1,000,000 bytes is too little: 3 queries .* need", eye, eye, memory=10**6)
    refused(r"suffix .txt; known formats for out: bin, ivecs", eye, eye, out="truth.txt")
    refused("block_rows must be at least 1, got 0", eye, eye, block_rows=0)
    refused("block_rows must be at least 1, got -1", eye, eye, block_rows=-1)
    refused("checkpoint_s must be seconds, 0 or more", eye, eye, checkpoint_s=float("nan"))
    refused("checkpoint_s must be seconds, 0 or more", eye, eye, checkpoint_s=-1.0)
    refused("base has masked values", np.ma.masked_array(eye, mask=eye > 0), eye)
    with pytest.raises(FileNotFoundError, match="make it first"):
        gnomon.groundtruth(eye, eye, out="/nowhere/at/all/truth.npz")


def test_a_pipe_is_no_place_for_an_answer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.npz")
    refused("out.npz: not a regular file", np.eye(2), np.eye(2), out=tmp_path / "out.npz")
    assert (tmp_path / "out.npz").is_fifo()


@pytest.mark.parametrize("which", ["base", "queries"])
@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_the_answer_never_takes_the_place_of_its_vectors(
    which: str, link: Any, tmp_path: Path
) -> None:
    """`gnomon groundtruth base.npy queries.npy --out base.npy`: hours of embedding, gone."""
    files = {name: tmp_path / f"{name}.npy" for name in ("base", "queries")}
    for file in files.values():
        np.save(file, np.eye(3, dtype=np.float32))
    before = files[which].read_bytes()
    out = files[which]
    if link is not None:
        out = tmp_path / "other.npy"
        link(files[which], out)
    with pytest.raises(ValueError, match=f"out would replace .*{which}.npy, which is read"):
        gnomon.groundtruth(files["base"], files["queries"], 1, out=out)
    assert files[which].read_bytes() == before
    assert not checkpoint_of(out).exists()


def test_a_full_disk_leaves_the_old_answer_and_the_work(tmp_path: Path) -> None:
    """The file size limit stands for a disk that fills up while the answer is written."""
    rows = np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32)
    write_vectors(tmp_path / "base.fbin", rows)
    (tmp_path / "truth.npz").write_bytes(b"old")
    code = (
        "import resource, sys, gnomon; from gnomon import groundtruth_file\n"
        "def limited(self, path, save=groundtruth_file.GroundTruth.save):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); save(self, path)\n"
        "if sys.argv[3] == 'full': groundtruth_file.GroundTruth.save = limited\n"
        "gnomon.groundtruth(sys.argv[1], sys.argv[1], 20, out=sys.argv[2], block_rows=100,"
        " checkpoint_s=0, threads=1)\n"
    )
    base, out = str(tmp_path / "base.fbin"), str(tmp_path / "truth.npz")

    def compute(how: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, base, out, how]
        return subprocess.run(command, capture_output=True, text=True)

    failed = compute("full")
    assert failed.returncode == 1
    assert f"OSError: [Errno 27] File too large: '{out}'" in failed.stderr
    assert Path(out).read_bytes() == b"old"
    names = {entry.name for entry in tmp_path.iterdir()}
    assert names == {"base.fbin", "truth.npz", "truth.npz.checkpoint"}
    assert compute("roomy").returncode == 0
    check_against_one_index(GroundTruth.load(out), rows, rows, "cosine")


def test_checks_come_before_the_search(tmp_path: Path) -> None:
    rows = np.ones((100, 4), np.float32)
    rows[99, 3] = np.nan
    write_vectors(tmp_path / "base.fbin", rows)
    phases: list[str] = []
    with pytest.raises(FormatError, match=r"base.fbin: row 99, byte \d+: component 3 is nan"):
        gnomon.groundtruth(
            tmp_path / "base.fbin", rows[:2], report=lambda phase, done, total: phases.append(phase)
        )
    assert "search" not in phases


def test_progress_rises_to_its_end() -> None:
    rows = np.random.default_rng(0).standard_normal((1000, 4)).astype(np.float32)
    seen: dict[str, list[tuple[int, int]]] = {}
    gnomon.groundtruth(
        rows,
        rows[:10],
        3,
        block_rows=100,
        report=lambda phase, done, total: seen.setdefault(phase, []).append((done, total)),
    )
    assert list(seen) == ["check queries", "check base", "search"]
    assert seen["search"] == [(step * 1000, 10_000) for step in range(1, 11)]
    for steps in seen.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("3K", 3072), ("2g", 2 << 30), ("1GiB", 1 << 30), ("2 GB", 2 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_blocks_grow_with_memory() -> None:
    rows = np.broadcast_to(np.float32(1), (10**7, 384))
    base = ArraySource(rows, "base")
    sizes = [rows_that_fit(m << 20, base, 100, 100) for m in (200, 400, 800)]
    assert sizes == sorted(set(sizes))
    assert rows_that_fit(2 << 30, ArraySource(rows[:1000], "base"), 100, 100) == 1000


PEAK = """
import sys, gnomon
truth = gnomon.groundtruth(sys.argv[1], sys.argv[2], 10, metric="l2", memory=int(sys.argv[3]),
                           out=sys.argv[4], threads=2)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc for the peak")
def test_a_base_beyond_the_limit_stays_within_it(tmp_path: Path) -> None:
    """150,000 x 384 are 230 MB as float32 and twice that as one index; the limit is 280 MB."""
    rng = np.random.default_rng(7)
    base = rng.integers(0, 256, (150_000, 384), np.uint8)
    queries = base[::15_000] ^ 1
    write_vectors(tmp_path / "base.u8bin", base)
    write_vectors(tmp_path / "queries.u8bin", queries)
    limit = 280 << 20
    arguments = [tmp_path / "base.u8bin", tmp_path / "queries.u8bin", limit, tmp_path / "t.npz"]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= limit
    truth = GroundTruth.load(tmp_path / "t.npz")
    hits = gnomon.DenseIndex.build(base, metric="l2").search(queries, 10)
    assert truth.ids.tolist() == hits.ids.tolist()
    assert truth.scores.tobytes() == hits.scores.tobytes()


def test_a_source_that_is_open_already(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((30, 4)).astype(np.float32)
    write_vectors(tmp_path / "rows.fbin", rows)
    os.rename(tmp_path / "rows.fbin", tmp_path / "rows.10M")
    with gnomon.open_vectors(tmp_path / "rows.10M", format="fbin") as source:
        truth = gnomon.groundtruth(source, rows[:2], 3)
        assert source.read(0, 1).tolist() == rows[:1].tolist()  # and it stays open
    check_against_one_index(truth, rows, rows[:2], "cosine")


def test_a_terminal_gets_a_bar_and_a_log_gets_lines(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    rows = np.random.default_rng(1).standard_normal((300, 4)).astype(np.float32)
    write_vectors(tmp_path / "rows.fbin", rows)
    command = [sys.executable, "-m", "gnomon", "groundtruth", *[str(tmp_path / "rows.fbin")] * 2]
    command += ["--out", str(tmp_path / "truth.npz"), "--block-rows", "50"]
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            check=True,
        )
        shown = terminal.read(65536).decode()
        os.close(theirs)
    assert "search" in shown
    assert "100%" in shown
    assert done.stdout.count(b"\n") == 1
    done = subprocess.run(command, capture_output=True, check=True)
    assert b"\x1b" not in done.stderr


def test_lines_say_how_far_and_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 11.0, 12.0, 31.0])
    monkeypatch.setattr(cli_groundtruth.time, "monotonic", lambda: next(clock))
    report = cli_groundtruth._lines()
    for done in (10, 20, 30, 40):
        report("search", done, 100)
    assert capsys.readouterr().err == "search: 20.0 %, 80 s left\nsearch: 40.0 %, 60 s left\n"


def test_the_command(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((30, 4)).astype(np.float32)
    write_vectors(tmp_path / "base.fbin", rows)
    write_vectors(tmp_path / "queries.fbin", rows[:3])
    paths = [str(tmp_path / name) for name in ("base.fbin", "queries.fbin")]
    out = tmp_path / "truth.npz"
    done = CliRunner().invoke(cli, ["groundtruth", *paths, "-k", "5", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "3 queries, 5 neighbours each of 30 rows (cosine)" in done.output
    assert GroundTruth.load(out).ids[:, 0].tolist() == [0, 1, 2]
    assert not checkpoint_of(out).exists()
    meta = GroundTruth.load(out).meta
    assert json.dumps(meta)
    (tmp_path / "base.fbin").write_bytes((tmp_path / "base.fbin").read_bytes()[:-3])
    done = CliRunner().invoke(cli, ["groundtruth", *paths, "--out", str(out)])
    assert done.exit_code == 2
    assert "base.fbin: row 29, byte 485: the header says 30 rows" in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"ids": np.zeros(2, np.int64)},
        {"ids": np.zeros((2, 2))},
        {"ids": np.full((2, 2), 4)},
        {"scores": np.array([["a", "b"], ["c", "d"]])},
        {"n_tied": np.zeros(7, np.int64)},
        {"tied_offsets": np.array([1, 1, 0])},
        {"tied_offsets": np.array([0, 5, 0])},
        {"tied_offsets": np.zeros((3, 1), np.int64)},
        {"meta": {"base_rows": "many"}},
        {"meta": {"metric": ["cosine"]}},
    ],
)
def test_a_truth_whose_parts_contradict_one_another(change: Any, tmp_path: Path) -> None:
    truth = gnomon.groundtruth(np.eye(4), np.eye(4)[:2], 2)
    truth.meta.update(change.pop("meta", {}))
    for name, value in change.items():
        setattr(truth, name, value)
    truth.save(tmp_path / "truth.npz")
    with pytest.raises(FormatError, match="do not belong together"):
        GroundTruth.load(tmp_path / "truth.npz")
    with pytest.raises(FormatError, match="do not belong together"):
        gnomon.recall(tmp_path / "truth.npz", [[0], [1]], k=1)


def test_queries_that_change_while_the_base_is_checked_are_noticed(tmp_path: Path) -> None:
    """The digest of the record would be that of other queries than were searched."""
    path = tmp_path / "queries.npy"
    np.save(path, np.eye(3))

    def report(phase: str, done: int, total: int) -> None:
        if phase == "check base":
            with open(path, "r+b") as file:
                file.seek(-8, os.SEEK_END)
                file.write(np.float64(2.0).tobytes())
            os.utime(path, ns=(1, 1))

    with pytest.raises(FormatError, match="changed while it was read"):
        gnomon.groundtruth(np.eye(3), path, 1, report=report)
