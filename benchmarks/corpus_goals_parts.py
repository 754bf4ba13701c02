"""Goals 6 to 10 of the corpus: hybrid search, navigation, opening, updates, MCP."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import bench_corpus
import numpy as np
from bench_corpus_questions import SHARED, Words, queries
from corpus_rows import interleaved, late, middle, row
from gnomon.corpus import Corpus, CorpusIndex, Folder
from gnomon.corpus.mcp_server import mcp_server
from gnomon.corpus.toolset import call_tool

DIM, NEAREST = 384, 50
TEXT = SHARED / "data" / "dbconn"


def unit_vectors(texts: list[str]) -> Any:
    """Random vectors of length 1, the same for the same texts in the same order."""
    rows = np.random.default_rng(len(texts)).standard_normal((len(texts), DIM), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def goal_6(index: Path, given: dict[str, list[str]]) -> None:
    """Hybrid search with MMR, the question's vector given; the dense part beside numpy."""
    asked = given["question of 30 words"]
    vectors = dict(zip(asked, unit_vectors(asked), strict=True))
    corpus = Corpus.open(
        index, cache_bytes=0, embedder=lambda texts: np.stack([vectors[text] for text in texts])
    )
    dense = corpus.snapshot.dense
    if dense is None:
        raise SystemExit("the corpus has no vectors")
    state = dense._state
    rows = np.concatenate([np.asarray(each.core.vectors) for each in state.segments])
    wide = rows.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    places = {int(cid): place[1] for cid, place in state.places.items()}
    for text in asked[:10]:
        cosines = wide @ vectors[text].astype(np.float64)
        best = np.lexsort((np.arange(len(cosines)), -cosines))[:NEAREST]
        own = [places[int(cid)] for cid in dense.search(vectors[text], NEAREST).ids]
        if len(state.segments) == 1 and own != best.tolist():
            raise SystemExit("the nearest vectors are not those of float64")
    del wide

    def brute(text: str) -> Any:
        cosines = rows @ vectors[text]
        best = np.argpartition(-cosines, NEAREST)[:NEAREST]
        return best[np.argsort(-cosines[best])]

    def hybrid(text: str) -> Any:
        return corpus.hybrid_search(text, mode="hybrid", mmr=0.3)

    found = interleaved({
        "hybrid_search, RRF, MMR of 50": (hybrid, asked),
        "dense part, exact, all cores": (lambda text: dense.search(vectors[text], NEAREST), asked),
        "numpy, float32 brute force, all cores": (brute, asked),
    })  # fmt: skip
    said = f"{len(rows):,} random vectors of {DIM} numbers"
    for name, times in found.items():
        limit = ("<=", 25.0) if name.startswith("hybrid") else None
        row(6, f"{name}, p95", late(times), "ms", limit, p50=round(middle(times), 3), vectors=said)


def goal_7(corpus: Corpus, words: Words, n: int, million: bool) -> None:
    """Steps from names, what two names have to do with each other, reading."""
    names = [words.rng.choice(words.names) for _ in range(n)]
    pairs = [words.pair() for _ in range(n)]
    ids = [item.chunk_id for name in names[:n] for item in corpus.hybrid_search(name, k=1)]
    documents = [f"doc:{each.id}" for each in list(corpus.snapshot.documents())[:n]]
    graph = corpus.snapshot.graph
    keys = [found[0].key for name in names if (found := graph.find_entities(name, limit=1))]
    for name in names[:20]:
        steps = corpus.navigate(name, relation="co-occurs", k=100, max_tokens=50_000)
        edges = {key for node in graph.find_entities(name) for key in _others(graph, node.key)}
        if not {item.edge.target for item in steps if item.edge} <= edges | _keys(graph, name):
            raise SystemExit(f"navigate from {name!r} goes where no edge leads")
    runs: dict[str, tuple[Any, Any, Any]] = {
        "navigate, 1 hop": (corpus.navigate, names, ("<=", 0.2)),
        "navigate, 2 hops": (lambda name: corpus.navigate(name, depth=2), names, ("<=", 1.0)),
        "graph: edges of an entity": (lambda key: graph.edges(key, limit=10), keys, None),
        "read a passage": (corpus.read, ids, ("<=", 0.5)),
        "outline of a document": (corpus.outline, documents, ("<=", 0.5)),
    }
    size = "1M" if million else "75k"
    for what, (run, given, limit) in runs.items():
        limit = None if million else limit  # the goals are those of 75,000 passages
        times = interleaved({what: (run, given)})[what]
        row(
            7,
            f"{what} at {size}, p50",
            middle(times),
            "ms",
            limit,
            p95=round(late(times), 3),
            n=len(times),
        )
    fresh = Corpus.open(corpus.snapshot.path, cache_bytes=0)
    others = [name for name in words.names if name not in names]
    for depth in (1, 2):
        for name in others[:3]:  # what belongs to no name is read by them
            fresh.navigate(name, depth=depth)
        times = []
        for name in names:
            began = time.perf_counter()
            fresh.navigate(name, depth=depth)
            times.append((time.perf_counter() - began) * 1000)
        what = f"navigate, depth {depth} at {size}, each name asked once, p50"
        row(7, what, middle(times), "ms", p95=round(late(times), 3), n=len(times))
    ask = {"verify": (lambda pair: corpus.verify_hypothesis(*pair), pairs)}
    times = interleaved(ask)["verify"]
    p50 = round(middle(times), 3)
    limit = None if million else ("<=", 5.0)
    row(7, f"verify_hypothesis in a section at {size}, p95", late(times), "ms", limit, p50=p50)


def _others(graph: Any, key: str) -> set[str]:
    return {end for edge in graph.edges(key, "co-occurs") for end in (edge.source, edge.target)}


def _keys(graph: Any, name: str) -> set[str]:
    return {node.key for node in graph.find_entities(name)}


_CHILD = """
import json, sys, time
from gnomon.corpus import Corpus
def memory():
    lines = open("/proc/self/status").read().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {name: int(found[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon")}
before = memory()
began = time.perf_counter()
corpus = Corpus.open(sys.argv[1])
took = (time.perf_counter() - began) * 1000
opened = memory()
first = time.perf_counter()
corpus.hybrid_search("first")
first = (time.perf_counter() - first) * 1000
asked = memory()
sessions = [corpus.session(store=":memory:") for _ in range(8)]
for number, session in enumerate(sessions):
    session.hybrid_search(sys.argv[2 + number])
print(json.dumps([took, first, before, opened, asked, memory()]))
"""


def goal_8(index: Path, million: bool) -> None:
    """Opening, in a process of its own each time, and what it keeps in memory."""
    size = "1M" if million else "75k"
    asked = ["server", "timeout", "password", "table", "error", "option", "plugin", "replica"]
    found = []
    for _ in range(5):
        command = [sys.executable, "-c", _CHILD, str(index), *asked]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout))
    limit = ("<=", 100.0) if million else None
    row(8, f"open at {size}, p50", middle([each[0] for each in found]), "ms", limit)
    row(8, f"first question at {size}, p50", middle([each[1] for each in found]), "ms")
    _, _, before, opened, one, eight = found[0]
    bound = ("<=", 200.0) if million else None
    row(8, f"memory of the opened index at {size}", opened["VmRSS"], "MB", bound, **opened)
    row(8, "memory of a process that has imported gnomon.corpus", before["VmRSS"], "MB", **before)
    row(8, f"memory behind the first question at {size}", one["VmRSS"], "MB", **one)
    row(8, f"memory behind 8 sessions at {size}", eight["VmRSS"], "MB", **eight)


def goal_9(place: Path) -> None:
    """Changes become visible; questions meanwhile."""
    for each in bench_corpus.index_stage(rounds=2):
        what, value, unit = str(each["what"]), float(each["value"]), str(each["unit"])  # type: ignore[arg-type]
        if "goal" in unit:
            row(9, what, value, unit.split()[0], ("<=", 300.0 if unit.startswith("ms") else 5.0))
    top, index = place / "changing", place / "changing.corpus"
    shutil.copytree(TEXT, top, copy_function=shutil.copyfile)
    for path in (top, *top.rglob("*")):
        path.chmod(0o755)
    with CorpusIndex.create(index) as making:
        making.update([Folder("dbconn", str(top))])
    corpus = Corpus.open(index, cache_bytes=0)
    asked = [each for texts in queries(Words(corpus, 9), 20).values() for each in texts]
    idle = _asked(corpus, asked, 4.0, 0)
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    turns = spawn.Value("i", 0)
    writer = spawn.Process(target=keep_changing, args=(index, top, stop, turns))
    writer.start()
    while turns.value == 0 and writer.is_alive():
        time.sleep(0.05)
    busy = _asked(corpus, asked, 6.0, 50)
    stop.set()
    writer.join()
    if writer.exitcode or turns.value < 3:
        raise SystemExit("the writer did not write")
    p95 = round(late(idle), 3), round(late(busy), 3)
    more = {"idle": p95[0], "while updating": p95[1], "updates": turns.value, "n": len(busy)}
    row(9, "p95 of questions while updating / idle", p95[1] / p95[0], "x", ("<=", 3.0), **more)


def keep_changing(index: Path, top: Path, stop: Any, turns: Any) -> None:
    """One page in a hundred gets a line, again and again."""
    pages = sorted(top.rglob("*.md"))
    with CorpusIndex.open(index) as writer:
        for turn in cycle(range(100)):
            if stop.is_set():
                return
            for page in pages[turn::100]:
                page.write_bytes(page.read_bytes() + b"\nOne more_word.\n")
            writer.update([Folder("dbconn", str(top))])
            turns.value += 1


def _asked(corpus: Corpus, asked: list[str], seconds: float, refresh: int) -> list[float]:
    """Times of questions, whole answers; the newest generation every so many of them."""
    times: list[float] = []
    for text in asked:
        corpus.hybrid_search(text)
    until = time.perf_counter() + seconds
    for number, text in enumerate(cycle(asked)):
        if refresh and number % refresh == 0:
            corpus.refresh()
        began = time.perf_counter()
        corpus.hybrid_search(text)
        times.append((time.perf_counter() - began) * 1000)
        if time.perf_counter() > until:
            return times
    return times


def goal_10(corpus: Corpus, names: list[str]) -> None:
    """A call of a tool by the official client in memory, the same call without it, a bare tool."""
    from mcp import Client, types
    from mcp.server import lowlevel

    listed = types.Tool(name="bare", input_schema={"type": "object"})

    async def list_tools(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[listed])

    async def call(context: Any, params: Any) -> Any:
        return types.CallToolResult(content=[types.TextContent(type="text", text="{}")])

    bare = lowlevel.Server("bare", on_list_tools=list_tools, on_call_tool=call)
    tool = "search_precise"
    asked = [{"query": name} for name in names]

    async def main() -> dict[str, list[float]]:
        best = {name: [float("inf")] * len(asked) for name in ("client", "call", "bare")}
        async with Client(mcp_server(corpus)) as client, Client(bare) as other:
            for _ in range(3):
                for i, given in enumerate(asked):
                    marks = [time.perf_counter()]
                    result = await client.call_tool(tool, given)
                    marks.append(time.perf_counter())
                    same = call_tool(corpus, tool, given)
                    marks.append(time.perf_counter())
                    await other.call_tool("bare", {})
                    marks.append(time.perf_counter())
                    found = result.structured_content["evidence"]
                    if not found or [e["id"] for e in found] != [e["id"] for e in same["evidence"]]:
                        raise SystemExit(f"{given}: the client got another answer")
                    for at, name in enumerate(best):
                        took = (marks[at + 1] - marks[at]) * 1000
                        best[name][i] = min(best[name][i], took)
        return best

    found = asyncio.run(main())
    over = [one - two for one, two in zip(found["client"], found["call"], strict=True)]
    row(10, "MCP in memory over the API call, p50", middle(over), "ms", ("<=", 3.0),
        client=round(middle(found["client"]), 3), call=round(middle(found["call"]), 3))  # fmt: skip
    row(10, "a bare tool of the SDK, p50", middle(found["bare"]), "ms")
