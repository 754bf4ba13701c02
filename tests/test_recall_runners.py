"""`gnomon recall` from the shell, its reports, and the indexes that it runs."""

from __future__ import annotations

import csv
import html.parser
import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gnomon import recall_runners
from gnomon.cli import cli
from gnomon.formats import write_vectors
from gnomon.formats_neighbors import write_neighbors
from gnomon.recall_html import html_report, write_text
from gnomon.recall_runners import RUNNERS, MissingLibraryError, parse_spec, sweep

LIBRARY = {"faiss": "faiss", "hnswlib": "hnswlib", "usearch": "usearch", "gnomon": "gnomon"}

# Types of extension modules that were made by an old SWIG (faiss).
pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__:DeprecationWarning"
)


def need(index: str) -> None:
    library = LIBRARY[index.split(":")[0]]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install 'gnomon[ann]'")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """base, queries, their truth, an exact run and one with faults."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(8)
    base = rng.standard_normal((800, 16)).astype(np.float32)
    base[400:420] = base[:20]
    queries = rng.standard_normal((60, 16)).astype(np.float32)
    write_vectors(folder / "base.fbin", base)
    write_vectors(folder / "queries.fbin", queries)
    truth = gnomon.groundtruth(base, queries, 20, out=folder / "truth.npz")
    write_neighbors(folder / "exact.ivecs", truth.ids)
    faulty = truth.ids.copy()
    faulty[:30, 3] = faulty[:30, 2]
    faulty[5, 0] = 5000
    write_neighbors(folder / "a <b>&'\"c.ibin", faulty)
    return folder


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["recall", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def vectors(world: Path) -> list[object]:
    return ["--base", world / "base.fbin", "--queries", world / "queries.fbin"]


def test_the_table_and_its_notes(world: Path) -> None:
    runs = [world / "exact.ivecs", world / "a <b>&'\"c.ibin"]
    text = run(world / "truth.npz", *runs, "-k", 10, "-k", 20).output
    assert "ann-bench" in text.splitlines()[0]
    assert len([line for line in text.splitlines() if "60/60" in line]) == 2
    assert "repeated: 30 places in 30 queries" in text
    assert "out of range: 1 places in 1 queries" in text
    assert "at least 94.0% are (Wilson, 95 %)" in text
    assert re.search(r"recall@10: .* = -0\.05\d+ \[-0\.\d+, -0\.\d+\], significant", text)
    assert "worst queries: 5 (0.80)" in text
    assert text.endswith("95 %: percentile bootstrap over queries, 10,000 resamples, seed 0\n")


def test_json_has_everything(world: Path) -> None:
    found = json.loads(run(world / "truth.npz", world / "exact.ivecs", "--json").stdout)
    (first,) = found["runs"]
    assert (first["recall"], first["k"], first["queries"]) == (1.0, 10, 60)
    assert first["others"]["ann-benchmarks"] is None  # needs vectors
    found = json.loads(
        run(world / "truth.npz", world / "exact.ivecs", *vectors(world), "--json").stdout
    )
    assert found["runs"][0]["others"]["ann-benchmarks"] == 1.0
    assert found["runs"][0]["distance_ratio"] == {"mean": 1.0, "worst_query": 1.0}


class Page(html.parser.HTMLParser):
    """Collects tags and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "data")]


def test_reports(world: Path, tmp_path: Path) -> None:
    name = "a <b>&'\"c.ibin"
    files = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "html")}
    run(
        *(world / "truth.npz", world / "exact.ivecs", world / name, *vectors(world)),
        *("--csv", files["csv"], "--html", files["html"], "--index", "gnomon"),
    )
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert [row["name"] for row in rows] == [
        str(world / "exact.ivecs"),
        str(world / name),
        "gnomon",
    ]
    assert [float(row["recall"]) for row in rows][::2] == [1.0, 1.0]
    assert [bool(row["qps"]) for row in rows] == [False, False, True]
    assert float(rows[2]["qps"]) == 60 / float(rows[2]["seconds"])
    assert 0 < float(rows[2]["p50_ms"]) <= float(rows[2]["p95_ms"]) <= float(rows[2]["p99_ms"])
    assert rows[0]["p50_ms"] == ""
    text = files["html"].read_text()
    assert text.count("<svg") == 4  # speed, waiting, waiting per query, recall per query
    assert "indexes were asked for 10 neighbours, with 1 threads" in text
    assert f"<li>libraries: gnomon {gnomon.__version__}</li>" in text
    page = Page(text)
    assert page.links == []
    assert "http" not in text
    assert {"svg", "table", "polyline"} <= set(page.tags)
    assert "script" not in page.tags
    assert "b" not in page.tags  # the file's name is text, not markup
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.csv", "out.html"]


def test_a_page_of_one_point_and_of_perfect_runs() -> None:
    perfect = gnomon.recall([[0]], [[0]], 1, truth_scores=[[1.0]], name="x")
    assert "svg" in Page(html_report([perfect])).tags
    unknown = gnomon.recall([[0]], [[0]], 1, name="x")
    assert "ties are unknown" in html_report([unknown])


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(world: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / f"curve.{suffix}"
    run(world / "truth.npz", *vectors(world), "--index", "gnomon", "--plot", plot)
    head = plot.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in plot.read_bytes()
    assert (
        "a plot is .png or .svg"
        in run(
            *(world / "truth.npz", *vectors(world), "--index", "gnomon"),
            *("--plot", tmp_path / "curve.pdf"),
            code=2,
        ).output
    )


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("index", sorted(RUNNERS))
def test_every_index_runs(index: str, metric: str) -> None:
    """Exact ones find an exact top k; the others most of it, at their widest setting."""
    need(index)
    rng = np.random.default_rng(9)
    base = rng.standard_normal((700, 12)).astype(np.float32)
    queries = rng.standard_normal((40, 12)).astype(np.float32)
    truth = gnomon.groundtruth(base, queries, 10, metric=metric)
    points = list(sweep(index, base, queries, metric, 10, repeats=1))
    assert len({point.name for point in points}) == len(points)
    recalls = []
    for point in points:
        assert point.seconds > 0
        assert point.qps == 40 / point.seconds
        assert point.ids.shape == (40, 10)
        assert len(point.latencies) == 40
        assert 0 < point.latencies[0] <= point.percentiles[0] <= point.percentiles[2]
        assert point.percentiles[2] == point.latencies[-1]
        recalls.append(gnomon.recall(truth, point.ids, 10, base=base, queries=queries).mean)
    if index in ("gnomon", "faiss:Flat"):
        assert recalls == [1.0]
    else:
        assert len(points) > 3
        assert recalls[-1] >= 0.95  # the whole graph is within reach of the widest beam
        assert recalls[-1] >= recalls[0]


def test_settings_of_an_index() -> None:
    need("hnswlib")
    rows = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)
    points = list(sweep("hnswlib,M=4,ef_construction=20@10,50", rows, rows[:3], "l2", 2, repeats=1))
    label = "hnswlib,M=4,ef_construction=20"
    assert [point.name for point in points] == [f"{label} ef=10", f"{label} ef=50"]


def test_an_index_that_finds_too_few_is_named() -> None:
    """One of hnswlib's graphs falls apart when its edges are few and its rows repeat."""
    need("hnswlib")
    rows = np.zeros((50, 4), np.float32)
    rows[:, 0] = np.arange(50)

    def broken(task: recall_runners.Task) -> recall_runners.Built:
        def search(value: Any, rows: slice) -> Any:
            raise RuntimeError("Cannot return the results in a contiguous 2D array")

        return recall_runners.Built("ef", (3,), search)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RUNNERS, "hnswlib", broken)
        with pytest.raises(ValueError, match="hnswlib ef=3: Cannot return the results"):
            list(sweep("hnswlib", rows, rows[:3], "l2", 2))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("hnswlib,m=3", "hnswlib has no option 'm'; options: M, ef_construction"),
        ("gnomon,M=3", "gnomon has no option 'M'; options: none"),
        ("hnswlib,M=0", "M must be at least 2, got 0"),  # the library would crash
        ("faiss:HNSW,M=1", "M must be at least 2, got 1"),
        ("faiss:IVF,nlist=0", "nlist must be at least 1, got 0"),
        ("usearch@10,0", "values of a knob are at least 1, got 0"),
        ("hnswlib@-5", "values of a knob are at least 1, got -5"),
        ("faiss:Flat@5", "faiss:Flat is exact and has no knob"),
    ],
)
def test_options_and_knobs_are_checked_before_anything_is_built(spec: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_spec(spec)


def test_a_build_that_cannot_be_is_one_line(world: Path) -> None:
    need("faiss")
    index = ["--index", "faiss:IVF,nlist=5000"]
    result = run(world / "truth.npz", *vectors(world), *index, code=2)
    assert "gnomon: faiss:IVF,nlist=5000: Error in void faiss::Clustering" in result.output


@pytest.mark.parametrize(
    ("option", "name", "why"),
    [
        ("--plot", "curve.pdf", "a plot is .png or .svg"),
        ("--html", "absent/report.html", "absent: no such directory; make it first"),
        ("--csv", "", "a directory; name a file"),
    ],
)
def test_reports_without_a_place_are_refused_before_indexes_are_built(
    option: str, name: str, why: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUNNERS, "gnomon", lambda task: pytest.fail("it was built"))
    index = ["--index", "gnomon", option, tmp_path / name]
    assert why in run(world / "truth.npz", *vectors(world), *index, code=2).output


def test_vectors_of_another_truth_are_refused_before_indexes_are_built(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUNNERS, "gnomon", lambda task: pytest.fail("it was built"))
    swapped = ["--base", world / "queries.fbin", "--queries", world / "queries.fbin"]
    output = run(world / "truth.npz", *swapped, "--index", "gnomon", code=2).output
    assert "but the base has 60 rows" in output


def test_a_report_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    """Not by the hidden name under which it is written first."""
    for write in (write_text, lambda path, text: write_neighbors(path, [[1]])):
        with pytest.raises(FileNotFoundError) as caught:
            write(tmp_path / "absent" / "report.ibin", "text")
        assert caught.value.filename == str(tmp_path / "absent" / "report.ibin")


def test_a_recall_below_one_never_reads_as_one(tmp_path: Path) -> None:
    """One miss among 40,000 places."""
    truth = np.arange(60_000).reshape(20_000, 3)
    missed = truth[:, :2].copy()
    missed[77, 1] = 5
    write_neighbors(tmp_path / "truth.npz", truth, distances=np.tile([0.5, 1.0, 2.0], (20_000, 1)))
    write_neighbors(tmp_path / "run.ibin", missed)
    found = run(tmp_path / "truth.npz", tmp_path / "run.ibin", "-k", 2, "--worst", 0).output
    assert "  0.9999  0.9999 - 1.0000" in found.splitlines()[1]
    assert "19999/20000" in found
    assert "worst queries" not in found


def test_the_curve_from_the_shell(world: Path, tmp_path: Path) -> None:
    need("faiss")
    result = run(
        *(world / "truth.npz", *vectors(world), "--index", "faiss:IVF@1,4", "--index", "gnomon"),
        *("--html", tmp_path / "curve.html", "--repeats", 1),
    )
    assert "queries/s" in result.output
    lines = [line for line in result.stdout.splitlines() if line.startswith("faiss:IVF nprobe=")]
    assert len(lines) == 2
    assert "Recall and speed" in (tmp_path / "curve.html").read_text()


def test_a_missing_library_is_named(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str, package: str) -> Any:
        raise MissingLibraryError(f"{package} is not installed: pip install {package}")

    monkeypatch.setattr(recall_runners, "_import", gone)
    result = run(world / "truth.npz", *vectors(world), "--index", "hnswlib", code=2)
    assert result.output.splitlines()[-1] == "gnomon: hnswlib is not installed: pip install hnswlib"


@pytest.mark.parametrize(
    "spec", ["nope", "faiss", "faiss:PQ", "hnswlib,M", "hnswlib,M=x", "gnomon@a"]
)
def test_a_wrong_spec_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="index"):
        parse_spec(spec)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "name at least one RESULT"),
        (["--index", "gnomon"], "needs --base and --queries"),
        (["x.ivecs", "--base", "b.fbin"], "given together"),
        (["x.ivecs", "--plot", "x.png"], "needs --index"),
        (["absent.ivecs"], "absent.ivecs: no such file"),
        (["x.txt"], "known formats"),
        (["exact.ivecs", "-k", "100"], "recall@100 needs 100 exact neighbours"),
    ],
)
def test_wrong_usage_is_one_line(world: Path, arguments: list[str], why: str) -> None:
    paths = [str(world / a) if a.endswith((".ivecs", ".txt")) else a for a in arguments]
    result = run(world / "truth.npz", *paths, code=2)
    assert why in result.output


def test_a_device_is_no_place_for_a_report(world: Path, tmp_path: Path) -> None:
    """Run by root, `--csv /dev/null` put a file in the place of the device."""
    os.mkfifo(tmp_path / "pipe")
    write_neighbors(tmp_path / "run.ibin", [[0, 1]] * 60)
    for option in ("--csv", "--html"):
        arguments = [world / "truth.npz", tmp_path / "run.ibin", "-k", 2, option, tmp_path / "pipe"]
        assert "pipe: not a regular file" in run(*arguments, code=2).output
    with pytest.raises(OSError, match="not a regular file"):
        write_text(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()


def test_a_seed_below_zero_is_refused_before_the_table(world: Path) -> None:
    runs = [world / "truth.npz", world / "exact.ivecs"]
    assert "Invalid value for '--seed'" in run(*runs, "--seed", -1, code=2).output
    with pytest.raises(ValueError, match="seed must be at least 0"):
        gnomon.recall(world / "truth.npz", world / "exact.ivecs", seed=-1)
