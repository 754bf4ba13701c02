"""How fast documents are processed, stage by stage, beside the Markdown parser alone.

bench_corpus.py --stage parse|process|all [--share N]

`parse` is parse + render + cut into chunks, `process` adds ids, lines, characters and structs, and
in a row of its own names and relations. The texts are the Markdown files of the shared corpus
(GNOMON_SHARED); with --share N every N-th of them. One thread, process time, minimum of the rounds;
the stages and the parser's bare events are interleaved round by round.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from gnomon.corpus import Coverage, process_document, walk_sources
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", choices=["parse", "process", "all"], default="all")
    parser.add_argument("--share", type=int, default=4)
    options = parser.parse_args()
    texts = documents(options.share)
    check(texts)
    stages: dict[str, Callable[[bytes, str], object]] = {
        "pyromark, events with ranges only": events_alone,
        "parse, render, chunk": stage_parse,
    }
    if options.stage != "parse":
        stages["process without names"] = lambda raw, path: process_document(
            raw, "bench", path=path, facts=False
        )
        stages["process with names and relations"] = lambda raw, path: process_document(
            raw, "bench", path=path
        )
    size = sum(len(raw) for raw, _ in texts)
    best = dict.fromkeys(stages, float("inf"))
    for _ in range(ROUNDS):
        for name, run in stages.items():
            start = time.process_time()
            for raw, path in texts:
                run(raw, path)
            best[name] = min(best[name], time.process_time() - start)
    for name, seconds in best.items():
        row = {"what": name, "value": round(size / seconds / 1e6, 2), "unit": "MB/s"}
        print(json.dumps(row | {"bytes": size, "files": len(texts), "threads": 1}))


if __name__ == "__main__":
    main()
