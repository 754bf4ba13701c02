"""A BM25 index whose every committed state can be told from its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gnomon
from gnomon.reference import bm25 as reference

WORDS = ["red", "green", "blue", "apple", "pear"]


def document(step: int, i: int) -> list[str]:
    return [WORDS[(step * 7 + i * 3) % 5], WORDS[(step + i) % 5], f"step{step}"]


def first() -> gnomon.BM25Index:
    return gnomon.BM25Index.build(
        [document(0, i) for i in range(20)], [f"0 {i}" for i in range(20)]
    )


def edit(index: gnomon.BM25Index, step: int) -> None:
    """The edits of one commit: documents of the step before are deleted and updated."""
    index.add([document(step, i) for i in range(8)], [f"{step} {i}" for i in range(8)])
    index.delete([f"{step - 1} {i}" for i in (1, 2, 3)])
    index.update([document(step, 90)], [f"{step - 1} 0"])
    if step % 5 == 0:
        index.delete([id for id in index.ids if int(id.split()[0]) < step - 4])


def live(step: int) -> dict[str, list[str]]:
    """The documents after `step` commits."""
    documents = {f"0 {i}": document(0, i) for i in range(20)}
    for number in range(1, step + 1):
        documents |= {f"{number} {i}": document(number, i) for i in range(8)}
        for i in (1, 2, 3, 0):
            del documents[f"{number - 1} {i}"]
        documents[f"{number - 1} 0"] = document(number, 90)
        if number % 5 == 0:
            documents = {id: d for id, d in documents.items() if int(id.split()[0]) >= number - 4}
    return documents


def step_of(path: Path) -> int:
    """The number of the committed state; everything must agree on it."""
    index = gnomon.BM25Index.open(path)
    index.verify()
    ids: list[Any] = list(index.ids)
    step = max(int(id.split()[0]) for id in ids)
    documents = live(step)
    assert ids == list(documents)
    for query in (["red"], [f"step{step}", "pear"]):
        expected = reference.bm25_scores(query, list(documents.values()))
        assert index.scores(query).tolist() == expected
    return step
