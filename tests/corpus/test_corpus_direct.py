"""What goes into a segment without the public structs is what they say; events are read alike."""

from __future__ import annotations

import random
import re

import msgspec
import pytest
from gnomon import _core
from gnomon.corpus import line_syntax, names, process_document, relations, words
from gnomon.corpus.assemble import Draft, Limits, cut_chunks, cut_sections
from gnomon.corpus.markdown_reference import ReferenceReader
from gnomon.corpus.mentions import Finder
from gnomon.corpus.model import Source
from gnomon.corpus.parse_markdown import parse_markdown
from gnomon.corpus.prepare import prepare, prepared
from gnomon.corpus.prepare_model import PreparedBatch, Task
from gnomon.corpus.stored import Packed, stored_chunks, stored_document, stored_sections
from gnomon.corpus.words import _FLAGGED, _facts_of, hits_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

PIECES = (
    *("# ", "## a {#b}\n", "- ", "> ", "\n", "\n\n", "  ", "    ", "```py\n", "```\n", "`", "``"),
    *("|a|b|\n|-|-|\n", "|c|`d_e`|\n", "[a](b.md)", "![i](j.png)", "<br>", "<div>\n", "</div>\n"),
    *("<a id='x'>", "&lt;", "&amp;", "\\_", "\\", "*", "**", "_", "~~", "[^1]", "[^1]: note\n"),
    *('{% hint title="T" %}\n', "{% x %}", "{{< y >}}\n", "---\n", "+++\n", "a: b\n", "\r\n"),
    *(
        "max_size",
        "`max\\_size`",
        "option ",
        "fooBar",
        "FooBar()",
        "Error 1153 (08S01)",
        "é",
        "日本",
    ),
    *(
        "🦀",
        "the ",
        " variable",
        "MariaDB 10.4.2",
        "since ",
        "pip install x",
        "10",
        "\t",
        "| code |\n",
    ),
    *("# Error 1153\n", "# max_size option\n", "See also", "\u2028", "\x1c", "- [ ] t\n", "x\\\n"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
FIELDS = (
    *("texts", "marks", "last", "atoms", "headings", "links", "codes", "anchors", "meta"),
    *("problems", "table_head"),
)


@given(TEXTS)
@example(
    'a |\n-|-\n```\n{% x %}\n```\n{% x title="t" %} b\n\n{% y %}\n<div>\n *a*\n</div>\n> # q\n'
)
@settings(max_examples=200, deadline=None)
def test_the_compiled_loop_reads_events_as_the_reference_does(text: str) -> None:
    data = text.encode()
    for mdx in (False, True):
        ours, reference = (
            parse_markdown(data, mdx=mdx, reader=reader) for reader in (None, ReferenceReader)
        )
        for name in FIELDS:
            assert getattr(ours, name) == getattr(reference, name), name
        for name in ("atoms", "links", "headings"):
            kinds = [list(map(type, getattr(each, name))) for each in (ours, reference)]
            assert kinds[0] == kinds[1]


RANGE = {"start": 0, "end": 1}


@pytest.mark.parametrize(
    "bad",
    [
        *(1, (1,), ({"Text": "a"}, 3), ({"Text": "a"}, {"start": 0}), ({"Text": 5}, RANGE)),
        *(({"Code": 5}, RANGE), ({"Start": {"Heading": 5}}, RANGE)),
        ({"Start": {"Link": 5}}, RANGE),
    ],
)
def test_what_is_no_event_is_refused(bad: object) -> None:
    from gnomon.corpus.builder import Parsed
    from gnomon.corpus.parse_markdown import Reader

    parsed = Parsed(b"a")
    with pytest.raises((TypeError, KeyError)):
        _core.read_markdown(Reader(parsed, []), parsed, b"a", [bad])
    assert not parsed.texts


def test_what_is_no_draft_and_no_type_of_tuples_is_refused() -> None:
    draft = (0, 0, 0, 0, 0, 5, None, False)
    with pytest.raises(TypeError, match="the text of a draft"):
        _core.chunk_records([draft], [], b"", b"", None)
    with pytest.raises(TypeError, match="named tuples"):
        _core.chunk_records([draft[:5]], [], b"", b"", None)
    for kind in (int, 5, (), None):
        judge = _core.NameJudge(kind, {}, [], [], [], set(), False)
        with pytest.raises(TypeError, match="type of tuples"):
            judge.names("some_name", None, 0, [(0, 9, "snake")])


@given(
    st.lists(st.tuples(st.sampled_from(["a.md", "b.txt", "c.py", "d.html"]), TEXTS), max_size=3),
    st.sampled_from([b"", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe"]),
)
@settings(max_examples=20, deadline=None)
def test_a_document_straight_for_a_segment_is_the_finished_one(
    documents: list[tuple[str, str]], before: bytes
) -> None:
    source = Source(name="docs", acl=("all",))
    for path, text in documents:
        raw = before + text.encode()
        done = process_document(raw, source, path=path)
        wanted = PreparedBatch(
            [prepared(done, raw)],
            Packed.of([stored_document(done)]),
            Packed.of(stored_sections(done)),
            Packed.of(stored_chunks(done, raw)),
        )
        got = prepare([Task(path, "", raw, "")], source)
        assert msgspec.msgpack.encode(got) == msgspec.msgpack.encode(wanted)


NEAR = st.lists(
    st.sampled_from(
        [
            *(
                "max_size",
                "fooBar",
                "FooBar",
                "MAX_SIZE",
                " ",
                "`",
                "'",
                '"',
                "(",
                ")",
                "()",
                "[",
                "]",
            ),
            *(
                ",",
                ":",
                "\n",
                "=",
                ".",
                " the ",
                "option",
                "variables",
                "is ",
                "set to",
                "package ",
                "class ",
                "struct\xa0",
                "delegate ",
                "namespace\xa0",
            ),
            *("catch (", "function", "error", "default to", "system ", "new ", "value of ", "é"),
        ]
    ),
    max_size=12,
).map("".join)


@given(NEAR)
@example("package max_size")
@example("max_size,option")
@settings(max_examples=300, deadline=None)
def test_nothing_tells_what_a_plain_name_is(text: str) -> None:
    hits = hits_of(text)
    for (begin, end, _), alone in zip(hits, _core.plain_names(text, hits), strict=True):
        if not alone:
            continue
        behind = (names.FUNCTION_NOUN, names.ERROR_NOUN, names.OPTION_NOUN, names.FILE_END)
        assert not any(pattern.match(text, end) for pattern in behind)
        assert not names.after_package(text, begin)
        assert not names.noun_before(text, begin)
        assert not names.CLASS_BEFORE.search(text[max(begin - 24, 0) : begin])
        assert text[end : end + 1] not in ("(", "=")


@given(st.text(st.sampled_from("abZ09_$@-([.:#é"), max_size=12))
@example("requires")
@settings(max_examples=300, deadline=None)
def test_words_that_are_not_asked_for_hold_nothing(word: str) -> None:
    asked: list[str] = []

    def lookup(given: str) -> tuple[int, list[tuple[int, int, int]]]:
        asked.append(given)
        return 0, []

    parts = sorted({*words._TRIGGERS, *(part for part, _, _ in words._PARTS)})
    _core.WordScanner(lookup, words._GROUPS, parts).hits(word)
    if word and word not in asked:
        assert _facts_of(word) == (0, [])


WORDS = (
    *("a", "b", "Z", "B", "1", "2", "_", "-", "--", "@@", "$", "{", "(", "()", ".", "::", "->"),
    *("#", ":", "/", "=", "%", "v", "V", "ER_", "HA_ERR_", "Exception", "Error", "bug", "BUG"),
    *("CVE-", "1234", "2024-", "MDEV-", "CONJS-", "WL#", "mariaDB-", "mysql-", "InnoDB-", "10.5"),
    *("10.5.1", "global.", "SESSION.", "'", "`", ",", "a" * 40, "9" * 5, "[mysqld", "require("),
    *("export", "go", "STATE", "rror", "\0", "using"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=9).map("".join))
@example("a" * 81 + ".b()")
@example("a.b.c.d.e.f.g.h.i.j()")
@example("MariaDB-10.5.1234")
@example("A" + "b" * 3 + "C" * 80 + "Error")
@example("import")
@settings(max_examples=1000, deadline=None)
def test_words_have_the_names_that_the_pattern_finds(word: str) -> None:
    flags, hits = _facts_of(word)
    assert _core.word_facts(word, _FLAGGED) == (flags, hits)


def test_other_letters_are_left_to_python() -> None:
    with pytest.raises(ValueError, match="ASCII"):
        _core.word_facts("é", _FLAGGED)


ADDRESSES = (
    *("a", "b.md", "/", "//", "..", ".", "#", "#x", "?", "?q", "http:", "data:", "JavaScript:"),
    *("%20", "é", "mailto:", "../", "c/", "x-1.2+y:", " ", "A", "9:"),
)


@given(
    st.sampled_from(["", "a", "a/b", "../c", "/r", "a//b/.."]),
    st.lists(st.sampled_from(ADDRESSES), max_size=6).map("".join),
)
@settings(max_examples=500, deadline=None)
def test_links_lead_where_the_reference_says(folder: str, url: str) -> None:
    told = _core.link_target(folder, url)
    if told is None:
        assert folder[:1] == "/" or "%" in url or not url.isascii()
    else:
        assert told == relations._target(folder, url)


def judged_as_decided(text: str) -> None:
    """The finder with its judge finds what it finds when each name is decided by the patterns."""

    def asking(self: Finder, draft: Draft, judge: object) -> None:
        self._about_env = None
        hits = hits_of(draft.text)
        places = _core.locate_spans(draft.text, draft.marks, draft.start, hits)
        for hit, place in zip(hits, places, strict=True):
            code = self.kind_at(place[0]) == "code"
            self._decide(draft, *hit, *place, code, 127)

    parsed = parse_markdown(text.encode())
    sections = cut_sections(parsed, "d")
    drafts = cut_chunks(parsed, sections, Limits())
    found = Finder(parsed, sections, drafts).find()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finder, "_chunk", asking)
        assert Finder(parsed, sections, drafts).find() == found


@given(TEXTS)
@example(
    "`max_size`, `fooBar`, `BarReader` and [`Baz`](variables.md#x); MY_ENV environment variable"
)
@example("package fooBar, class FooBar, MY_BAR error, the FooBar function, foo_bar.c and x.y(1)")
@settings(max_examples=200, deadline=None)
def test_judged_names_are_those_that_are_decided_one_by_one(text: str) -> None:
    judged_as_decided(text * 3)


def some_match(node: line_syntax.Node, rng: random.Random) -> str:
    """A text that an expression matches."""
    if isinstance(node, line_syntax.Edge):
        return ""
    if isinstance(node, line_syntax.Characters):
        return rng.choice([chr(code) for code in range(128) if node.bits >> code & 1])
    if isinstance(node, line_syntax.Repeated):
        most = node.least + 1 if node.most is None else node.most
        return "".join(some_match(node.part, rng) for _ in range(rng.randint(node.least, most)))
    if isinstance(node, line_syntax.Alternatives):
        return some_match(rng.choice(node.parts), rng)
    return "".join(some_match(part, rng) for part in node.parts)


def test_the_judge_knows_the_words_of_all_patterns() -> None:
    """It holds the letters of these words a second time, and asks where they stand."""
    rng, lines = random.Random(7), []
    for pattern in (
        *(names.PACKAGE_BEFORE, names.CLASS_BEFORE, names.NOUN_BEFORE),
        *(names.FUNCTION_NOUN, names.ERROR_NOUN, names.OPTION_NOUN),
    ):
        node = line_syntax.syntax(pattern.pattern)
        assert node is not None
        for beside in {some_match(node, rng) for _ in range(150)}:
            for name in ("max_size", "FooBar", "MAX_SIZE"):
                text = f"{beside}{name}" if "$" in pattern.pattern else f"{name}{beside}"
                lines.append(f"x {text} y")
    judged_as_decided("\n\n".join(lines))


def test_the_judge_knows_the_ends_of_all_classes() -> None:
    ends = re.findall("[A-Za-z]+", names.CLASS_END.pattern)
    assert len(ends) > 20
    judged_as_decided("\n\n".join(f"`Foo{end}`, `Foo{end}x` and `{end}Foo`" for end in ends))
