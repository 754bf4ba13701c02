"""Other searches on the same tasks: one shot of SQLite's FTS5 or tantivy, and ripgrep with reading.

The one-shot peers search the very chunks of the corpus, their rendered text, with the whole
question as a query of OR; what they show is the raw span and the text of each chunk. `ripgrep`
searches the files for the question's words and reads around the lines of the best files, as an
agent with a shell does: it sees raw text.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .eval_questions import read_question, words
from .eval_tasks import Passage, Task
from .eval_world import Policy, Turn, World
from .tool_answers import tokens_of

TOP = 10
LISTED, LINE_BYTES, READ_LINES = 30, 2000, 60


class Peer(NamedTuple):
    """A policy and, where it cannot run, the reason."""

    policy: Policy | None
    reason: str = ""


class Row(NamedTuple):
    """A chunk as peers index it."""

    path: str
    start: int
    end: int
    text: str


def one_shot(search: Any, rows: list[Row], top: int = TOP) -> Policy:
    """The policy that shows the first `top` chunks which ``search(query, top)`` gives."""

    def policy(task: Task, world: World) -> bool:
        passages = tuple(
            Passage(row.path, row.start, row.end, row.text, id=str(number))
            for number in search(task.question, top)
            for row in [rows[number]]
        )
        world.record(_turn("one_shot", {"query": task.question}, passages))
        return bool(passages)

    return policy


def _turn(tool: str, arguments: dict[str, Any], passages: tuple[Passage, ...]) -> Turn:
    costs = tuple(
        tokens_of({"path": p.path, "span": [p.start, p.end], "text": p.text}) for p in passages
    )
    return Turn(tool, arguments, passages, sum(costs), costs)


def fts5(rows: list[Row]) -> Peer:
    """SQLite's FTS5: unicode61 tokens, its own bm25, all words of the question joined by OR."""
    base = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        base.execute("CREATE VIRTUAL TABLE chunk USING fts5(text, content='')")
    except sqlite3.OperationalError as error:
        return Peer(None, f"this SQLite has no FTS5 ({error})")
    base.executemany(
        "INSERT INTO chunk(rowid, text) VALUES (?, ?)",
        ((number, row.text) for number, row in enumerate(rows)),
    )

    def search(query: str, top: int) -> list[int]:
        found = dict.fromkeys(re.findall(r"\w+", query))
        asked = " OR ".join(f'"{word}"' for word in found)
        sql = "SELECT rowid FROM chunk WHERE chunk MATCH ? ORDER BY bm25(chunk), rowid LIMIT ?"
        return [number for (number,) in base.execute(sql, (asked, top))] if asked else []

    return Peer(one_shot(search, rows))


def tantivy(rows: list[Row]) -> Peer:
    """The default tokenizer of tantivy and BM25, the words of the question joined by OR."""
    try:
        import tantivy as engine
    except ImportError:
        return Peer(None, "tantivy is not installed")
    builder = engine.SchemaBuilder()
    builder.add_text_field("text", stored=False)
    builder.add_unsigned_field("row", stored=True)
    index = engine.Index(builder.build())
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    for number, row in enumerate(rows):
        writer.add_document(engine.Document(text=row.text, row=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()

    def search(query: str, top: int) -> list[int]:
        asked = " ".join(dict.fromkeys(re.findall(r"\w+", query)))
        parsed, _ = index.parse_query_lenient(asked, ["text"])
        searcher = index.searcher()
        return [searcher.doc(address)["row"][0] for _, address in searcher.search(parsed, top).hits]

    return Peer(one_shot(search, rows))


def ripgrep(top: str | os.PathLike[str] | None) -> Peer:
    """`rg` for the question's names and words, then reading: first all files that hold them, then
    the best ones around their best lines, until the calls are used up.

    A file's worth is the sum over the words that it holds of log(files / files with the word).
    """
    program = shutil.which("rg")
    if program is None:
        return Peer(None, "ripgrep (rg) is not installed")
    if top is None:
        return Peer(None, "the folder of the files was not given")
    place = Path(top)

    def policy(task: Task, world: World) -> bool:
        asked = read_question(task.question)
        wanted = list(dict.fromkeys([*asked.quoted, *asked.errors, *asked.names, *asked.words]))
        best = _best_lines(program, place, wanted)
        world.calls_left -= 1
        listing = tuple(
            Passage(path, line.at, line.at + len(line.raw), line.raw.decode("utf-8", "replace"))
            for path, line in best
        )
        world.record(_turn("rg", {"patterns": wanted}, listing))
        for path, line in best[: world.calls_left]:
            world.calls_left -= 1
            room = world.answer_tokens * 4
            read = _around(place, path, line.number, room)
            world.record(_turn("read", {"path": path}, (read,)))
        return bool(listing)

    return Peer(policy)


class _Line(NamedTuple):
    at: int
    number: int
    raw: bytes
    words: frozenset[str]


def _best_lines(program: str, place: Path, wanted: list[str]) -> list[tuple[str, _Line]]:
    """The best line of each of the best files, best file first."""
    files = {word: _files(program, place, word) for word in wanted}
    everything = set().union(*files.values(), set())
    rare = {
        word: math.log((1 + len(everything)) / len(held)) for word, held in files.items() if held
    }
    worth = dict.fromkeys(everything, 0.0)
    for word, weight in rare.items():
        for path in files[word]:
            worth[path] += weight
    best = sorted(everything, key=lambda path: (-worth[path], path))[:LISTED]
    lines = _lines(program, place, list(rare), best)

    def merit(line: _Line) -> tuple[float, int]:
        return sum(rare[word] for word in sorted(line.words)), -line.number

    return [(path, max(lines[path], key=merit)) for path in best if lines.get(path)]


def _files(program: str, place: Path, word: str) -> set[str]:
    command = [program, "-l", "-i", "-F", "-e", word, "."]
    done = subprocess.run(command, cwd=place, capture_output=True, check=False)
    return {os.fsdecode(line).removeprefix("./") for line in done.stdout.splitlines()}


def _lines(
    program: str, place: Path, wanted: list[str], paths: list[str]
) -> dict[str, list[_Line]]:
    """The lines of each file that hold a word, without regard to case."""
    if not wanted or not paths:
        return {}
    command = [program, "--json", "-i", "-F"]
    for word in wanted:
        command += ["-e", word]
    done = subprocess.run([*command, "--", *paths], cwd=place, capture_output=True, check=False)
    folded = [(word, word.casefold()) for word in wanted]
    found: dict[str, list[_Line]] = {}
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["type"] != "match" or "text" not in event["data"]["lines"]:
            continue
        data, text = event["data"], event["data"]["lines"]["text"]
        low = text.casefold()
        held = frozenset(word for word, fold in folded if fold in low)
        found.setdefault(data["path"]["text"], []).append(
            _Line(data["absolute_offset"], data["line_number"], text.encode()[:LINE_BYTES], held)
        )
    return found


def _around(place: Path, path: str, number: int, room: int) -> Passage:
    """The lines around one, as many as fit."""
    raw = (place / path).read_bytes().splitlines(keepends=True)
    first = max(number - 1 - READ_LINES // 2, 0)
    start = sum(map(len, raw[:first]))
    text = b"".join(raw[first : first + READ_LINES])[:room]
    return Passage(path, start, start + len(text), text.decode("utf-8", "replace"))


def rows_of(chunks: Iterable[tuple[str, Any]]) -> list[Row]:
    """Peers' rows of (path, chunk) pairs; empty chunks are left out."""
    return [
        Row(path, chunk.span[0], chunk.span[1], chunk.text)
        for path, chunk in chunks
        if words(chunk.text)
    ]
