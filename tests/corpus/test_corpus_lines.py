"""The compiled search for lines finds what RE2 finds in each line, at every level."""

from __future__ import annotations

import sys

import gnomon
import numpy as np
import pytest
from gnomon import _core
from gnomon.corpus import CorpusIndex, Documents, grep, grep_program
from gnomon.corpus.grep_scan import spans_of
from gnomon.corpus.line_program import line_program
from gnomon.corpus.line_syntax import Characters, syntax
from hypothesis import example, given
from hypothesis import strategies as st

re2 = pytest.importorskip("re2", reason="google-re2 (gnomon[corpus]) is not installed")

ATOMS = st.sampled_from(
    [
        *("a", "b", "K", "s", "max", "_", "é", "=", "@", "0", "-", " ", "]", "}"),
        *(".", r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", r"\b", r"\B", "^", "$", r"\.", r"\_"),
        *(r"\x41", r"\x{e9}", r"\t", r"\n", "[ab]", "[^x]", "[a-f0-9]", r"[\d-]", "[]a]", "[^]a]"),
        *(r"[\w@]", "[a-]", "[-a]", "[a-f-z]", "[A-é]", "[^a-z]", r"[\x00-\x7f]", "(?i)", "()"),
        *(r"\Qa.b\E", r"\pL", "[[:alpha:]]", "x{2,1}", r"[\W]", r"\A", "(?s)", "(?i:s)", r"[b-\d]"),
    ]
)
REPEATS = ["*", "+", "?", "{2}", "{0,1}", "{1,}", "{2,3}", "+?", "*?", "??", "{1,2}?", "{0}"]
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=5).map("".join)
        | st.tuples(inner, inner).map(lambda p: f"({p[0]}|{p[1]})")
        | st.tuples(inner, inner).map("|".join)
        | st.tuples(inner, st.sampled_from(REPEATS)).map(lambda p: f"(?:{p[0]}){p[1]}")
        | st.tuples(inner, st.sampled_from(REPEATS)).map("".join)
    ),
    max_leaves=14,
)
TEXTS = st.lists(
    st.sampled_from(
        [
            b"a",
            b"ab ",
            b"max",
            b"\n",
            b"x1\n",
            b"\r\n",
            b"\xff",
            "é".encode(),
            b"max_",
            b"\n\n",
            b"@",
            b"K",
            "\u212a".encode(),
            "ſ".encode(),
            b"0-9",
            b"s=",
            b"a" * 70,
            b"\xef\xbb\xbf",
            b"\0",
        ]
    ),
    max_size=12,
).map(b"".join)


def scanned(program, texts, level="", most=2**63, threads=1):
    joined = b"".join(texts)
    ends = np.cumsum([len(text) for text in texts], dtype=np.uint64)
    begins = np.concatenate([np.zeros(1, np.uint64), ends[:-1]]).astype(np.uint64)
    owners = np.zeros(len(texts), np.uint32)
    return _core.LineScan(program, [joined], owners, begins, ends, most, threads, level)


def lines_of(scan, skip=0, stop=2**63):
    owner, number, begin, end, first, begins, stops = (x.tolist() for x in scan.page(skip, stop))
    spans = list(zip(begins, stops, strict=True))
    return [
        (owner[i], number[i], (begin[i], end[i]), spans[first[i] : first[i + 1]])
        for i in range(len(owner))
    ]


@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=5), st.booleans())
@example("^#+ ", [b"# a\n## b", b"#c\n # d\n#  \n"], False)
@example("^$", [b"\n\na", b"", b"a\n\n", b"\xef\xbb\xbf\n"], False)
@example("max$", [b"max", b"a max\nmax a\nmax\r\n", b"max\n"], False)
@example("a+@a+", [b"aa@aa@a", b"@a@"], False)
@example("(?:K|max)=", ["\u212a=".encode(), b"k=\nMAX=max="], True)
@example("(?:a|ab)(?:@|b@)", [b"ab@ab@"], False)
@example("max.*@|max", [b"maxmaxmax", b"max" * 40 + b"@max"], False)
def test_programs_find_what_re2_finds(pattern, texts, ignore_case):
    tree = syntax(pattern, ignore_case)
    try:
        matcher = grep.Matcher(pattern, False, ignore_case)
        regex = matcher.regex
    except ValueError:
        assert tree is None
        return
    if matcher.program is None:
        return
    assert matcher.joinable
    bare = [text.removeprefix(b"\xef\xbb\xbf") for text in texts]
    wanted = [
        (n, f.number, f.span, f.matches)
        for n, text in enumerate(texts)
        for f in matcher.lines(text)
    ]
    assert bare is not texts
    for level in gnomon.levels():
        scan = scanned(matcher.program, texts, level)
        unsure = scan.unsure()
        scan.settle(*spans_of(regex)(unsure))
        found = lines_of(scan)
        assert found == wanted, level
        counted = (
            len(wanted),
            sum(len(each[3]) for each in wanted),
            len({each[0] for each in wanted}),
        )
        assert scan.totals == counted


@given(PATTERNS, st.lists(TEXTS.filter(bytes.isascii), max_size=3))
def test_the_matcher_finds_the_spans_of_re2(pattern, texts):
    """What stands behind a rare beginning, often more than once in a line."""
    program = None
    if syntax(pattern) is not None:
        program = line_program(f"q=@(?:{pattern})", False, False)
    if program is None:
        return
    line = b" q=@".join([b"", *texts]).replace(b"\n", b"")
    begins, stops = spans_of(grep.Matcher(f"q=@(?:{pattern})").regex)(line)
    assert program.find(line) == list(zip(begins, stops, strict=True))


def test_windows_are_found_wherever_they_stand():
    """Every place of a window in blocks of 64 bytes, and at both ends of the text."""
    program = line_program("k=@é", True, False)
    for level in gnomon.levels():
        for before in range(140):
            for behind in (0, 1, 3, 63, 64, 130):
                text = b"." * before + "k=@é".encode() + b"." * behind
                scan = scanned(program, [b"k=@", text, b"k=@"], level)
                size = len(text)
                assert lines_of(scan) == [(1, 1, (0, size), [(before, before + 5)])]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pages_and_totals_of_many_documents(threads):
    texts = [b"x@y\n.\n@@ @\n" * (n % 7) + b"." * (n * 997 % 5000) for n in range(400)]
    program = line_program("@", True, False)
    whole = lines_of(scanned(program, texts, threads=threads))
    assert len(whole) == sum(text.count(b"x") * 2 for text in texts)
    for skip, stop in ((0, 5), (5, 9), (1000, 1001), (len(whole) - 1, len(whole) + 3), (9, 9)):
        scan = scanned(program, texts, most=stop, threads=threads)
        assert lines_of(scan, skip, stop) == whole[skip:stop]
        assert scan.totals == (len(whole), 2 * len(whole), sum(map(bool, range(400))) - 57)


def test_a_line_that_is_too_long_for_the_marks_is_left_to_re2(tmp_path):
    long = b"k" * 4_200_000 + b"=@@ 17"
    given = [("a.txt", b"k=@ 1\n" + long + b"\nk=@@ 22\n"), ("b.txt", b"k=@@\n")]
    assert line_program(r"=@+ [0-9]+", False, False).find(long) is None
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", given)])
        snapshot = index.snapshot()
    found = snapshot.grep(r"=@+ [0-9]+")
    assert [line.line for line in found.lines] == [1, 2, 3]
    assert found.lines[1].matches == ((6 + 4_200_000, 6 + len(long)),)
    assert (found.total_lines, found.total_matches, found.total_documents) == (3, 3, 1)


def test_a_scan_keeps_its_sources_whatever_becomes_of_the_list():
    text = b"plain @2 and more\n" * 5000
    program, sources = line_program(r"plain @\d", False, False), [text]
    places = np.zeros(1, np.uint64), np.array([len(text)], np.uint64)
    scan = _core.LineScan(program, sources, np.zeros(1, np.uint32), *places)
    before, holders = lines_of(scan, 0, 3), sys.getrefcount(text)
    sources.clear()
    assert sys.getrefcount(text) == holders - 1  # the list's; the scan has its own
    assert lines_of(scan, 0, 3) == before
    del scan
    assert sys.getrefcount(text) == holders - 2


def test_many_lines_beyond_ascii_are_left_to_re2(tmp_path, monkeypatch):
    monkeypatch.setattr(grep_program, "BUFFER", 1000)
    text = ("größe @1 é\nplain @2\n" * 50).encode()
    assert len(scanned(line_program(r"\w+ @\d", False, False), [text]).unsure()) == 700
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", [(f"{n}.txt", text) for n in range(5)])])
        snapshot = index.snapshot()
    program, owners = line_program(r"\w+ @\d", False, False), np.zeros(1, np.uint32)
    places = np.zeros(1, np.uint64), np.array([len(text)], np.uint64)
    assert _core.LineScan(program, [text], owners, *places, most_unsure=1000).has_given_up is False
    assert _core.LineScan(program, [text], owners, *places, most_unsure=699).has_given_up is True
    for raw in (True, False):
        found = snapshot.grep(r"\w+ @\d", raw=raw, limit=3)
        assert (found.total_lines, found.total_documents) == (500, 5)
        assert [line.line for line in found.lines] == [1, 2, 3]


def test_what_has_no_program():
    for pattern in (
        r"\Aa=",
        "(?-m)^a=",
        r"=\pL",
        "=(a*)*",
        "=a{60}",
        "=(?P<n>a)",
        " ",
        "x*",
        "",
        "[^a]",
    ):
        assert line_program(pattern, False, False) is None, pattern
    assert line_program("", True, False) is None
    assert line_program("a\nb", True, False) is None
    assert syntax("é") == syntax(r"\x{e9}")
    assert syntax("[k]", True) == Characters(1 << 75 | 1 << 107, True)


def test_programs_that_are_not_ones():
    one = (1 << 64).to_bytes(32, "little")
    good = ([(0, 0, 0), (7, 0, 0)], [one], False, [one], [0], 0, 0, False, [one])
    _core.LineProgram(*good)
    for at, bad in (
        (0, [(0, 0, 0)]),
        (0, [(0, 1, 0), (7, 0, 0)]),
        (0, [(9, 0, 0), (7, 0, 0)]),
        (0, [(2, 0, 9), (7, 0, 0)]),
        (1, [b"a"]),
        (3, []),
        (3, [one] * 9),
        (4, [1]),
        (5, 1),
        (8, [one[:9]]),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            _core.LineProgram(*good[:at], bad, *good[at + 1 :])
    program = _core.LineProgram(*good)
    for begin, end, owner in ((1, 0, 0), (0, 9, 0), (0, 1, 1)):
        arrays = np.array([owner], np.uint32), *(np.array([x], np.uint64) for x in (begin, end))
        with pytest.raises(ValueError, match="source"):
            _core.LineScan(program, [b"abc"], *arrays)
