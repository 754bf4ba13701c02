"""The main job from the shell: `gnomon index` and `gnomon search` on a folder of text.

bench_shell.py [MEGABYTES] [--kind library|zipf]   default: 100 of library

library: the sources and documentation that Python's standard library brings, and /usr/share/doc
where it is there; each repetition after the first has a tenth of its words renamed, so that the
vocabulary grows as it does in real collections. zipf: seeded random words. A file is 40 kB or more.

Before anything is timed, the answers of a small index are compared with the reference by ==. Times
and memory are those of child processes, started as a user starts them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUERIES = (
    "how do I open a file for reading in binary mode",
    "subprocess timeout expired",
    "thread lock acquire release",
    "invalid argument",
    "regular expression match object",
    "encode unicode error",
    "self return",
    "the of and",
)
SEARCH_ROUNDS = 40
FILE_BYTES = 40_000


def library_texts(seed: int) -> Iterator[str]:
    """Texts of this machine, without end; each pass after the first renames a tenth of words."""
    folders = [Path(sysconfig.get_paths()["stdlib"]), Path("/usr/share/doc")]
    files = sorted(
        path
        for folder in folders
        for suffix in (".py", ".txt", ".rst", ".md", ".html")
        for path in folder.rglob(f"*{suffix}")
        if "site-packages" not in path.parts and path.is_file()
    )
    rng = random.Random(seed)
    rng.shuffle(files)
    for repetition in range(1_000_000):
        for path in files:
            try:
                text = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if repetition:
                words = text.split(" ")
                for at in range(rng.randrange(10), len(words), 10):
                    if words[at].isalpha():
                        words[at] += str(repetition)
                text = " ".join(words)
            yield text


def zipf_texts(seed: int) -> Iterator[str]:
    """Random words: word n of 200,000 comes with a weight of 1 / (n + 2)."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 11))) for _ in range(200_000)]
    weights = [1 / (n + 2) for n in range(len(words))]
    while True:
        drawn = rng.choices(words, weights, k=6_000)
        yield "\n\n".join(" ".join(drawn[at : at + 100]) + "." for at in range(0, 6_000, 100))


def write_texts(folder: Path, kind: str, megabytes: float) -> int:
    """Writes about `megabytes` of text; returns the bytes written."""
    done = 0
    pending = ""
    for number, text in enumerate(library_texts(7) if kind == "library" else zipf_texts(7)):
        pending += text + "\n\n"
        if len(pending) < FILE_BYTES and done + len(pending) < megabytes * 1e6:
            continue
        target = folder / f"{number % 100:02d}"
        target.mkdir(exist_ok=True)
        data = pending.encode()
        (target / f"{number:06d}.txt").write_bytes(data)
        done, pending = done + len(data), ""
        if done >= megabytes * 1e6:
            return done
    raise AssertionError("the texts never end")


def gnomon(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gnomon", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def check(folder: Path) -> None:
    """A wrong answer has no speed."""
    from gnomon.passage_store import Passages
    from gnomon.reference import analysis, bm25
    from gnomon.storage import Directory

    texts = folder / "texts"
    texts.mkdir(parents=True)
    write_texts(texts, "library", 1)
    index = folder / "index"
    gnomon("index", str(texts), "--out", str(index))
    documents = [analysis.tokens(p.text) for p in Passages(Directory.open(index))]
    for query in QUERIES:
        wanted = bm25.bm25_scores(analysis.tokens(query), documents)
        ranked = sorted(range(len(wanted)), key=lambda number: (-wanted[number], number))
        best = [wanted[number] for number in ranked[:10] if wanted[number] > 0]
        found = gnomon("search", str(index), query, "-k", "10")["hits"]
        if [hit["score"] for hit in found] != best:
            raise SystemExit(f"wrong answer to {query!r}: nothing was timed")


def search_times(index: str) -> tuple[list[float], list[float], float]:
    """Milliseconds: the query alone, warm, in one process; a whole `gnomon search`; opening."""
    from gnomon.cli_search import Opened

    began = time.perf_counter()
    opened = Opened(index)
    opening = (time.perf_counter() - began) * 1e3
    warm = []
    for round_ in range(SEARCH_ROUNDS + 1):
        for query in QUERIES:
            began = time.perf_counter()
            opened.search(query, 10)
            if round_:
                warm.append((time.perf_counter() - began) * 1e3)
    processes = []
    for query in QUERIES:
        began = time.perf_counter()
        gnomon("search", index, query)
        processes.append((time.perf_counter() - began) * 1e3)
    return warm, processes, opening


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", nargs="?", type=float, default=100)
    parser.add_argument("--kind", choices=["library", "zipf"], default="library")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gnomon-bench-") as name:
        folder = Path(name)
        check(folder / "check")
        texts, index = folder / "texts", str(folder / "index")
        texts.mkdir()
        text_bytes = write_texts(texts, options.kind, options.megabytes)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        summary = gnomon("index", str(texts), "--out", index)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        assert peak > before * 1024, "the peak is not that of the index command"
        warm, processes, opening = search_times(index)
    what = f"{text_bytes / 1e6:.0f} MB of {options.kind} text"
    counts = ("documents", "passages", "tokens", "terms", "megabytes", "seconds")
    detail = {name: summary[name] for name in counts} | {"cores": len(os.sched_getaffinity(0))}
    rows = [
        {"what": f"index {what}", "value": summary["megabytes_per_s"], "unit": "MB/s"} | detail,
        {"what": "index, peak memory", "value": peak / text_bytes, "unit": "x the text"},
        {"what": "index, size", "value": summary["index_bytes"] / text_bytes, "unit": "x the text"},
        {"what": "open the index", "value": opening, "unit": "ms"},
        {"what": "search k=10, p50", "value": percentile(warm, 0.5), "unit": "ms"},
        {"what": "search k=10, p99", "value": percentile(warm, 0.99), "unit": "ms"},
        {
            "what": "gnomon search, whole process, p50",
            "value": percentile(processes, 0.5),
            "unit": "ms",
        },
    ]
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
