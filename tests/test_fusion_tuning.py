"""Tuning of fusion: the arithmetic of fusion itself, and honest about chance."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from gnomon import reciprocal_rank_fusion, tune_fusion
from gnomon.cli import cli
from gnomon.formats import FormatError
from gnomon.fusion_files import read_judgements, read_run
from gnomon.fusion_quality import Judged, quality
from gnomon.fusion_tuning import DEFAULT, Setting, _settings
from hypothesis import given
from hypothesis import strategies as st

IDS = st.sampled_from("abcdefghij")
RANKINGS = st.lists(st.lists(IDS, max_size=12), min_size=2, max_size=3)
GAINS = st.dictionaries(IDS, st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=6)


@given(RANKINGS, GAINS, st.sampled_from(["ndcg@3", "ndcg@10", "mrr@10", "recall@5"]), st.data())
def test_a_setting_is_measured_as_fusion_fuses(
    rankings: list[list[str]], gains: dict[str, float], metric: str, data: st.DataObject
) -> None:
    n = len(rankings)
    weights = st.none() | st.tuples(*[st.sampled_from([0.1, 0.3, 1.0])] * n)
    setting = Setting(
        data.draw(st.sampled_from([0, 1, 60, 0.5])),
        data.draw(st.none() | st.integers(1, 12)),
        data.draw(weights),
    )
    fused = reciprocal_rank_fusion(
        rankings, setting.k, depth=setting.depth, weights=setting.weights
    )
    judged = Judged(rankings, gains)
    assert judged.values(metric, [setting]) == [quality(fused, gains, metric)]
    for number, ranking in enumerate(rankings):
        assert judged.single(metric, number) == quality(ranking, gains, metric)


def test_metrics_equal_those_of_trec_eval() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    rng = random.Random(3)
    docs = [f"d{n}" for n in range(40)]
    for _ in range(20):
        ranking = rng.sample(docs, 30)
        gains = {doc: float(rng.choice([0, 0, 1, 2, 3])) for doc in rng.sample(docs, 15)}
        gains[docs[0]] = 1.0
        qrels = [ir_measures.Qrel("q", doc, int(gain)) for doc, gain in gains.items()]
        run = [ir_measures.ScoredDoc("q", doc, -rank) for rank, doc in enumerate(ranking)]
        for ours, theirs in (
            ("ndcg@10", ir_measures.nDCG @ 10),
            ("recall@20", ir_measures.R @ 20),
            ("mrr@100", ir_measures.RR),
        ):
            want = ir_measures.calc_aggregate([theirs], qrels, run)[theirs]
            # Their sums are in another order and, for nDCG, rounded once more.
            assert abs(quality(ranking, gains, ours) - want) <= 1e-12


def noise(n: int, seed: int) -> tuple[list[dict[int, list[str]]], dict[int, dict[str, float]]]:
    """Two rankers that know nothing of the judgements."""
    rng = random.Random(seed)
    docs = [f"d{i}" for i in range(60)]
    runs = [{q: rng.sample(docs, 50) for q in range(n)} for _ in range(2)]
    return runs, {q: {rng.choice(docs): 1.0} for q in range(n)}


def test_noise_is_not_an_improvement() -> None:
    """Choosing among 280 settings looks better in the sample, and is not."""
    kept = 0
    for seed in range(8):
        runs, judgements = noise(60, seed)
        found = tune_fusion(runs, judgements, weights=4)
        assert found.settings > 200
        assert found.in_sample >= found.held_out
        assert found.in_sample >= found.default
        kept += found.recommended == DEFAULT
        if not found.significant:
            assert "keep the default" in found.lines()[-1]
    assert kept >= 7  # one in forty is expected to look significant by chance


def test_a_real_difference_is_found() -> None:
    """One ranker always knows the answer, the other never does: weight and k matter."""
    rng = random.Random(1)
    docs = [f"d{i}" for i in range(60)]
    good: dict[int, list[str]] = {}
    bad: dict[int, list[str]] = {}
    judgements: dict[int, dict[str, float]] = {}
    for q in range(80):
        target = rng.choice(docs)
        others = [doc for doc in docs if doc != target]
        good[q] = [target, *rng.sample(others, 30)]
        bad[q] = rng.sample(others, 31)
        judgements[q] = {target: 1.0}
    found = tune_fusion([bad, good], judgements, weights=[(0.5, 0.5), (0.1, 0.9), (0.9, 0.1)])
    assert found.significant
    assert found.recommended == found.best
    assert found.single == (0.0, 1.0)
    assert found.held_out > found.default
    assert found.held_out == 1.0
    assert found.lines()[-1].startswith("significant: use k=")
    again = tune_fusion([bad, good], judgements, weights=[(0.5, 0.5), (0.1, 0.9), (0.9, 0.1)])
    assert again == found
    assert json.loads(json.dumps(found.as_dict()))["significant"] is True


def test_held_out_queries_do_not_choose() -> None:
    """Each query's own setting would be perfect; one chosen elsewhere is not."""
    runs, judgements = noise(20, 3)
    found = tune_fusion(runs, judgements, metric="recall@1", folds=20, weights=10)
    assert found.in_sample > found.held_out
    assert len(found.chosen) == 20


def test_the_default_is_tried_first_and_near_settings_before_far_ones() -> None:
    settings = _settings(2, [1, 60, 100], [10, None], [(0.3, 0.7)])
    assert settings[0] == DEFAULT
    assert len(settings) == len(set(settings)) == 12
    assert settings[1] == Setting(100, None, None)
    assert all(setting.weights is None for setting in settings[:6])
    assert len(_settings(3, [60], [None], 4)) == 1 + 15


def test_unjudged_queries_are_left_out() -> None:
    runs = [{q: ["a", "b"] for q in range(10)} for _ in range(2)]
    judgements: dict[int, dict[str, float]] = {q: {"a": 1.0} for q in range(6)}
    judgements |= {7: {"a": 0.0}, 8: {}}
    found = tune_fusion(runs, judgements, folds=3)
    assert (found.queries, found.default) == (6, 1.0)
    assert found.unanswered == 0


def test_queries_that_no_run_has_are_said_and_ids_that_never_meet_refused() -> None:
    """Numbers against texts, say: all would count 0, and the default be 'kept'."""
    runs = [{q: ["a", "b"] for q in range(4)} for _ in range(2)]
    found = tune_fusion(runs, {q: {"a": 1.0} for q in range(6)}, folds=3)
    assert (found.queries, found.unanswered) == (6, 2)
    assert found.default == 4 / 6
    assert found.lines()[1] == "2 of them are in no run and count 0"
    assert found.as_dict()["unanswered"] == 2
    with pytest.raises(ValueError, match="none of the judged queries, such as '0'; are the ids"):
        tune_fusion(runs, {str(q): {"a": 1.0} for q in range(6)}, folds=3)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"metric": "map"}, "metric must be ndcg@N"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"folds": 11}, "10 queries with a relevant document are too few for 11 folds"),
        ({"weights": [(1.0,)]}, "weights must be 2 finite numbers"),
        ({"weights": [(0.0, 0.0)]}, "not all 0"),
        ({"ks": [-1]}, "k must be a finite number above -1"),
        ({"depths": [0]}, "depth must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    runs, judgements = noise(10, 0)
    with pytest.raises(ValueError, match=why):
        tune_fusion(runs, judgements, **options)
    with pytest.raises(ValueError, match="two rankers or more, got 1"):
        tune_fusion(runs[:1], judgements)


def write_world(folder: Path) -> list[str]:
    runs, judgements = noise(12, 4)
    lines = [f"{q} 0 {doc} 1" for q, gains in judgements.items() for doc in gains]
    (folder / "qrels").write_text("\n".join(lines) + "\n")
    with gzip.open(folder / "a.run.gz", "wt") as file:
        for q, ranking in runs[0].items():
            file.writelines(f"{q} Q0 {doc} {rank} {-rank} a\n" for rank, doc in enumerate(ranking))
    rows = [
        f"{q}\t{doc}\t{rank}\t0.5" for q, docs in runs[1].items() for rank, doc in enumerate(docs)
    ]
    (folder / "b.tsv").write_text("\n".join(reversed(rows)))
    return [str(folder / name) for name in ("qrels", "a.run.gz", "b.tsv")]


def test_the_command(tmp_path: Path) -> None:
    files = write_world(tmp_path)
    runs, _ = noise(12, 4)
    for file, run in zip(files[1:], runs, strict=True):
        assert read_run(file) == {str(q): ranking for q, ranking in run.items()}
    done = CliRunner().invoke(cli, ["tune-fusion", *files, "-k", "1", "-k", "60", "--depth", "20"])
    assert done.exit_code == 0, done.output
    assert "ndcg@10 over 12 judged queries, 4 settings" in done.output
    done = CliRunner().invoke(cli, ["tune-fusion", *files, "--json", "--metric", "mrr@10"])
    assert json.loads(done.output)["metric"] == "mrr@10"
    done = CliRunner().invoke(cli, ["tune-fusion", *files[:2]])
    assert (done.exit_code, done.output) == (2, "gnomon: fusion needs two runs or more\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 d1", "line 1: 2 fields"),
        ("1 d1 x\n", "line 1: 'x' is not a number"),
        ("1 d1 1\n1 d2 nope\n", "line 2: 'nope' is not a number"),
        ("1 d1 1\n1 d2 nan\n", "line 2: 'nan' is not a finite number"),
        ("1 d1 inf\n", "line 1: 'inf' is not a finite number"),
    ],
)
def test_lines_that_cannot_be_read_are_named(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    for read in (read_judgements, read_run):
        with pytest.raises(FormatError, match=why):
            read(str(path))
    packed = gzip.compress(b"1 d1 1\n" * 1000)
    path.write_bytes(packed[:12] + b"\xff" * 8 + packed[20:])
    with pytest.raises(FormatError, match="not text"):
        read_run(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not text"):
        read_run(str(path))


def ids_of(path: Path) -> list[str]:
    return [json.loads(line)["_id"] for line in path.read_text("utf-8").splitlines()]


def test_a_judged_collection(shared: Path) -> None:
    """BM25 and cosine on SciFact: rankings and figures are those that were worked out."""
    folder = shared / "data/collections/scifact"
    if not folder.is_dir():
        pytest.skip(f"no collection at {folder}")
    judgements = read_judgements(str(folder / "qrels.tsv"))
    sparse = read_run(str(folder / "bm25/run.lucene_k1=1.2_b=0.75.tsv.gz"))
    corpus, queries = ids_of(folder / "corpus.jsonl"), ids_of(folder / "queries.jsonl")
    near = np.load(folder / "emb/gt100_ids.npy").tolist()
    dense = {q: [corpus[row] for row in rows] for q, rows in zip(queries, near, strict=True)}
    said = json.loads((folder / "fusion/metrics.json").read_text("utf-8"))
    listed = read_run(str(folder / "fusion/rrf_k60_top20.tsv.gz"))
    for q in judgements:
        assert reciprocal_rank_fusion([sparse[q], dense[q]])[:20] == listed[q]
    want = [entry["ndcg_cut_10"] for name, entry in said.items() if name != "queries"]
    found = tune_fusion([sparse, dense], judgements)
    assert found.queries == said["queries"] == 300
    # Their sum is in another order. That of the fused ranking is left out: equal ranks tie, and
    # trec_eval orders ties by document id.
    assert [round(x, 12) for x in found.single] == [round(x, 12) for x in want[:2]]
    assert found.held_out <= found.in_sample
    assert found.significant
    assert found.best.k < 60
