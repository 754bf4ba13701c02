"""Corpora for the tests of questions: a small one by hand, a sample of the shared one.

GNOMON_CORPUS_FULL=1 asks for the counts of the acceptance checks (see README.md beside this file).
Some of them need more texts than the shared ones: folders below GNOMON_TEXTS or /usr/share/doc.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gnomon.corpus import (
    Answer,
    Corpus,
    CorpusIndex,
    Coverage,
    ProcessedDocument,
    Source,
    process_document,
    walk_sources,
)
from gnomon.corpus import Documents as Texts
from gnomon.corpus.query_compile import Compiler
from gnomon.corpus.query_parse import parse
from memory_snapshot import MemorySnapshot

SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[2].parent / "shared")
DBCONN = SHARED / "data" / "dbconn"
FULL = bool(os.environ.get("GNOMON_CORPUS_FULL"))
MORE = [Path(top) for top in (os.environ.get("GNOMON_TEXTS", ""), "/usr/share/doc") if top]
PACKAGES = {
    "python3.11/html/_sources": "Debian's python3.11-doc",
    "postgresql-doc-15/html": "Debian's postgresql-doc-15",
    "rust-doc/html": "Debian's rust-doc",
    "python-pandas-doc/html": "Debian's python-pandas-doc",
    "java/src/main": "the sources of mysql/mysql-connector-j on GitHub, in GNOMON_TEXTS/java",
    "release-notes": "the release notes of mariadb-corporation/mariadb-docs, in GNOMON_TEXTS",
}

Documents = list[tuple[ProcessedDocument, bytes, Source]]

SMALL = {
    "docs/setup.md": (
        "# Setup\n\nSet `max\\_allowed\\_packet` to 3. Use std::vector or root'@'localhost.\n\n"
        "## Timeouts\n\nThe wait_timeout option; see [errors](errors.md). Größe, 東京 and ﬁsh.\n\n"
        "```sql\nSET GLOBAL max_allowed_packet=16M;\n```\n\n### Sub\n\nbelow timeouts\n"
    ),
    "docs/errors.md": (
        "# Errors\n\n## Error 1153\n\nER_NET_PACKET_TOO_LARGE: got a packet bigger than "
        "max_allowed_packet bytes.\n\n### Causes\n\nA packet &amp; too big.\n\n"
        "## Public Key Retrieval is not allowed\n\nSet allowPublicKeyRetrieval=true. A malicious "
        "proxy may do a MITM attack.\n"
    ),
    "src/Pool.java": (
        "package a.b;\n\n/** A pool of connections. */\npublic class Pool extends Base {\n"
        "  /** Waits for a free one. */\n  public int take(long timeout) throws PoolError {\n"
        "    return wait_for(timeout);\n  }\n}\n"
    ),
    "CHANGES": "Version 8.0.13\n\n  - Fixed Bug#123, wait_timeout.\n\nVersion 8.0.9\n\n  - New.\n",
    "crlf.md": "\ufeff# Head\r\n\r\nLine max\\_size one\r\nand two 👩‍👩‍👧 emoji\r\n",
}


def count(few: int, full: int, variable: str = "") -> int:
    """How many: `few`, with GNOMON_CORPUS_FULL `full`, or what the environment variable says."""
    given = os.environ.get(variable) if variable else None
    return int(given) if given else full if FULL else few


def more_texts(name: str) -> Path:
    """The folder of one of PACKAGES; skips the test where it is not installed."""
    for top in MORE:
        if (top / name).is_dir():
            return top / name
    pytest.skip(f"no {name} below GNOMON_TEXTS or /usr/share/doc: it comes from {PACKAGES[name]}")


def files_of(top: Path, ends: str = "", most: int = 1 << 40) -> list[tuple[str, bytes]]:
    """Files below a folder by path, those whose name ends so and that are not larger."""
    found = [each for each in walk_sources(top, Coverage()) if each.path.endswith(ends)]
    return [(each.path, Path(each.place).read_bytes()) for each in found if each.size <= most]


def small(acl: Sequence[tuple[str, ...]] = ()) -> Documents:
    """The small corpus; document i may be read by ``acl[i]``."""
    found: Documents = []
    for i, (path, text) in enumerate(SMALL.items()):
        source = Source(name="hand", acl=acl[i] if i < len(acl) else ())
        raw = text.encode()
        found.append((process_document(raw, source, path=path), raw, source))
    return found


@functools.cache
def sample(stride: int, most: int = 40_000) -> Documents:
    """Every so many-th file of the shared corpus that is not large."""
    if not DBCONN.is_dir():
        pytest.skip("needs the shared corpus")
    source = Source(name="dbconn")
    found: Documents = []
    files = [each for each in walk_sources(DBCONN, Coverage()) if each.size <= most]
    for file in files[::stride]:
        raw = Path(file.place).read_bytes()
        found.append((process_document(raw, source, path=file.path), raw, source))
    return found


def embed(texts: list[str]) -> Any:
    """A plain embedder: words hashed into 64 dimensions."""
    rows = np.zeros((len(texts), 64), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        row[0] = 1e-3
        for word in text.casefold().split():
            row[sum(word.encode()) % 64] += 1.0
    return rows


def corpus_of(documents: Documents, **options: Any) -> Corpus:
    """A corpus in memory, whose clock stands still."""
    snapshot = MemorySnapshot(documents, embedder=options.get("embedder"))
    return Corpus.of(snapshot, clock=lambda: 1_800_000_000.0, **options)


def pages(ask: Any, **args: Any) -> list[Answer]:
    """Every page of a question."""
    answers = [ask(**args)]
    while answers[-1].report.cursor:
        answers.append(ask(**{**args, "cursor": answers[-1].report.cursor}))
    return answers


def all_ids(answers: Sequence[Answer]) -> list[str]:
    """The chunks of all pages, in order."""
    return [item.chunk_id for answer in answers for item in answer.items]


def found(corpus: Corpus, text: str, paged: int | None = None) -> tuple[list[str], int]:
    """The chunks of an exact search, and the number that the report tells.

    Those of every page, of 1000 each. With `paged` a page has so many, and where more are told the
    first must begin what the engine answers as a whole: each page costs what the whole search does.
    """
    answers = pages(
        corpus.hybrid_search,
        query=text, mode="exact", relax=False, detail="ids", k=1000, max_tokens=100_000,
    ) if paged is None else [
        corpus.hybrid_search(
            text, "exact", relax=False, detail="ids", k=paged, max_tokens=100_000
        )
    ]  # fmt: skip
    report, shown = answers[0].report, all_ids(answers)
    assert report.exhaustive
    if not report.cursor or paged is None:
        return shown, report.total
    engine = corpus._shared.engine(None)
    query = Compiler(engine.slots).query(parse(text, "and").node)
    assert query is not None
    tree = engine.slots.plan(query)
    slots, _, total = engine.slots.answer(tree, report.total + 1, None)
    assert total == report.total > len(shown) > 0
    ids = engine.snapshot.ids_of(engine.slots.cids(slots))
    assert shown == ids[: len(shown)]
    return ids, total


def stored(documents: Documents, place: Path, **options: Any) -> Corpus:
    """A corpus on disk with these documents, whose clock stands still."""
    by_source: dict[str, list[tuple[str, bytes]]] = {}
    sources = {source.name: source for _, _, source in documents}
    for done, raw, source in documents:
        by_source.setdefault(source.name, []).append((done.document.path, raw))
    with CorpusIndex.create(place) as index:
        index.update(
            [Texts(sources[name], texts) for name, texts in by_source.items()],
            embedder=options.get("embedder"),
        )
    return Corpus.open(place, clock=lambda: 1_800_000_000.0, **options)
