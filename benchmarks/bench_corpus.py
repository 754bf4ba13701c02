"""How fast documents are processed, stage by stage, and indexed; and how large the index is.

bench_corpus.py --stage parse|process|index|all [--share N]

`parse` is parse + render + cut into chunks, `process` adds ids, lines, characters and structs, and
in a row of its own names and relations. The texts are the Markdown files of the shared corpus
(GNOMON_SHARED); with --share N every N-th of them. One thread, process time, minimum of the rounds;
the stages and the parser's bare events are interleaved round by round.

`index` is the whole corpus on all cores, with positions, trigrams, entities, graph and fsync, wall
time; then one changed file, and one in a hundred, brought in and opened. The index is verified.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gnomon.corpus import (
    CorpusIndex,
    Coverage,
    Folder,
    Snapshot,
    process_document,
    walk_sources,
)
from gnomon.corpus.process import stage_parse

ROUNDS = 3
SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")


def documents(share: int) -> list[tuple[bytes, str]]:
    top = SHARED / "data" / "dbconn"
    if not top.is_dir():
        raise SystemExit(f"no corpus at {top}; set GNOMON_SHARED")
    files = [found for found in walk_sources(top, Coverage()) if found.path.endswith(".md")]
    return [(Path(found.place).read_bytes(), found.path) for found in files[::share]]


def events_alone(raw: bytes, path: str) -> None:
    import pyromark

    for _ in pyromark.events_with_range(raw.decode("utf-8"), options=pyromark.Options.ENABLE_GFM):
        pass


def check(texts: list[tuple[bytes, str]]) -> None:
    """A wrong answer has no speed: the chunks tile each document."""
    for raw, path in texts[:: max(len(texts) // 50, 1)]:
        done = process_document(raw, "bench", path=path)
        if b"".join(raw[slice(*chunk.span)] for chunk in done.chunks) != raw:
            raise SystemExit(f"the chunks do not tile {path}")


def disk_bytes(index: Path, left_out: str) -> int:
    return sum(
        path.stat().st_size
        for path in index.rglob("*")
        if path.is_file() and left_out not in path.name
    )


def update(index: CorpusIndex, top: Path, path: Path) -> float:
    """Seconds until a reader can have the newest generation."""
    began = time.perf_counter()
    index.update([Folder("dbconn", str(top))])
    Snapshot.open(path)
    return time.perf_counter() - began


def index_stage(rounds: int = ROUNDS) -> list[dict[str, object]]:
    builds = []
    with tempfile.TemporaryDirectory() as temp:
        top, path = Path(temp) / "text", Path(temp) / "index"
        shutil.copytree(SHARED / "data" / "dbconn", top, copy_function=shutil.copyfile)
        for place in (top, *top.rglob("*")):
            place.chmod(0o755)
        for _ in range(rounds):
            shutil.rmtree(path, ignore_errors=True)
            began = time.perf_counter()
            index = CorpusIndex.create(path)
            report = index.update([Folder("dbconn", str(top))])
            builds.append(time.perf_counter() - began)
            index.close()
        with CorpusIndex.open(path) as index:
            if problems := index.verify():
                raise SystemExit(f"the index is not whole: {problems[0]}")
            size = report.bytes_read
            share = disk_bytes(path, "segment-raw") / size
            pages = sorted(top.rglob("*.md"))
            one = []
            for number in range(9):
                pages[97 * number].write_bytes(
                    pages[97 * number].read_bytes() + b"\nOne more_word.\n"
                )
                one.append(update(index, top, path))
            for page in pages[50::100]:
                page.write_bytes(page.read_bytes() + b"\nAnother_word.\n")
            hundredth = update(index, top, path)
            if index.verify():
                raise SystemExit("the index is not whole after updates")
    best, common = min(builds), {"bytes": size, "files": report.added, "cores": os.cpu_count()}
    return [
        {"what": "whole index, fsync", "value": size / best / 1e6, "unit": "MB/s", **common},
        {"what": "index without raw text / text", "value": share, "unit": "x", **common},
        {
            "what": "one changed file of the corpus visible, p50",
            "value": 1000 * statistics.median(one),
            "unit": "ms (goal: 300)",
        },
        {
            "what": "one file in a hundred changed / full build",
            "value": 100 * hundredth / best,
            "unit": "% (goal: 5)",
        },
    ]


def staged(texts: list[tuple[bytes, str]], stage: str) -> dict[str, float]:
    """Seconds of each stage over all texts, the least of the rounds."""
    stages: dict[str, Callable[[bytes, str], object]] = {
        "pyromark, events with ranges only": events_alone,
        "parse, render, chunk": stage_parse,
    }
    if stage != "parse":
        stages["process without names"] = lambda raw, path: process_document(
            raw, "bench", path=path, facts=False
        )
        stages["process with names and relations"] = lambda raw, path: process_document(
            raw, "bench", path=path
        )
    best = dict.fromkeys(stages, float("inf"))
    for _ in range(ROUNDS):
        for name, run in stages.items():
            start = time.process_time()
            for raw, path in texts:
                run(raw, path)
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", choices=["parse", "process", "index", "all"], default="all")
    parser.add_argument("--share", type=int, default=4)
    options = parser.parse_args()
    if options.stage in ("index", "all"):
        for row in index_stage():
            print(json.dumps(row), flush=True)
    if options.stage == "index":
        return
    texts = documents(options.share)
    check(texts)
    size = sum(len(raw) for raw, _ in texts)
    best = staged(texts, options.stage)
    for name, seconds in best.items():
        row = {"what": name, "value": round(size / seconds / 1e6, 2), "unit": "MB/s"}
        print(json.dumps(row | {"bytes": size, "files": len(texts), "threads": 1}))


if __name__ == "__main__":
    main()
