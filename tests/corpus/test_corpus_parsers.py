"""No file makes a parser fail; where one fails all the same, plain text takes over, as is said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from corpora import FULL, Corpus, count, files_of, more_texts
from gnomon.corpus import CorpusIndex, Documents, process_document
from gnomon.corpus import process as process_module
from gnomon.corpus.builder import Parsed

LARGEST = 4 << 20
REFUSED = "nests too deeply"  # told before a parser would be too deep in what is not of its kind


def processed(raw: bytes, path: str, kind: str | None = None) -> None:
    done = process_document(raw, "docs", kind, path=path)
    why = done.report.fallback
    assert not why or (kind and why.endswith(REFUSED)), (path, kind, why)
    assert b"".join(raw[slice(*chunk.span)] for chunk in done.chunks) == raw


def damaged(raw: bytes, other: bytes, rng: random.Random) -> bytes:
    """Cut off, with bytes lost, with bytes of no meaning, or with a piece of another file in it."""
    at, to = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    what = rng.randrange(4)
    if what == 0:
        return raw[:at]
    if what == 1:
        return raw[:at] + raw[min(to, at + 200) :]
    if what == 2:
        return raw[:at] + rng.randbytes(rng.randrange(1, 40)) + raw[at:]
    begin = rng.randrange(len(other) + 1)
    return raw[:at] + other[begin : begin + 500] + raw[at:]


def test_no_file_of_the_shared_corpus_makes_a_parser_fail(shared: Path) -> None:
    """Check 19: the files as they are, and damaged ones by their own parser and by any other."""
    files = files_of(shared / "data" / "dbconn", most=LARGEST)[:: 1 if FULL else 50]
    rng = random.Random(19)
    small = [(path, raw) for path, raw in files if len(raw) < 20_000]
    for path, raw in files:
        processed(raw, path)
    for path, raw in small[:: count(6, 2)]:
        wrong = damaged(raw, rng.choice(small)[1], rng)
        processed(wrong, path)
        processed(wrong, path, rng.choice(sorted(process_module.PARSERS)))


@pytest.mark.skipif(not FULL, reason="takes minutes; set GNOMON_CORPUS_FULL=1")
@pytest.mark.parametrize(
    "name",
    [
        "python3.11/html/_sources",
        "postgresql-doc-15/html",
        "java/src/main",
        "python-pandas-doc/html",
        "rust-doc/html",
    ],
)
def test_no_file_of_other_documentation_makes_a_parser_fail(name: str) -> None:
    """Check 19: 32,000 pages of rust-doc and pandas, and others."""
    top, n = more_texts(name), 0
    rng = random.Random(19)
    before = b""
    for place in sorted(top.rglob("*")):
        path = place.relative_to(top).as_posix().removesuffix(".txt")
        if place.is_file() and place.suffix in (".html", ".txt", ".java", ".ipynb", ".rst"):
            raw = place.read_bytes()
            if len(raw) <= LARGEST:
                processed(raw, path)
                n += 1
                if n % 20 == 0:
                    processed(damaged(raw[:50_000], before, rng), path)
                before = raw[:50_000]
    print(f"{name}: {n} files")
    assert n > 400


def test_a_parser_that_fails_is_listed_and_its_file_is_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check 19: the report of an update lists each file whose parser failed; it is indexed."""

    class PanicError(BaseException):
        """As compiled parsers raise."""

    def broken(data: bytes, start: int) -> Parsed:
        raise PanicError("index out of bounds")

    monkeypatch.setitem(process_module.PARSERS, "html", broken)
    texts = [("a.html", b"<p>zebra_option <b>is</b> 3</p>"), ("b.txt", b"zebra_option too")]
    with CorpusIndex.create(tmp_path / "x") as index:
        report = index.update([Documents("docs", texts)], jobs=1)
        assert report.fallbacks == [("a.html", "html: PanicError: index out of bounds")]
        assert report.added == 2
    answer = Corpus.open(tmp_path / "x").hybrid_search("zebra_option", "exact")
    assert {item.path for item in answer} == {"a.html", "b.txt"}
    assert answer.items[0].excerpt.startswith(("<p>", "zebra"))
