"""Spans: the chunks of any document tile it, and every map, line and place is exact."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from corpus_checks import check
from gnomon.corpus import Coverage, locate, process_document, rendered_at, walk_sources
from gnomon.corpus.assemble import Limits
from gnomon.corpus.process import PARSERS
from hypothesis import example, given, settings
from hypothesis import strategies as st

# fmt: off
FRAGMENTS = [
    "# H\n", "## `code` \\_x &lt;\n", "Title\n=====\n", "Sub\n---\n",
    "text max\\_allowed\\_packet\n", "\n", "\n\n", " ", "  ", "```\n",
    "```sql\nselect 1;\n```\n", "~~~~\n```\n~~~~\n", "    indented\n", "\tx\n", "- a\n",
    "  - b\n\n    para\n", "1. x\n", "> quote\n", "> # in quote\n",
    "|a|b|\n|-|-|\n|1\\|2|`x`|\n", "- x\n\n  |a|\n  |-|\n  |1|\n",
    "<table><tr><th>Option</th></tr>\n\n<tr><td>a &amp; b</td></tr></table>\n", "<!-- c -->\n",
    "<div>\n\n# x\n\n</div>\n", "<pre>\n a\n  b</pre>\n", "<a href='x\">", "<script>",
    "</script>", "<h2 id=q>t</h2>", "<", "&#x41;", "&nope;", "&#0;", "&acE;", '\x00',
    "\u202eabc\u202c", "e\u0301", "\u0301", "\u200d",
    '\U0001f468\u200d\U0001f469\u200d\U0001f467', '\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7',
    "\r", "\r\n", "\u6f22\u5b57\u3002", "\ufeff", "---\ntitle: x\n---\n",
    "{% hint style=\"info\" %}\n", "{% tab title=\"A_b\" %}\n", "[l](u.md#a)\n",
    "[r]: http://x\n", "![i](d)\n", "Version 1.2.3\n\n", "a.b=c\\u00e9\\\n  d\n",
    "{\"title\": \"t\", \"body\": \"a\\nb\\u00e9\\ud83d\\ude00\"}\n",
    "class A(B):\n  def f(self, x): g(x)\n",
    "public class A<T> extends B implements C { void m(int x) throws E { n(); } }\n",
    "Error 1153 (08S01): ER_X_Y\n", ".. code-block:: c\n\n   x\n\n", "``lit``\n",
    ":func:`a.b`\n", "para::\n\n  lit\n",
    "=====  ====\na      b\n=====  ====\n1      2\n=====  ====\n", "**b** *i* ~~s~~ ``a`` `b`\n",
]
# fmt: on
BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f", b"\xef\xbb\xbf", b"\x80\x80"]
PIECES = st.one_of(
    st.sampled_from([fragment.encode() for fragment in FRAGMENTS]),
    st.sampled_from(BYTES),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b"long words " * 40, b"x" * 500, b"| a | b |\n" * 60, "長い文。".encode() * 50]
    ),
)
DOCUMENTS = st.tuples(st.lists(PIECES, max_size=24), st.booleans()).map(
    lambda made: b"".join(made[0]).replace(b"\n", b"\r\n" if made[1] else b"\n")
)


@given(
    DOCUMENTS, st.sampled_from(sorted(PARSERS)), st.sampled_from([(1600, 3200), (60, 90), (7, 7)])
)
@example(b"", "markdown", (1600, 3200))
@example(b"\xef\xbb\xbf# H", "markdown", (1600, 3200))
@example(b"```\nnever closed", "markdown", (7, 7))
@example(b" " * 9000, "markdown", (60, 90))
@example(b"\n" * 9000, "plain", (60, 90))
@example(b"\\\xc2\x80", "properties", (60, 90))
@example(b"\\\xc2\x80", "rst", (60, 90))
@example(b'{"a": "\\\xc2\x80"}', "records", (60, 90))
def test_any_document_is_tiled_exactly(raw: bytes, kind: str, sizes: tuple[int, int]) -> None:
    done = check(raw, "a/b", kind, Limits(*sizes))
    assert done.report.fallback == ""


@given(st.text(max_size=200), st.sampled_from(["utf-16", "utf-16-be", "utf-32", "utf-8-sig"]))
@settings(max_examples=60)
def test_other_encodings_keep_their_own_offsets(words: str, encoding: str) -> None:
    words = "# max\\_size\n\n" + words.encode("utf-8", "replace").decode("utf-8")
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    raw = (mark + words).encode(encoding)
    done = check(raw, "a.md")
    assert done.chunks[0].text.startswith("max_size")


def test_declared_encodings() -> None:
    raw = b"<meta charset=iso-8859-1><p>caf\xe9 max_size</p>"
    done = check(raw, "a.html")
    assert done.document.encoding == "iso-8859-1"
    assert done.chunks[0].text == "café max_size"


def test_escapes_are_rendered_and_located() -> None:
    raw = b"x\n\n## Set max\\_allowed\\_packet &lt;= 5 &amp; more\n"
    done = check(raw, "a.md")
    chunk = done.chunks[-1]
    assert chunk.text == "Set max_allowed_packet <= 5 & more"
    start = chunk.text.index("max_allowed_packet")
    begin, end = locate(chunk.raw_map, start, start + len("max_allowed_packet"))
    assert raw[chunk.span[0] + begin : chunk.span[0] + end] == b"max\\_allowed\\_packet"
    start = chunk.text.index("<")
    begin, end = locate(chunk.raw_map, start, start + 1)
    assert raw[chunk.span[0] + begin : chunk.span[0] + end] == b"&lt;"


def test_escaped_names_of_the_corpus_are_all_found(shared: Path) -> None:
    """A name that a file only spells with escapes is in its text; the map leads to them."""
    escaped = re.compile(rb"(?<![\w\\])[A-Za-z0-9]+(?:\\_[A-Za-z0-9]+)+")
    files = [
        f for f in walk_sources(shared / "data" / "dbconn", Coverage()) if f.path.endswith(".md")
    ]
    pairs = places = 0
    for found in files[::6]:
        raw = Path(found.place).read_bytes()
        done = process_document(raw, "dbconn", path=found.path, facts=False)
        text = "\n".join(chunk.text for chunk in done.chunks)
        for name in {match[0] for match in escaped.finditer(raw)}:
            plain = name.replace(b"\\", b"")
            if plain not in raw:
                pairs += 1
                assert plain.decode() in text, (found.path, name)
        for chunk in done.chunks:
            shown = chunk.text.encode()
            for match in escaped.finditer(raw, *chunk.span):
                plain = match[0].replace(b"\\", b"")
                at = rendered_at(chunk.raw_map, match.start() - chunk.span[0])
                if shown[at : at + len(plain)] == plain:
                    places += 1
                    start, end = locate(chunk.raw_map, at, at + len(plain))
                    assert raw[chunk.span[0] + start : chunk.span[0] + end] == match[0]
    assert pairs > 1000
    assert places > 3000


def test_white_space_that_is_shown_stays_before_the_cut() -> None:
    done = check(b"<p>one <b>two</b> \n   <h3>H</h3>\n text \n  <h3>I</h3> x", "a.html")
    assert [chunk.text for chunk in done.chunks] == ["one two ", "H\ntext ", "I\nx"]


def fences(raw: bytes) -> list[tuple[int, int]]:
    """The closed fences at the left margin, found line by line."""
    found, opened, at = [], None, 0
    for line in raw.splitlines(keepends=True):
        mark = re.match(rb" {0,3}(`{3,}|~{3,})", line)
        if (
            mark
            and opened is None
            and (b"`" not in line[mark.end() :] or line[mark.start(1) : mark.start(1) + 1] == b"~")
        ):
            opened = at, mark[1]
        elif mark and opened and mark[1].startswith(opened[1]) and not line[mark.end() :].strip():
            found.append((opened[0], at + len(line)))
            opened = None
        at += len(line)
    return found


def test_every_file_of_the_corpus(shared: Path) -> None:
    """Check 1: chunks tile documents, and no fence or row of a table is cut."""
    top = shared / "data" / "dbconn"
    coverage = Coverage()
    files = list(walk_sources(top, coverage))
    assert coverage.taken == len(files) > 5000
    assert coverage.left_out == []
    picked = [
        found
        for number, found in enumerate(files)
        if number % 12 == 0 or not found.path.endswith(".md")
    ]
    split_fences = []
    for found in picked:
        raw = Path(found.place).read_bytes()
        done = check(raw, found.path)
        assert done.report.fallback == "", found.path
        if found.path.endswith(".md"):
            cuts = [chunk.span[0] for chunk in done.chunks]
            whole = [f for f in fences(raw) if f[1] - f[0] <= 3200]
            split_fences += [
                (found.path, cut, fence)
                for fence in whole
                for cut in cuts
                if fence[0] < cut < fence[1]
            ]
            rows = [m.span() for m in re.finditer(rb"^\|[^\n]*\n", raw, re.MULTILINE)]
            inside = {cut for cut in cuts for a, b in rows if a < cut < b and b - a <= 3200}
            assert inside == set(), found.path
    assert split_fences == []


@pytest.mark.slow
def test_all_files_of_the_corpus_tile(shared: Path) -> None:
    for found in walk_sources(shared / "data" / "dbconn", Coverage()):
        raw = Path(found.place).read_bytes()
        done = process_document(raw, "dbconn", path=found.path, facts=False)
        assert b"".join(raw[slice(*chunk.span)] for chunk in done.chunks) == raw
        assert done.report.fallback == ""


def test_hostile_text_files(shared: Path) -> None:
    files = [path for path in (shared / "data" / "chunkdocs").rglob("*") if path.is_file()]
    assert len(files) > 15
    for path in files:
        for kind in ("plain", "markdown", "html", "rst"):
            assert check(path.read_bytes(), path.name, kind).report.fallback == ""
