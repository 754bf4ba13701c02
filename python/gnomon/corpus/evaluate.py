"""Runs policies on tasks: `evaluate` is what ``gnomon evaluate`` calls.

>>> from gnomon.corpus.evaluate import evaluate          # doctest: +SKIP
>>> run = evaluate(corpus, load_tasks("tasks.jsonl"))     # doctest: +SKIP
>>> run.summaries()["greedy"]["success_rate"]             # doctest: +SKIP
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .eval_metrics import judged
from .eval_peers import Peer, Row, fts5, ripgrep, rows_of, tantivy
from .eval_policies import POLICIES
from .eval_report import Evaluation
from .eval_tasks import Task, hard_tasks, load_tasks
from .eval_world import OutOfCallsError, Policy, World, asked_model
from .tool_specs import TOKENS_DEFAULT

if TYPE_CHECKING:
    from .api import Corpus

__all__ = ["CALLS_MAX", "asked_model", "evaluate", "hard_tasks", "load_tasks"]

CALLS_MAX = 6
PEERS: dict[str, Callable[[list[Row]], Peer]] = {"fts5": fts5, "tantivy": tantivy}


def evaluate(
    corpus: Corpus,
    tasks: Sequence[Task],
    policies: Iterable[str] | None = None,
    *,
    custom: Mapping[str, Policy] | None = None,
    files: str | os.PathLike[str] | None = None,
    calls_max: int = CALLS_MAX,
    tokens_max: int | None = None,
    answer_tokens: int = TOKENS_DEFAULT,
) -> Evaluation:
    """The results of each policy on each task.

    Parameters
    ----------
    corpus : Corpus
    tasks : list of Task
    policies : iterable of str, optional
        Of scripted, greedy, single_shot, fts5, tantivy, ripgrep; default all. One that cannot run
        here is named in ``left_out`` with the reason.
    custom : mapping of str to policy, optional
        More policies, such as ``{"model": asked_model(my_agent)}``.
    files : path, optional
        The folder that the corpus was made of, for ripgrep; the tasks' paths are relative to it.
    calls_max, tokens_max : int
        What a policy may ask for one task.
    answer_tokens : int
        What one answer may have.
    """
    wanted = list(policies) if policies is not None else [*POLICIES, *PEERS, "ripgrep"]
    known = [*POLICIES, *PEERS, "ripgrep"]
    for name in wanted:
        if name not in known:
            raise ValueError(f"no policy {name!r}; there are {', '.join(known)}")
    peers = _peers(corpus, wanted, files)
    runs = {name: POLICIES[name] for name in wanted if name in POLICIES} | dict(custom or {})
    runs |= {name: peer.policy for name, peer in peers.items() if peer.policy is not None}
    results, passages = [], corpus.snapshot.stats().chunks
    start = time.perf_counter()
    for name, policy in runs.items():
        for task in tasks:
            if name == "scripted" and not task.oracle_plan:
                continue
            asked = corpus.session(store=":memory:")
            limits: dict[str, Any] = {"calls_max": calls_max, "tokens_max": tokens_max}
            world = World(asked, answer_tokens=answer_tokens, passages=passages, **limits)
            try:
                found = policy(task, world)
            except OutOfCallsError:
                found = any(turn.passages and not turn.relaxed for turn in world.turns)
            results.append(judged(task, name, world.turns, found, len(task.oracle_plan)))
    facts = {
        "tasks": len(tasks),
        "calls at most": calls_max,
        "tokens of an answer at most": answer_tokens,
        "generation": corpus.generation,
        "seconds": round(time.perf_counter() - start, 1),
    }
    left_out = {name: peer.reason for name, peer in peers.items() if peer.policy is None}
    return Evaluation(results, left_out, facts)


def _peers(
    corpus: Corpus, wanted: Sequence[str], files: str | os.PathLike[str] | None
) -> dict[str, Peer]:
    found = {}
    if any(name in PEERS for name in wanted):
        rows = rows_of(_chunks(corpus))
        found = {name: PEERS[name](rows) for name in wanted if name in PEERS}
    if "ripgrep" in wanted:
        found["ripgrep"] = ripgrep(files)
    return found


def _chunks(corpus: Corpus) -> Iterable[tuple[str, Any]]:
    snapshot = corpus.snapshot
    for document in snapshot.documents():
        for chunk in snapshot.chunks_of(document.id):
            yield document.path, chunk
