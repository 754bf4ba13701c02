"""The corpus of the shared tasks, indexed once: the documents of the tasks' evidence among others.

The whole of it takes half a minute and more to index. Without GNOMON_DBCONN (a folder with the
index of all of it, or the word "full", which GNOMON_CORPUS_FULL=1 stands for, too) the tests take
the pages that hold evidence and every 16th of the others.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from gnomon.corpus import Coverage, walk_sources
from gnomon.corpus.coordinator import CorpusIndex, Documents, Folder

SHARE = 16
SETTING = os.environ.get("GNOMON_DBCONN") or (
    "full" if os.environ.get("GNOMON_CORPUS_FULL") else ""
)
FULL = SETTING not in ("", "part")


def make(shared: Path, place: Path) -> Path:
    """The index; made at `place` unless GNOMON_DBCONN names one."""
    if FULL and SETTING != "full":
        return Path(SETTING)
    top = shared / "data" / "dbconn"
    index = CorpusIndex.create(place)
    try:
        if FULL:
            index.update([Folder("dbconn", top)])
        else:
            index.update([Documents("dbconn", _part(shared, top))])
    finally:
        index.close()
    return place


def _part(shared: Path, top: Path) -> list[tuple[str, bytes]]:
    gold = set()
    for line in (shared / "cases" / "corpus_tasks.jsonl").read_text("utf-8").splitlines():
        gold |= {quote["path"] for quote in json.loads(line)["evidence"]}
    kept = []
    for number, found in enumerate(walk_sources(top, Coverage())):
        if found.path in gold or number % SHARE == 0:
            kept.append((found.path, Path(found.place).read_bytes()))
    return kept
