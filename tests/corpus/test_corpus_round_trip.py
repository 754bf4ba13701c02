"""Spans of five kinds of texts, read back from the index on disk: raw bytes, text, raw bytes."""

from __future__ import annotations

import html
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from corpora import FULL, SMALL, count, files_of, more_texts
from corpus_checks import check_chunks, check_maps, check_sections
from gnomon.corpus import Corpus, CorpusIndex, Document, Documents, locate, rendered_at
from gnomon.corpus.assemble import Limits
from gnomon.corpus.toolset import answer_tool
from query_oracle import ANALYZER

ODD = ("👩‍👩‍👧", " 東京都の長い文。", " e\u0301a", "\u202ex\u202c", " &copy;")
INVALID = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f", b"\x80\x80")
Texts = list[tuple[str, bytes]]

JAVA = """package a.b.c%d;

/** The {@code max_pool_size} of a größe, 東京. */
public class Pool%d<T extends Base> extends Base%d implements Closeable, p.q.Other {
  private final String name = "wait_timeout\\u00e9 \\"quoted\\" class X extends Y {";
  // a comment about the connection
  public int take(long timeoutMillis) throws PoolError%d { return wait_for(timeoutMillis); }
}
"""


def markdown(shared: Path) -> Texts:
    return files_of(shared / "data" / "dbconn", ".md")[:: 1 if FULL else 150]


def rst(shared: Path) -> Texts:
    if FULL:
        found = files_of(more_texts("python3.11/html/_sources"), ".rst.txt")
        return [(path.removesuffix(".txt"), raw) for path, raw in found]
    return files_of(shared / "data" / "dbconn", ".rst")


def pages(shared: Path) -> Texts:
    """HTML; in CI paragraphs of the shared texts, with names behind references and tags."""
    if FULL:
        return files_of(more_texts("postgresql-doc-15/html"), ".html")
    made = []
    for path, raw in markdown(shared):
        lines = raw.decode().splitlines()
        shown = [
            html.escape(line).replace("_", "&#95;").replace("ed", "<b>ed</b>") for line in lines
        ]
        body = "\n".join(f"<p>{line}</p>" for line in shown if line.strip())
        made.append((f"{path}.html", f"<html><body><h1>T</h1>{body}</body></html>".encode()))
    return made


def java(shared: Path) -> Texts:
    if FULL:
        return files_of(more_texts("java/src/main"), ".java")
    return [(f"P{n}.java", (JAVA % (n, n, n, n)).encode()) for n in range(9)]


def odd(shared: Path) -> Texts:
    """CJK, CRLF, a byte order mark, emoji, UTF-16 and what is no UTF-8."""
    found = [("crlf.md", SMALL["crlf.md"].encode())]
    found += files_of(shared / "data" / "chunkdocs", ".txt")
    rng = random.Random(2)
    for path, raw in files_of(shared / "data" / "dbconn", ".md", 20_000)[:: 9 if FULL else 400]:
        lines = raw.decode().replace("\ufeff", "").split("\n")
        for place in rng.sample(range(len(lines)), min(len(lines), 9)):
            lines[place] += rng.choice(ODD)
        text = "\r\n".join(lines)
        broken = bytearray(text.encode())
        for _ in range(6):
            at = rng.randrange(len(broken) + 1)
            broken[at:at] = rng.choice(INVALID)
        found += [
            (f"bom/{path}", b"\xef\xbb\xbf" + text.encode()),
            (f"broken/{path}", bytes(broken)),
            (f"wide/{path}", text.encode("utf-16")),
        ]
    return found


class Stored(NamedTuple):
    """What the index holds of a document, under the names of a processed one."""

    document: Document
    sections: Any
    chunks: Any


def unescaped(raw: bytes, encoding: str) -> str:
    """The text that raw bytes show, by rules of thumb and none of the product's."""
    text = raw.decode(encoding.removesuffix("-sig"), "replace")
    text = re.sub(r"<[^>]*>|[\\*`~|]", "", text)
    return html.unescape(text)


def holds(term: str, text: str) -> bool:
    return term in ANALYZER.tokens(text) or term in text.casefold()


@pytest.mark.parametrize("texts", [markdown, rst, pages, java, odd], ids=lambda each: each.__name__)
def test_stored_spans_lead_to_text_and_back(texts: Any, shared: Path, tmp_path: Path) -> None:
    """Check 1: in five corpora all chunks and 100,000 spans of matches go to the text and back.

    What is compared is what the index holds: its chunks tile each document, and each span of a
    match lies in its chunk, shows the term, and is exactly the raw bytes of what it shows.
    """
    raws = dict(texts(shared))
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", list(raws.items()))])
        snapshot = index.snapshot()
    stored = {}
    for document in snapshot.documents():
        done: Any = Stored(
            document, snapshot.sections(document.id), snapshot.chunks_of(document.id)
        )
        check_sections(raws[document.path], done)
        check_chunks(raws[document.path], done, Limits())
        check_maps(raws[document.path], done)
        stored.update({chunk.id: (chunk, document.encoding) for chunk in done.chunks})
    assert len({document.path for document in snapshot.documents()}) == len(raws)
    corpus = Corpus.open(tmp_path / "x", cache_bytes=0)
    rng = random.Random(1)
    ids = list(stored)
    spans = tried = 0
    while spans < count(150, 20_000):
        tried += 1
        assert tried < 20_000, "the texts match nothing"
        terms = [t for t in ANALYZER.tokens(stored[rng.choice(ids)][0].text) if len(t) > 2]
        if not terms:
            continue
        term = rng.choice(terms)
        for item in corpus.hybrid_search(term, "exact", k=50, max_tokens=50_000, relax=False):
            chunk, encoding = stored[item.chunk_id]
            assert (item.span, item.excerpt in chunk.text) == (chunk.span, True)
            shown, base = chunk.text.encode(), chunk.span[0]
            for first, last in item.matches:
                spans += 1
                assert base <= first < last <= chunk.span[1]
                begin = rendered_at(chunk.raw_map, first - base)
                end = rendered_at(chunk.raw_map, last - base)
                assert locate(chunk.raw_map, begin, end) == (first - base, last - base)
                text = shown[begin:end].decode()
                assert holds(term, text), (item.path, term, text)
                raw = raws[item.path][first:last]
                assert holds(term, unescaped(raw, encoding)), (item.path, term, raw)
            for first, last in item.marks:
                assert holds(term, item.excerpt[first:last])
    print(f"{len(raws)} documents, {len(stored)} chunks, {spans} spans")


ESCAPED = re.compile(rb"(?<![\w\\])[A-Za-z]+(?:\\_[A-Za-z]+)+(?![\w\\])")


def precise(corpus: Corpus, name: str, wanted: set[str]) -> dict[str, list[tuple[int, int]]]:
    """Files that search_precise finds, page by page until it has those, with spans in them."""
    found: dict[str, list[tuple[int, int]]] = {}
    cursor = ""
    while not wanted <= found.keys():
        asked = {"query": name, "k": 50, "max_tokens": 8000, "cursor": cursor or None}
        answer = answer_tool(corpus, "search_precise", asked)
        for item in answer.items:
            if not item.relaxed:
                found.setdefault(item.path, []).extend(item.matches)
                for same in item.also:
                    found.setdefault(same.path, [])
        cursor = answer.report.cursor
        if not cursor:
            break
    return found


def test_names_that_stand_only_escaped_are_found(dbconn: Path, shared: Path) -> None:
    """Check 2: of 5,000 (name, file) pairs that are only written with escapes, search_precise finds
    the file for all, ripgrep for none.
    """
    corpus, top = Corpus.open(dbconn), shared / "data" / "dbconn"
    raws = {d.path: bytes(corpus.snapshot.raw(d.id)) for d in corpus.snapshot.documents()}
    pairs = sorted(
        (name.replace(b"\\", b"").decode(), path)
        for path, raw in raws.items()
        for name in set(ESCAPED.findall(raw))
        if name.replace(b"\\", b"").lower() not in raw.lower()
    )
    files: dict[str, set[str]] = {}
    for name, path in random.Random(3).sample(pairs, count(40, 5000)):
        files.setdefault(name, set()).add(path)
    program = shutil.which("rg")
    for name, wanted in files.items():
        found = precise(corpus, name, wanted)
        assert wanted <= found.keys(), name
        for path in wanted:
            for start, end in found[path]:
                shown = unescaped(raws[path][start:end], "utf-8")
                assert name.lower() in shown.lower(), (name, path)
        if program is not None:
            command = [program, "-i", "-F", "-l", "-e", name, "--", *sorted(wanted)]
            assert subprocess.run(command, cwd=top, capture_output=True, check=False).stdout == b""
    print(f"{len(pairs)} pairs, {len(files)} names of those that were taken")
