"""Corpora and queries of the BM25 benchmarks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gnomon
import numpy as np

# The first ten make 128,610 passages.
PACKAGES = (
    *("linux-doc-6.1", "python3.11-doc", "postgresql-doc-15", "git-doc", "nodejs-doc"),
    *("apache2-doc", "rust-doc", "debian-handbook", "libboost1.74-doc", "erlang-doc"),
    *("openjdk-17-doc", "python-scipy-doc", "libstdc++-12-doc", "qtbase5-doc-html"),
    "libgtk-3-doc",
)
TOOL = Path(__file__).resolve().parents[1].parent / "shared" / "tools" / "make_prose_corpus.py"


class Corpus:
    """Token ids, flat, and where each document ends; the word of id i is f"t{i}"."""

    def __init__(self, flat: Any, offsets: Any):
        self.flat, self.offsets = flat, offsets
        self.n = len(offsets) - 1

    def document(self, i: int) -> list[int]:
        found: list[int] = self.flat[self.offsets[i] : self.offsets[i + 1]].tolist()
        return found

    def save(self, path: Path) -> None:
        np.savez(path, flat=self.flat, offsets=self.offsets)

    @classmethod
    def load(cls, path: Path) -> Corpus:
        with np.load(path) as stored:
            return cls(stored["flat"], stored["offsets"])


def short_documents(n: int, words: int = 650_000, seed: int = 1) -> Corpus:
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(8.4, size=n) + rng.geometric(0.5, size=n)
    share = np.cumsum(1.0 / (np.arange(1, words + 1) + 2.7) ** 1.05)
    share /= share[-1]
    flat = np.searchsorted(share, rng.random(int(lengths.sum()))).astype(np.uint32)
    return Corpus(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def prose(path: str, n: int | None) -> tuple[Corpus, list[str]]:
    texts = []
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            texts.append(json.loads(line)["text"])
            if n is not None and len(texts) == n:
                break
    analyzer = gnomon.Analyzer("basic-v1")
    numbers: dict[str, int] = {}
    flat, ends = [], [0]
    for text in texts:
        ids = [numbers.setdefault(token, len(numbers)) for token in analyzer.tokens(text)]
        flat.append(np.array(ids, dtype=np.uint32))
        ends.append(ends[-1] + len(ids))
    return Corpus(np.concatenate(flat), np.array(ends, dtype=np.int64)), texts


def queries(corpus: Corpus, kind: str, n: int) -> list[list[int]]:
    rng = np.random.default_rng(42)
    counts = np.bincount(corpus.flat)
    common = set(np.argsort(-counts)[:60].tolist()) if kind == "no common words" else set()
    least, most = (15, 30) if kind == "15-30 tokens" else (2, 8)
    found: list[list[int]] = []
    while len(found) < n:
        tokens: list[int] = []
        while len(tokens) < most:
            tokens += corpus.document(int(rng.integers(0, corpus.n)))
        if rng.random() < 0.4:
            tokens = [tokens[i] for i in rng.permutation(len(tokens))]
        start = int(rng.integers(0, len(tokens) - most + 1))
        window = [t for t in tokens[start : start + most] if t not in common]
        query = window[: int(rng.integers(least, most + 1))]
        if len(query) >= min(least, 2):
            found.append(query)
    return found


def prose_file(given: str | None) -> tuple[Path | None, str]:
    """Where real prose lies: a file that was named, or one made from Debian's documentation.

    The second is why there is none. Making it downloads some hundred MB once.
    """
    if given:
        return Path(given), ""
    made = Path(tempfile.gettempdir()) / "gnomon-prose.jsonl"
    if made.exists():
        return made, ""
    if not TOOL.exists() or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None, "no --prose FILE, and no shared/tools/make_prose_corpus.py with apt-get"
    partial = made.with_suffix(".partial")
    command = [sys.executable, str(TOOL), str(partial), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["?"])[-1][:200]
    os.replace(partial, made)
    return made, ""
