"""Small corpora, edits of them, and what must be equal between a corpus and one built anew."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from gnomon.corpus import CorpusIndex, Documents, Snapshot, Source, to_json

WORDS = (
    *("max_allowed_packet", "timeout", "retry", "deadlock", "connection", "`wait_timeout`"),
    *("--skip-name", "error", "ER_LOCK_DEADLOCK", "1205", "server", "replica", "index", "query"),
)
ACLS = ((), ("public",), ("public", "staff"), ("staff",), ("ops",))


def page(rng: random.Random, number: int) -> bytes:
    """A page of Markdown that names things, links to other pages and has code."""
    lines = [f"# Page {number}", ""]
    for section in range(rng.randrange(1, 4)):
        lines += [f"## The `option_{rng.randrange(12)}` option", ""]
        lines.append(" ".join(rng.choice(WORDS) for _ in range(rng.randrange(4, 40))))
        lines += ["", f"See [page](page{rng.randrange(20)}.md#the-option_{section}-option).", ""]
        if rng.random() < 0.4:
            lines += ["```", f"SET max_allowed_packet={rng.randrange(99)};", "```", ""]
    return "\n".join(lines).encode()


def pages(seed: int, n: int) -> dict[str, bytes]:
    """`n` pages by path."""
    rng = random.Random(seed)
    return {f"docs/page{number}.md": page(rng, number) for number in range(n)}


def edited(given: dict[str, bytes], rng: random.Random, n: int | None = None) -> dict[str, bytes]:
    """The pages after `n` or a few random edits: changed, added, deleted, text in the middle."""
    now = dict(given)
    for _ in range(rng.randrange(1, 4) if n is None else n):
        what = rng.random()
        if what < 0.3 or not now:
            number = rng.randrange(1000)
            now[f"docs/page{number}.md"] = page(rng, number)
        elif what < 0.5:
            del now[rng.choice(sorted(now))]
        else:
            path = rng.choice(sorted(now))
            lines = now[path].split(b"\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(WORDS).encode() + b" added")
            now[path] = b"\n".join(lines)
    return now


def numbered(number: int) -> dict[str, bytes]:
    """Four pages that say of which generation they are."""
    return {f"{i}.md": b"# T%d\n\ngeneration g%d\n" % (i, number) for i in range(4)}


def put(index: CorpusIndex, given: dict[str, bytes], source: Any = "docs", **options: Any) -> Any:
    """Makes a source hold exactly these documents."""
    return index.update([Documents(source, list(given.items()))], **options)


def built(folder: Path, given: dict[str, bytes], source: Any = "docs", **options: Any) -> Snapshot:
    """A corpus made in one go."""
    with CorpusIndex.create(folder) as index:
        put(index, given, source, **options)
        return index.snapshot()


def by_acl(seed: int, n: int) -> list[Documents]:
    """Pages in sources of different access scopes."""
    rng = random.Random(seed)
    groups: dict[tuple[str, ...], list[tuple[str, bytes]]] = {acl: [] for acl in ACLS}
    for path, raw in pages(seed, n).items():
        groups[rng.choice(ACLS)].append((path, raw))
    return [
        Documents(Source(name=f"s{number}", acl=acl), documents)
        for number, (acl, documents) in enumerate(groups.items())
    ]


def embed(texts: list[str]) -> np.ndarray:
    """Vectors that depend on the text alone."""
    seeds = [int.from_bytes(text.encode()[-6:].rjust(6), "big") for text in texts]
    return np.array([np.random.default_rng(seed).normal(size=8) for seed in seeds], np.float32)


QUERIES = ["timeout retry", "max_allowed_packet", "page option_3", "deadlock 1205 server", "SET"]


def told(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot says, in a form that does not depend on how it came to be."""
    documents = list(snapshot.documents())
    every: dict[str, Any] = {"documents": [to_json(document) for document in documents]}
    nodes = set()
    for document in documents:
        every[f"chunks {document.id}"] = [to_json(c) for c in snapshot.chunks_of(document.id)]
        every[f"sections {document.id}"] = [to_json(s) for s in snapshot.sections(document.id)]
        every[f"raw {document.id}"] = bytes(snapshot.raw(document.id))
        nodes |= {f"section:{s.id}" for s in snapshot.sections(document.id)}
        nodes.add(f"doc:{document.id}")
        for chunk in snapshot.chunks_of(document.id):
            named = snapshot.graph.entities_of(chunk.id)
            nodes |= {node.key for node, _ in named}
            every[f"names {chunk.id}"] = [(node, to_json(where)) for node, where in named]
    for node in sorted(nodes):
        every[f"edges {node}"] = snapshot.graph.edges(node)
        every[f"degree {node}"] = snapshot.graph.degree(node)
        every[f"mentions {node}"] = snapshot.graph.mentions(node)
    every["types"] = snapshot.graph.entity_types(), snapshot.graph.relation_types()
    every["found"] = snapshot.graph.find_entities("option"), snapshot.graph.similar("optoin_3")
    stats = snapshot.stats()
    every["stats"] = {
        name: getattr(stats, name) for name in stats.__struct_fields__ if name != "generation"
    }
    for query in QUERIES:
        hits = snapshot.sparse.search(query, k=1000)
        ids = snapshot.ids_of(hits.ids)
        every[f"search {query}"] = sorted(zip(ids, hits.scores.tolist(), strict=True))
        every[f"count {query}"] = snapshot.sparse.count(query)
        grep = snapshot.grep(query.split()[0], literal=True)
        every[f"grep {query}"] = grep.lines, grep.total_matches, grep.documents
    if snapshot.dense is not None:
        hits = snapshot.dense.search(embed(["timeout"])[0], k=None)
        ids = snapshot.ids_of(hits.ids)
        every["dense"] = sorted(zip(ids, hits.scores.tolist(), strict=True))
    return every
