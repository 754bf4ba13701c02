"""process_document: what each format gives, ids that stay, fallbacks that are told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from corpus_checks import check
from gnomon.corpus import Chunk, Claim, Document, Source, parse_rst, process_document
from gnomon.corpus import process as process_module
from gnomon.corpus.builder import Parsed

OPTIONS = b"""# Options

See [the guide](../guide.md#start) and <https://a.example/x>.

| Option | Default |
| ------ | ------- |
""" + b"".join(b"| opt\\_number\\_%d | %d |\n" % (i, i) for i in range(120))


def test_tables_continue_with_their_header() -> None:
    done = check(OPTIONS, "docs/o.md")
    first, *rest = [chunk for chunk in done.chunks if chunk.kind == "table"]
    assert len(rest) >= 1
    for chunk in rest:
        assert chunk.header is not None
        assert OPTIONS[slice(*chunk.header)] == b"| Option | Default |\n| ------ | ------- |\n"
    assert "opt_number_0 | 0" in first.text
    defined = {e.normalised for e in done.entities if e.type == "option"}
    assert {f"opt_number_{i}" for i in range(120)} <= defined


def test_links_point_to_paths_and_urls() -> None:
    done = process_document(OPTIONS, "s", path="docs/o.md")
    targets = {r.target for r in done.relations if r.type == "links-to"}
    assert targets == {"path:guide.md#start", "url:https://a.example/x"}


def test_ids_depend_on_content_and_place_only() -> None:
    before = process_document(b"# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\n", "s", path="a.md")
    after = process_document(
        b"# A\n\none\n\n# B\n\nchanged, longer\n\n# C\n\nthree\n", "s", path="a.md"
    )
    ids = [[chunk.id for chunk in done.chunks] for done in (before, after)]
    assert ids[0][0] == ids[1][0]
    assert ids[0][2] == ids[1][2]
    assert ids[0][1] != ids[1][1]
    assert before.document.id == after.document.id
    assert before.document.revision != after.document.revision
    other = process_document(b"# A\n\none\n", "s", path="b.md")
    assert other.chunks[0].id != ids[0][0]


def test_equal_chunks_of_one_section_differ_by_their_number() -> None:
    rows = b"| a |\n|-|\n" + b"| same |\n" * 2000
    done = check(rows, "a.md")
    assert len({chunk.id for chunk in done.chunks}) == len(done.chunks) > 4


def test_front_matter_and_tags() -> None:
    raw = (
        b'---\ntitle: The Title\nversion: "8.0"\n---\n\n'
        b'{% hint style="info" %}\nNote this.\n{% endhint %}\n\n'
        b'{% tab title="On Linux" %}\nRun it.\n{% endtab %}\n'
    )
    done = check(raw, "a.md")
    assert (done.document.title, done.document.version) == ("The Title", "8.0")
    text = "\n".join(chunk.text for chunk in done.chunks)
    assert "Note this." in text
    assert "On Linux" in text
    assert "endhint" not in text
    assert "style=" not in text


def test_html_tables_inside_markdown() -> None:
    raw = b"""# Connection Options

<table>
  <thead><th>Name</th><th>Default</th></thead>
  <tr id="SslMode"><td>SSL Mode, SslMode</td><td>Preferred &amp; safe</td></tr>

  <tr id="Pooling"><td>Pooling</td><td>true</td></tr>
</table>
"""
    done = check(raw, "o.md")
    [chunk] = done.chunks
    assert "SSL Mode, SslMode | Preferred & safe" in chunk.text
    edges = {(r.type, r.source, r.target) for r in done.relations}
    assert ("alias-of", "option:ssl mode", "option:sslmode") in edges
    assert "option:pooling" in {entity.key for entity in done.entities}


def test_error_pages() -> None:
    raw = b"""# Error 1153: Got a packet bigger than 'max\\_allowed\\_packet' bytes

| Error Code | SQLSTATE | Error |
| ---------- | -------- | ----- |
| 1153 | 08S01 | ER\\_NET\\_PACKET\\_TOO\\_LARGE |

## Possible Causes and Solutions

Raise `max_allowed_packet=64M`. Added in MariaDB 10.1.2.

## See Also

* [limits](limits.md)
"""
    done = check(raw, "e1153.md")
    edges = {(r.type, r.source.split(":")[0], r.target) for r in done.relations}
    keys = {entity.key for entity in done.entities}
    assert {
        "error_code:1153",
        "sqlstate:08s01",
        "error_symbol:er_net_packet_too_large",
        "option:max_allowed_packet",
    } <= keys
    assert ("alias-of", "error_symbol", "error_code:1153") in edges
    assert ("causes", "section", "error_code:1153") in edges
    assert ("see-also", "error_code", "path:limits.md") in edges
    assert ("introduced-in", "error_code", "version:10.1.2") in edges
    [fixed] = [r for r in done.relations if r.type == "fixed-by"]
    section = next(s for s in done.sections if f"section:{s.id}" == fixed.target)
    assert section.title == "Possible Causes and Solutions"
    [symbol] = [e for e in done.entities if e.type == "error_symbol"]
    [evidence] = symbol.evidence
    assert raw[evidence.start : evidence.end] == b"ER\\_NET\\_PACKET\\_TOO\\_LARGE"


def test_change_logs_know_the_release_of_a_fix(shared: Path) -> None:
    path = shared / "data" / "dbconn" / "mysql-connector-j" / "CHANGES"
    raw = path.read_bytes()
    done = process_document(raw, "s", path="mysql-connector-j/CHANGES")
    edges = {(r.type, r.source, r.target) for r in done.relations}
    assert ("fixed-by", "issue:bug#75670", "version:6.0.1") in edges
    place = raw.index(b"Fix for Bug#75670 (20433047), Connection fails")
    chunk = next(c for c in done.chunks if c.span[0] <= place < c.span[1])
    section = next(s for s in done.sections if s.id == chunk.section_id)
    assert section.title == "10-19-15 - Version 6.0.1"


def test_restructured_text() -> None:
    raw = (
        b"Title\n=====\n\nUse :func:`tool.open`::\n\n    code_here\n\n"
        b"Sub\n---\n\n.. class:: Box(size)\n\n   Holds things.\n"
    )
    done = check(raw, "a.rst")
    assert [s.path for s in done.sections] == [("Title",), ("Title", "Sub")]
    assert done.chunks[0].text == "Title\nUse tool.open:\ncode_here"
    assert {"function:tool.open", "class:box"} <= {e.key for e in done.entities}


def test_records_are_sections() -> None:
    raw = (
        b'{"title": "How?", "body": "Set \\"x\\\\_y\\" now.\\n\\nThen go.",'
        b' "url": "https://q.example/1"}\nnot json\n'
    )
    done = check(raw, "qa.jsonl")
    assert [s.title for s in done.sections] == ["How?"]
    assert 'Set "x\\_y" now.' in done.chunks[0].text
    assert done.report.problems == ["record 2 is no JSON object"]
    assert "url:https://q.example/1" in {r.target for r in done.relations}


def test_metadata_comes_from_source_and_caller() -> None:
    source = Source("kb", uri="file:///kb", version="8.0", acl=("staff",))
    document = process_document(b"x", source, path="a/b.txt", url="https://kb.example/b").document
    assert (document.source, document.version, document.acl) == ("kb", "8.0", ("staff",))
    assert (document.url, document.title, document.type) == (
        "https://kb.example/b",
        "b.txt",
        "plain",
    )
    assert process_document(b"x", source, path="b.txt", acl=()).document.acl == ()


def test_a_failing_parser_gives_way_to_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicError(BaseException):
        """As compiled parsers raise."""

    def broken(data: bytes, start: int) -> Parsed:
        raise PanicError("index out of bounds")

    monkeypatch.setitem(process_module.PARSERS, "markdown", broken)
    done = check(b"# A\n\nb\n", "a.md")
    assert done.report.parser == done.document.type == "plain"
    assert done.report.fallback == "markdown: PanicError: index out of bounds"


def test_what_is_odd_in_the_bytes_is_reported() -> None:
    report = check("a\u202eb".encode() + b"\xff\xfe", "a.txt").report
    assert (report.invalid_bytes, report.hidden_characters) == (2, 1)


def test_wrong_arguments_name_the_remedy() -> None:
    with pytest.raises(TypeError, match="path="):
        process_document(b"x", "s")
    with pytest.raises(ValueError, match="type must be one of markdown"):
        process_document(b"x", "s", "word", path="a")


def test_claims_of_a_model_need_their_words() -> None:
    class Toy:
        name = "toy-1"

        def __call__(self, document: Document, chunks: Sequence[Chunk]) -> list[Claim]:
            first = chunks[0].id
            return [
                Claim(first, "engine", "InnoDB", "inno\\_db"),
                Claim(first, "engine", "Inno DB", "inno_db"),
                Claim(first, "uses", "engine:inno db", "inno_db", "option:x"),
                Claim("nowhere", "engine", "Aria", "inno_db"),
            ]

    raw = b"# The inno\\_db engine\n"
    done = process_document(raw, "s", path="a.md", extractor=Toy())
    [entity] = [e for e in done.entities if e.type == "engine"]
    assert [(raw[e.start : e.end], e.origin) for e in entity.evidence] == [
        (b"inno\\_db", "model:toy-1")
    ]
    assert ("uses", "engine:inno db", "option:x") in {
        (r.type, r.source, r.target) for r in done.relations
    }
    assert len(done.report.problems) == 2


UNITS = [
    *(b"<a ", b"<", b"&", b"`", b"[", b"](", b"*a ", b"> ", b"- ", b"|", b'<a "', b"{% ", b"\\"),
    *(b"((", b"_a", b"A.", b"1.2.", b'{"a":', b":: ", b"a_", b"Bug#", b"'''", b"aB", b"<script/>"),
    *(
        b"{% x %}\n",
        b'{"a": 1}\n',
        b"|1.2.3|\n",
        b"# a\n",
        b"a=1\n",
        b"<tr><td>",
        b"<h1>",
        b"\n \n",
    ),
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["markdown", "html", "plain", "properties", "records", "other"])
def test_time_is_linear_in_hostile_repetition(unit: bytes, kind: str) -> None:
    """100 KB of one unit: a search that starts anew at every place would run for minutes."""
    import time

    raw = unit * (100_000 // len(unit))
    start = time.process_time()
    process_document(raw, "s", kind, path="a")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("rst", b"a.b(" * 10_000),
        ("rst", b":func:`a" * 8000),
        ("rst", b":func:`a\n" * 4000),
        ("rst", b"\n" * 40_000),
        ("python", b"[" * 60_000),
        ("java", b"x = 1\n" + b"{" * 60_000),
    ],
)
def test_nothing_takes_time_that_grows_with_its_square(kind: str, raw: bytes) -> None:
    began = time.process_time()
    done = process_document(raw, "x", kind, path="a")
    assert time.process_time() - began < 5.0  # was minutes
    assert b"".join(raw[slice(*chunk.span)] for chunk in done.chunks) == raw


def test_signs_that_are_not_looked_at_change_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"T\n=\n\n" + b"* an *item* of `x_y`__ and |z| [1]_\n.. _a_b: http://x/*y\n" * 200
    raw += b"\n" * 80 + b"A ``long`` line " * 300 + b"ends::\n\n   code\n\n- last\n"
    bounded = process_document(raw, "x", "rst", path="a")
    assert parse_rst._bounded(raw) != raw
    monkeypatch.setattr(parse_rst, "_bounded", lambda source: source)
    assert process_document(raw, "x", "rst", path="a") == bounded
