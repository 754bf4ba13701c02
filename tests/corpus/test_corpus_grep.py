"""Search for lines equals ripgrep's, and misses nothing that a plain scan finds."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from corpora import count
from gnomon.corpus import CorpusIndex, Documents, Folder, Snapshot, grep, grep_scan
from gnomon.corpus.literals import EVERYTHING, required_literals
from gnomon.corpus.perl_classes import unicode_classes
from gnomon.reference.trigram import trigram_fold
from hypothesis import example, given
from hypothesis import strategies as st

re2 = pytest.importorskip("re2", reason="google-re2 (gnomon[corpus]) is not installed")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "dbconn"
PATTERNS = count(40, 500, "GNOMON_PATTERNS")

PIECES = st.sampled_from(
    [
        r"a",
        r"b",
        r"K",
        r"s",
        r"max",
        r"é",
        r".",
        r"\w",
        r"\d+",
        r"[ab]",
        r"[^x]",
        r"[a-f0-9]",
        r"\b",
        r"^",
        r"$",
        r"\x41",
        r"\x{e9}",
        r"\.",
        r"\Qa.b\E",
        r"(?i)",
        r"(?:x)",
        r"\pL",
        r"[[:alpha:]]",
        r"[\d-]",
    ]
)
REGEX = st.recursive(
    PIECES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=5).map("".join)
        | st.tuples(inner, inner).map(lambda p: f"({p[0]}|{p[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,1}", "{1,}", "+?"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        )
        | inner.map(lambda p: f"(?i:{p})")
    ),
    max_leaves=14,
)


def satisfied(tree, text: bytes) -> bool:
    if isinstance(tree, bytes):
        return trigram_fold(tree) in trigram_fold(text)
    kind, parts = tree
    return (all if kind == "all" else any)(satisfied(part, text) for part in parts)


@given(REGEX, st.text("abKksſ\u212amax é.xA10-", max_size=30))
@example("(?i)k", "\u212a")
@example("(?i)maſ", "MAS")
@example("(max|s)(?i)é|x", "É")
@example("a{0}b", "b")
@example("(?:max)?K", "K")
@example("[^x]max", "bmax")
def test_what_matches_holds_the_literals(pattern, text):
    try:
        found = re2.search(pattern, text)
    except re2.error:
        return
    if found is not None:
        assert satisfied(required_literals(pattern), text.encode())


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ("allowPublicKey", b"allowPublicKey"),
        (r"allow[A-Z]\w+Retrieval", ("all", [b"allow", b"Retrieval"])),
        ("(foo|bar)baz", ("any", [b"barbaz", b"foobaz"])),
        ("(?i)timeout", b"timeout"),
        ("err(or)?_code", ("any", [b"err_code", b"error_code"])),
        (r"max\_size\.x", b"max_size.x"),
        ("(abc){2}", b"abcabc"),
        ("(abc)+def", ("all", [b"abc", b"def"])),
        ("a.*b", EVERYTHING),
        ("ab|cde", EVERYTHING),
        ("", EVERYTHING),
        ("(unclosed", EVERYTHING),
        ("(" * 5000 + "abc" + ")" * 5000, EVERYTHING),
    ],
)
def test_literals_of_a_pattern(pattern, tree):
    assert required_literals(pattern) == tree


def lines_of(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def scanned(given: dict[str, bytes], pattern: str) -> set[tuple[str, int]]:
    """What a scan of every line finds, each taken alone."""
    regex = re2.compile(unicode_classes(pattern).encode())
    return {
        (path, number)
        for path, data in given.items()
        for number, line in enumerate(lines_of(data.removeprefix(b"\xef\xbb\xbf")), 1)
        if regex.search(line)
    }


FILES = {
    "a.md": b"max_size\nMAX_SIZE here\n\nthird line\n",
    "crlf.txt": b"one\r\ntwo max\r\n\r\nend",
    "bom.md": b"\xef\xbb\xbfmax at the start\nsecond",
    "bad.txt": b"caf\xe9 max\nutf \xc3\xa9\n\xff\xfe\nlast \xe2\x84\xaa",
    "empty.md": b"",
    "blank.md": b"\n\n\n",
    "long.txt": b"x" * 3000 + b" needle " + b"y" * 3000 + b"\nz",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Snapshot:
    with CorpusIndex.create(tmp_path_factory.mktemp("grep") / "x") as index:
        index.update([Documents("docs", list(FILES.items()))])
        return index.snapshot()


SMALL_PATTERNS = ["max", "(?i)max_s", "^", "$", "^$", "x*", r"\s", "e$", "^m", r"[^a]", "needle",
                  r"\r$", "(?i)k", ".", "max\nx", r"a\sb", "é", r"t\b", "^.*$", "zzz"]  # fmt: skip


@pytest.mark.parametrize("pattern", SMALL_PATTERNS)
def test_lines_are_those_of_a_scan(small, pattern):
    result = small.grep(pattern, limit=None)
    assert {(line.path, line.line) for line in result.lines} == scanned(FILES, pattern)
    assert result.total_lines == len(result.lines)
    assert result.total_documents == len({line.path for line in result.lines})
    assert result.total_matches == sum(len(line.matches) for line in result.lines)
    for line in result.lines:
        raw = FILES[line.path]
        lines = lines_of(raw.removeprefix(b"\xef\xbb\xbf"))
        assert raw[slice(*line.span)] == lines[line.line - 1]
        for start, end in line.matches:
            assert line.span[0] <= start <= end <= line.span[1]


@given(pattern=REGEX)
def test_random_patterns_equal_a_scan(small, pattern):
    try:
        re2.compile(pattern)
    except re2.error:
        with pytest.raises(ValueError, match="RE2"):
            small.grep(pattern)
        return
    found = {(line.path, line.line) for line in small.grep(pattern, limit=None).lines}
    assert found == scanned(FILES, pattern)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^a\sb$", ["a\xa0b", "a\u2003b", "a\x0bb", "a\x85b"], ["a\u200bb", "ab", "a\x1cb"]),
        (r"^\w+$", ["größe", "x\u0301_1", "漢字", "ⓐ", "a\u200db", "٣"], ["a-b", "€", "½", ""]),
        (r"^\d$", ["7", "٣"], ["½", "x"]),
        (r"^\W\S\D$", ["-x-"], ["é--", "- -", "--٣"]),
        (r"^[\w-]+$", ["a-é"], ["a é"]),
        (r"^[^\d\s]$", ["x"], ["٣", "\u00a0"]),
        (r"^[]\d]+$", ["]٣"], ["x"]),
        (r"^[[:alpha:]\d]$", ["٣", "a"], ["é"]),
        (r"^\Q\w\E\w$", ["\\wé"], ["éé"]),
        (r"^\\w$", ["\\w"], ["é"]),
    ],
)
def test_classes_are_those_of_unicode(pattern, yes, no):
    regex = re2.compile(unicode_classes(pattern))
    assert [text for text in [*yes, *no] if regex.search(text)] == yes


def test_pages_and_limits(small):
    whole = small.grep("^", limit=None)
    pieces = [small.grep("^", limit=4, skip=skip) for skip in range(0, whole.total_lines, 4)]
    assert [line for piece in pieces for line in piece.lines] == list(whole.lines)
    assert {piece.total_lines for piece in pieces} == {whole.total_lines}
    (document,) = small.find_document("a.md")
    only = small.grep("max", ignore_case=True, documents=[document.id])
    assert (only.total_lines, only.total_documents, only.documents) == (2, 1, 1)
    assert small.grep("max.size", literal=True).total_lines == 0
    assert small.grep("MAX_SIZE", literal=True).total_lines == 1
    assert small.grep("MAX_SIZE", literal=True, ignore_case=True).total_lines == 2


def test_what_is_no_pattern(small):
    with pytest.raises(ValueError, match="RE2"):
        small.grep("(")
    with pytest.raises(ValueError, match="at most 10,000"):
        small.grep("a" * 10_001)
    with pytest.raises(TypeError, match="str"):
        small.grep(b"a")  # type: ignore[arg-type]


def test_hostile_patterns_end_soon(small):
    for pattern in ("(a*)*$", "(x+x+)+y", "(.*)(.*)(.*)needle", "(?:a{1,30}){1,30}"):
        small.grep(pattern)


def test_escapes_are_searched_as_they_read(tmp_path):
    raw = rb"# T" + b"\n\nSet `a`, max\\_allowed\\_packet &amp; more.\n"
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", [("a.md", raw)])])
        snapshot = index.snapshot()
    assert snapshot.grep("max_allowed_packet").total_lines == 0
    for options in ({}, {"literal": True}, {"ignore_case": True}):
        (line,) = snapshot.grep("max_allowed_packet", raw=False, **options).lines
        ((start, end),) = line.matches
        assert raw[start:end] == b"max\\_allowed\\_packet"
        assert line.line == 3
    (line,) = snapshot.grep("packet & more", literal=True, raw=False).lines
    assert raw[slice(*line.matches[0])] == b"packet &amp; more"


def test_utf16(tmp_path):
    text = "# Ünder\n\nmax_size und 𝄞 mehr\nzwei\n"
    raw = text.encode("utf-16")
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", [("a.md", raw)])])
        snapshot = index.snapshot()
    (line,) = snapshot.grep("size.*mehr").lines
    assert line.line == 3
    assert raw[slice(*line.matches[0])].decode("utf-16-le") == "size und 𝄞 mehr"
    assert raw[slice(*line.span)].decode("utf-16-le") == "max_size und 𝄞 mehr"


# Against ripgrep, on real documents

needs_rg = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")


def ripgrep(top: Path, pattern: str) -> set[tuple[str, int]]:
    command = ["rg", "-n", "--no-ignore", "--hidden", "--no-heading", "--null", "--color=never"]
    done = subprocess.run([*command, "-e", pattern, "."], cwd=top, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = set()
    for line in done.stdout.split(b"\n"):
        path, mark, rest = line.partition(b"\0")
        if mark:
            found.add((path.decode().removeprefix("./"), int(rest.partition(b":")[0])))
    return found


def random_pattern(rng: random.Random, words: list[str]) -> str:
    """What an agent may look for: a name, a part of one, names with something between."""
    word, other = re.escape(rng.choice(words)), re.escape(rng.choice(words))
    half = re.escape(rng.choice(words)[:4])
    kinds = (
        *(word, f"(?i){word}", f"{word}|{other}", rf"{half}[a-z_]*\s", f"^.*{word}"),
        *(f"{word}[^a-z]", rf"(?i){half}[a-z]+{other[:3]}", f"{word}.{{0,20}}{other}"),
        *(rf"[0-9]+ {half}", f"{word}$", f"({word}|{half}).*[0-9]", f"{half[:2]}.{half[2:]}"),
    )
    return rng.choice(kinds)


@needs_rg
@needs_shared
def test_equal_to_ripgrep(tmp_path):
    """Check 3: the set of (path, line) of 500 generated patterns over the shared corpus is that of
    ripgrep; of fewer patterns in CI, over one folder of it.
    """
    whole = PATTERNS >= 500
    top = SHARED if whole else SHARED / "mariadb-docs" / "server" / "reference" / "error-codes"
    with CorpusIndex.create(tmp_path / "x") as index:
        report = index.update([Folder("docs", str(top))])
        snapshot = index.snapshot()
    left_out = {path for path, _, _ in report.left_out}
    text = b"".join(bytes(snapshot.raw(d.id)[:400]) for d in snapshot.documents())
    words = sorted({w.decode() for w in re.findall(rb"[A-Za-z_]{5,24}", text)})
    rng = random.Random(17)
    for _ in range(PATTERNS):
        pattern = random_pattern(rng, words)
        found = {(line.path, line.line) for line in snapshot.grep(pattern, limit=None).lines}
        assert found == {pair for pair in ripgrep(top, pattern) if pair[0] not in left_out}, pattern


BODIES = st.lists(
    st.sampled_from(
        [b"a", b"ab ", b"\n", b"x1\n", b"\r\n", b"\xff", "é".encode(), b"max_", b"\n\n"]
    ),
    max_size=9,
).map(b"".join)


@given(st.lists(BODIES, max_size=6), REGEX, st.integers(1, 40))
@example([b"a", b"", b"a\n", b"\n", b"b"], "$", 3)
@example([b"a\n", b"\xef\xbb\xbfa", b"\xef\xbb\xbf"], "^", 1)
@example([b"ab", b"ba"], "^b|b$", 100)
@example([b"a\n\n", b"a"], r"\b", 100)
def test_joined_documents_give_the_lines_of_each(bodies, pattern, size):
    """One pass over many documents finds what a pass over each alone finds, at any buffer size."""
    try:
        matcher = grep.Matcher(pattern)
    except ValueError:
        return
    wanted = [
        (n, f.number, f.matches) for n, body in enumerate(bodies) for f in matcher.lines(body)
    ]
    stripped = [(n, body.removeprefix(b"\xef\xbb\xbf")) for n, body in enumerate(bodies)]
    shift = [len(body) - len(bare) for body, (_, bare) in zip(bodies, stripped, strict=True)]
    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grep_scan, "BUFFER", size)
        patched.setattr(grep_scan.os, "cpu_count", lambda: 1 + (size < 4))
        for lines in grep_scan.scan(matcher.regex, grep_scan.joined(stripped)):
            for i, owner in enumerate(lines.owner.tolist()):
                n, base = lines.buffer.numbers[owner], int(lines.buffer.starts[owner])
                part = slice(int(lines.first[i]), int(lines.first[i + 1]))
                spans = zip(lines.begins[part].tolist(), lines.stops[part].tolist(), strict=True)
                by = shift[n] - base
                matches = [(begin + by, stop + by) for begin, stop in spans]
                found.append((n, int(lines.number[i]), matches))
    assert matcher.joinable
    assert found == wanted


def test_without_the_inside_of_re2_its_iterator_serves():
    regex = grep.Matcher(r"a*|\b").regex

    class Bare:
        finditer = regex.finditer

    for data in (b"", b"aab a", b"\nb\n"):
        inner, outer = grep_scan.spans_of(regex)(data), grep_scan.spans_of(Bare())(data)
        assert [list(each) for each in inner] == [list(each) for each in outer]
        assert len(set(zip(*inner, strict=True))) == len(inner[0])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_spans_of_joined_documents_are_their_own_bytes(tmp_path, encoding):
    text = "\ufeffone é two\ntwo éé\n"
    given = [("a.txt", b"two first\n"), ("b.txt", text.encode(encoding)), ("c.txt", b"x two")]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", given)])
        snapshot = index.snapshot()
    raws = dict(given)
    found = snapshot.grep("two|é+")
    joined = snapshot.grep(r"\Atwo|two|é+")  # each document alone
    assert [line.span for line in found.lines] == [line.span for line in joined.lines]
    assert [line.matches for line in found.lines] == [line.matches for line in joined.lines]
    for line in found.lines:
        own = encoding if line.path == "b.txt" else "utf-8"
        for begin, stop in line.matches:
            assert raws[line.path][begin:stop].decode(own) in ("two", "é", "éé")
    assert found.total_lines == 4


def test_pages_of_lines_are_parts_of_all(tmp_path):
    given = [(f"{n}.txt", b"hit\nno\nhit hit\n" * (n + 1)) for n in range(5)]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", given)])
        snapshot = index.snapshot()
    whole = snapshot.grep("h.t", limit=None)
    assert (whole.total_lines, whole.total_matches, whole.total_documents) == (30, 45, 5)
    for skip, limit in ((0, 7), (7, 7), (28, 7), (30, 1), (3, None)):
        part = snapshot.grep("h.t", skip=skip, limit=limit)
        stop = None if limit is None else skip + limit
        assert part.lines == whole.lines[skip:stop]
        assert part.total_lines == 30
