"""Every file of the shared ANN material behaves as its manifest says."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.formats import FormatError, check_vectors, open_vectors
from gnomon.formats_neighbors import read_neighbors
from gnomon.groundtruth_file import GroundTruth

Entry = dict[str, Any]
METRICS = {"angular": "cosine", "euclidean": "l2", "ip": "ip"}


def folder() -> Path:
    beside = Path(__file__).parents[1].parent / "shared"
    return Path(os.environ.get("GNOMON_SHARED", beside)) / "data" / "ann"


def manifest() -> dict[str, Entry]:
    path = folder() / "MANIFEST.json"
    if not path.is_file():
        return {}
    entries: dict[str, Entry] = json.loads(path.read_text("utf-8"))
    return entries


MANIFEST = manifest()
NAMES = sorted(MANIFEST) or ["absent"]


@pytest.fixture(scope="module")
def ann(shared: Path) -> Path:
    if not MANIFEST:
        pytest.skip(f"no ANN material at {folder()}")
    return folder()


def is_neighbors(name: str) -> bool:
    return "gt" in Path(name).name or name.startswith("runs/")


def need_library(name: str) -> None:
    if name.endswith(".hdf5"):
        pytest.importorskip("h5py")


def read_all(ann: Path, name: str) -> tuple[int, int]:
    """Rows and columns, after every byte was looked at; FormatError if it is to be refused."""
    path = ann / name
    if is_neighbors(name):
        found = read_neighbors(path, role="result" if name.startswith("runs/") else "truth")
        return found.ids.shape[0], found.ids.shape[1]
    with open_vectors(path) as source:
        check_vectors(source)
        shape = source.n_rows, source.dim
    if name.endswith(".hdf5"):
        with open_vectors(path, role="queries") as source:
            check_vectors(source)
        read_neighbors(path)
    return shape


@pytest.mark.parametrize("name", NAMES)
def test_each_file(ann: Path, name: str) -> None:
    need_library(name)
    entry, path = MANIFEST[name], ann / name
    assert path.stat().st_size == entry["bytes"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
    if name.endswith(".json") or "dist64" in name:
        return
    expect = entry.get("expect", "accept")
    if name == "bad/gt_id_out_of_range.bin":
        assert read_neighbors(path).ids.max() == 4294967295  # without a base nobody can know
        with pytest.raises(FormatError, match=r"row 1, byte 20: id 4294967295.*1000 rows"):
            read_neighbors(path, n_base=1000)
    elif name == "special/rows.fbin" or name == "special/rows.npy" or "query_bad" in name:
        with pytest.raises(FormatError, match=r"row \d+, byte \d+: component \d+ is nan"):
            read_all(ann, name)
    elif expect.startswith(("refuse", "report")) and not name.startswith("runs/"):
        with pytest.raises(FormatError, match=re.escape(str(path))):
            read_all(ann, name)
    else:
        shape = read_all(ann, name)
        assert shape[0] == entry.get("n", shape[0])
        assert shape[1] == entry.get("d", entry.get("k", shape[1]))


REASONS = {
    "truncated.fvecs": r"row 4, byte 6160: dimension 384 makes rows of 1540 bytes.*has 7690",
    "dim_changes.fvecs": r"row 3, byte \d+: says dimension 383, the first row 384",
    "dim_zero.fvecs": r"row 0, byte 0: dimension 0",
    "dim_negative.fvecs": r"row 0, byte 0: dimension -\d+",
    "dim_huge.fvecs": r"makes rows of \d+ bytes, but the file has 1540",
    "id_column.fvecs": r"says dimension \d+, the first row 384",
    "header_too_many_rows.fbin": r"1001 rows .* the file has 30728: 20 rows",
    "header_too_few_rows.fbin": r"row 10, byte 15368: .*15360 bytes too many",
    "overflow_product.fbin": r"the header says \d+ rows of dimension \d+ \(\d{20,} bytes\)",
    "empty.fbin": r"byte 0: no header: 0 bytes",
    "trailing_bytes.fbin": r"row 20, byte 30728: .*3 bytes too many",
    "fvecs_named.fbin": r"it fits fvecs: 20 rows of dimension 384",
    "fbin_named.fvecs": r"it looks like fbin: a header of 1000 rows of dimension 384",
    "big_endian.fbin": r"it fits big-endian: 20 rows of dimension 384",
    "gt_duplicate_ids.bin": r"row 0, byte 12: id 7 stands twice",
    "gt_unsorted.bin": r"row 0, byte 12: distances are not ascending at id 8",
    "missing_neighbors.hdf5": r"no dataset 'neighbors'; it has",
    "dim_mismatch.hdf5": r"train has dimension 384, test 100",
}


@pytest.mark.parametrize("name", sorted(REASONS))
def test_the_reason_is_given(ann: Path, name: str) -> None:
    need_library(name)
    with pytest.raises(FormatError, match=REASONS[name]):
        read_all(ann, f"bad/{name}")


def test_of_the_bad_files_two_are_accepted_and_all_others_refused(ann: Path) -> None:
    pytest.importorskip("h5py")
    bad = [name for name in MANIFEST if name.startswith("bad/")]
    accepted = {name for name in bad if MANIFEST[name]["expect"].startswith("accept")}
    assert accepted == {"bad/only_header.fbin", "bad/gt_ids_only.bin"}
    refused = []
    for name in sorted(set(bad) - accepted):
        try:
            if name == "bad/gt_id_out_of_range.bin":
                read_neighbors(ann / name, n_base=1000)
            else:
                read_all(ann, name)
        except FormatError:
            refused.append(name)
    assert (len(bad), len(refused)) == (21, 19)
    for name in accepted:
        read_all(ann, name)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("stem", ["unit", "scaled"])
def test_ground_truth_equals_the_independent_one(
    ann: Path, stem: str, metric: str, tmp_path: Path
) -> None:
    """Distances within their own rounding; where they differ, so do the ids."""
    out = tmp_path / "truth.npz"
    base, queries = ann / f"small/{stem}.fbin", ann / f"small/{stem}_query.fbin"
    truth = gnomon.groundtruth(base, queries, 100, metric=METRICS[metric], out=out)
    given = read_neighbors(ann / f"small/{stem}_gt100_{metric}.bin", n_base=1000)
    exact = np.load(ann / f"small/{stem}_gt100_{metric}_dist64.npy")
    ulp = np.spacing(np.maximum(np.abs(exact), 1.0)) * 64
    assert (np.abs(truth.distances - exact) <= ulp).all()
    differ = np.argwhere(truth.ids != given.ids)
    for q, place in differ:
        gap = np.abs(exact[q] - exact[q, place])
        assert (gap <= 4 * ulp[q, place]).sum() > 1, "ids differ where distances do not tie"
    if stem == "scaled":
        assert len(differ) == 0
    assert GroundTruth.load(out).ids.tolist() == truth.ids.tolist()
    for suffix in ("bin", "ivecs", "ibin"):
        truth.save(tmp_path / f"truth.{suffix}")
        size = (ann / f"small/{stem}_gt100_{metric}.{suffix}").stat().st_size
        assert (tmp_path / f"truth.{suffix}").stat().st_size == size
    if not len(differ):
        want = (ann / f"small/{stem}_gt100_{metric}.ivecs").read_bytes()
        assert (tmp_path / "truth.ivecs").read_bytes() == want


def test_integers_are_exact(ann: Path) -> None:
    base, queries = ann / "small/unit.i8bin", ann / "small/unit_query.i8bin"
    truth = gnomon.groundtruth(base, queries, 100, metric="l2")
    given = read_neighbors(ann / "small/unit_i8_gt100_euclidean.bin", n_base=1000)
    assert truth.ids.tolist() == given.ids.tolist()
    assert truth.distances.astype(np.float32).tolist() == given.distances.tolist()


def test_half_precision(ann: Path) -> None:
    base, queries = ann / "small/unit.f16bin", ann / "small/unit_query.f16bin"
    truth = gnomon.groundtruth(base, queries, 100)
    given = read_neighbors(ann / "small/unit_f16_gt100_angular.bin", n_base=1000)
    found = gnomon.recall(truth, given.ids, 100, base=base, queries=queries)
    assert found.mean == 1.0
    with open_vectors(base) as first, open_vectors(ann / "small/unit_f16.npy") as second:
        assert check_vectors(first) == check_vectors(second)


def test_copies_tie_and_the_lower_row_is_first(ann: Path) -> None:
    base, queries = ann / "ties/dup4.fbin", ann / "ties/dup4_query.fbin"
    groups = json.loads((ann / "ties/dup4_groups.json").read_text("utf-8"))["groups_in_order"]
    truth = gnomon.groundtruth(base, queries, 10)
    assert truth.n_tied.tolist() == [4] * 50  # 10 ends inside the third group of 4
    for q, lists in enumerate(groups):
        flat = [row for group in lists for row in group]
        assert truth.ids[q].tolist() == flat[:10]
        beyond = truth.tied_ids[truth.tied_offsets[q] : truth.tied_offsets[q + 1]]
        assert beyond.tolist() == flat[10:12]
    deep = gnomon.groundtruth(base, queries, 100)
    given = read_neighbors(ann / "ties/dup4_gt100.ivecs", n_base=1000)
    assert deep.ids.tolist() == given.ids.tolist()


def test_the_lattice_has_the_rational_order(ann: Path) -> None:
    base, queries = ann / "ties/lattice8.fbin", ann / "ties/lattice8_query.fbin"
    exact = json.loads((ann / "ties/lattice8_exact.json").read_text("utf-8"))
    with pytest.raises(FormatError, match="row 0, byte 8: a row of zeros"):
        gnomon.groundtruth(base, queries, 10)
    for k in (1, 10, 50):
        truth = gnomon.groundtruth(base, queries, k, on_zero="zero", block_rows=101)
        for q, entry in enumerate(exact):
            assert truth.ids[q].tolist() == entry["ids"][:k]
            tied = truth.n_tied[q] - (truth.scores[q] == truth.scores[q, -1]).sum()
            assert k + tied == entry["n_at_least_as_good_as_kth"][str(k)]


def test_special_rows(ann: Path, tmp_path: Path) -> None:
    """Without the rows that are not finite or zero, the order is that of exact arithmetic."""
    said = json.loads((ann / "special/expected.json").read_text("utf-8"))
    left_out = said["non_finite_rows"] + said["zero_rows"]
    with open_vectors(ann / "special/rows.fbin") as source:
        rows = source.read(0, source.n_rows)
        assert [r for r in range(200) if not np.isfinite(rows[r]).all()] == said["non_finite_rows"]
    kept = np.setdiff1d(np.arange(200), left_out)
    truth = gnomon.groundtruth(rows[kept], ann / "special/query.fbin", 50)
    for q in range(20):
        want, cos = said["gt50_over_defined_rows"][q], said["cos"][q]
        assert kept[truth.ids[q]].tolist() == want
        assert (np.abs(truth.scores[q] - np.array(cos[:50])) <= 1e-12).all()
    with pytest.raises(FormatError, match="row 3, byte 4616: a row of zeros"):
        gnomon.groundtruth(ann / "special/rows.fbin", ann / "special/query.fbin", 5)
    with pytest.raises(FormatError, match="row 60, byte 92196: component 7 is nan"):
        gnomon.groundtruth(ann / "special/rows.fbin", ann / "special/query.fbin", 5, on_zero="zero")
    with pytest.raises(FormatError, match="row 0, byte 8: a row of zeros"):
        gnomon.groundtruth(rows[kept], ann / "special/query_bad.fbin", 5)


@pytest.mark.parametrize("name", ["scaled-angular", "scaled-euclidean"])
def test_ann_benchmarks_files(ann: Path, name: str) -> None:
    pytest.importorskip("h5py")
    path = ann / f"small/{name}.hdf5"
    metric = METRICS[name.split("-")[1]]
    truth = gnomon.groundtruth(path, path, 100, metric=metric)
    found = gnomon.recall(path, truth.ids, 100)
    assert (found.mean, found.mean_of("strict-id")) == (1.0, 1.0)
    assert gnomon.recall(truth, read_neighbors(path).ids, 100).mean == 1.0
