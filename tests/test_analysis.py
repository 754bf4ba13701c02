"""The compiled tokenizer equals the reference, token by token and span by span."""

import functools
import hashlib
import itertools
import json
import os
import pickle
import sys
import unicodedata
from pathlib import Path

import pytest
from gnomon import _core
from gnomon.analysis import PRESETS, Analyzer, Span
from gnomon.reference import analysis as reference
from gnomon.reference import lucene
from hypothesis import example, given
from hypothesis import strategies as st

SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")
COLLECTIONS = sorted((SHARED / "data" / "collections").glob("*/corpus.jsonl"))

# Letters that meet in identifiers, scripts without spaces, and what normalisation moves about.
PIECES = [
    *"abzABZ019_:: .-/\t\n",
    *(
        "::",
        "__",
        "std::",
        "allowPublic",
        "HTTPServer",
        "2Go",
        "x_y",
        "I\u0307",
        "\u0130",
        "\u0131",
    ),
    *"中文检索\u3005\u3007\u30fb\u30fc\u30ab\u309b\u3099か゠\U00020000\U0002f800\ufa0e",
    *"ไทยก\u0e33\u0e49ລາວမြန်မာខ្មែរ\u200b",
    *"\u1100\u1161\u11a8\u1112\u1175\u11c2\uac00\ud55c\uffa1\uffc2\u3131",
    *"العربية\u064b\u0651\u0640\ufdfa\ufe8d",
    *"\u0301\u0323\u0308\u0345\u1d165\u0f71\u0f72\u09c7\u09be\u0b47\u0b56\u093c\ufe0f\u200d\u20e3",
    *("👩\u200d💻", "❤\ufe0f", "e\u0301", "s\u0323\u0307", "\u1e9b\u0323", "A\u030a"),
    *"\ud800\udfff\U0010ffff\x00",
    *"ﬁﬃ½²①Ⅷ㎏㍿ｱﾞＡ：＿\u2a74ǅǆᾈẞßK\u212bſ",
    *"ΣσςΑά\u03b1\u0313",
]
TEXTS = st.lists(
    st.one_of(st.sampled_from(PIECES), st.characters(), st.text("aB_:9", max_size=6)), max_size=24
).map("".join)

# Words about as long as what is looked at together, and what they may meet.
LONG = (
    "Abcdefg Abcdefgh\u00c9 Abcdefghi\u00e0 ABCDEFGHIJKLMNO aBCDEFGHIJKLMNOP a_b_c_d_e_f_g_h "
    "a_b_c_d_e_f_g_h_ i abcdefghijklmnopq abcdefg::h abcdefghijklmnop::q \u00c9T\u00c9 "
    "caf\u00c9s\u00d7no"
)
preset = pytest.mark.parametrize("name", PRESETS)


def bare(name: str) -> Analyzer:
    """The preset without the filters that it has of its own."""
    return Analyzer(name, stemmer="none", stop_words=[])


def runs(text: str, name: str) -> None:
    analyzer = bare(name)
    assert analyzer.spans(text) == [Span(*each) for each in reference.spans(text, name)]
    assert analyzer.tokens(text) == reference.tokens(text, name)
    marks = _core.marked_spans(name, *analyzer.views(text))
    expected = reference.marked_spans(text, name)
    assert [(token, whole) for token, _, _, whole in marks] == [
        (token, whole) for token, _, _, whole in expected
    ]


@preset
@given(text=TEXTS)
@example(text="a\u0301::\u0301_B")
@example(text="ΑΣ ΑΣ::Α Σ_Σ")
@example(text="ABc\u0301\u0301D AB\u0301c")
@example(text="a9B a9B_c x_ Ab9")
@example(text="abcdefghijklmno p abcdefghijklmnop q abcdefghijklmnopq r")
@example(text="\u00e9 " + LONG)  # one, two and four bytes a character
@example(text="\u2014" + LONG + "\u2014")
@example(text="\U0001f600" + LONG)
@example(text="\u4e2d\u2019\u200d9\u17c2 \U0001f1e9\u4e2da1")
@example(text="\u05d0'1 \u05d0'_ \u05d0\"\u05d0' 1,5.3 U.S.A. can't O\u2019Neil\u2019s")
def test_equals_the_reference(name, text):
    runs(text, name)


@given(text=TEXTS)
def test_segments_normalise_each_for_itself(text):
    segments = reference.segments(text)
    whole = reference.normalise(text)
    assert "".join(text[start:end] for start, end in segments) == text
    assert "".join(reference.normalise(text[start:end]) for start, end in segments) == whole
    unstable = _core.unstable_segments(text)
    assert set(unstable) <= set(segments)
    for start, end in set(segments) - set(unstable):
        assert reference.normalise(text[start:end]) == text[start:end]
    cased, lowered = Analyzer().views(text)
    assert cased == whole
    assert lowered == (whole if text.isascii() else whole.lower())


def every_character(without: tuple[str, ...] = ("Cn",)) -> list[str]:
    """All characters but those of these categories: unassigned, private use."""
    everything = map(chr, range(sys.maxunicode + 1))
    return [c for c in everything if unicodedata.category(c) not in without]


@preset
def test_every_character_alone_and_in_context(name, monkeypatch):
    for question in ("is_word", "is_cjk", "is_bigram_script", "is_identifier"):
        monkeypatch.setattr(reference, question, functools.cache(getattr(reference, question)))
    monkeypatch.setattr(lucene, "class_of", functools.cache(lucene.break_class))
    analyzer = bare(name)
    characters = every_character(without=("Cn", "Co"))
    if name == "lucene-english":  # slow, and ideographs and syllables are all alike
        alike = [c for c in characters if len(unicodedata.name(c, "").split("-")) > 1]
        alike += [chr(code) for code in range(0xAC00, 0xD7A4)]
        # The reference takes half a minute over all of them.
        characters = sorted(set(characters) - set(alike))[::3] + alike[::97]
    for form in ("{} ", "a{}B中{}:{}:"):
        for at in range(0, len(characters), 8192):
            text = "".join(form.replace("{}", c) for c in characters[at : at + 8192])
            assert analyzer.tokens(text) == reference.tokens(text, name)


def test_a_character_that_starts_a_segment_changes_nothing_before_it():
    before = ("a", "\u1100", "\uac00", "e\u0301", "\u09c7", "か")
    for c in every_character():
        cuts = _core.unstable_segments("a" + c)
        assert ((0, 2) in cuts) == (len(reference.segments("a" + c)) == 1)
        if (0, 2) not in cuts:
            alone = reference.normalise(c)
            assert ((1, 2) in cuts) == (alone != c)
            for text in before:
                assert reference.normalise(text + c) == reference.normalise(text) + alone, (text, c)


def test_only_u0130_changes_length_in_lower_case():
    assert [c for c in map(chr, range(sys.maxunicode + 1)) if len(c.lower()) != 1] == ["\u0130"]
    assert _core.unicode_version() == unicodedata.unidata_version


IDENTIFIERS = {
    "max_allowed_packet": ["max_allowed_packet", "max", "allowed", "packet"],
    "allowPublicKeyRetrieval": ["allowpublickeyretrieval", "allow", "public", "key", "retrieval"],
    "std::vector": ["std::vector", "std", "vector"],
    "ER_LOCK_WAIT_TIMEOUT": ["er_lock_wait_timeout", "er", "lock", "wait", "timeout"],
    "__init__": ["__init__", "init"],
    "HTTPServer2Go": ["httpserver2go", "http", "server2go"],
    "a::b::c": ["a::b::c", "a", "b", "c"],
    "std::_Hash": ["std::_hash", "std", "hash"],
    "::x": ["x"],
    "x::": ["x"],
    "a:::b a:b": ["a", "b", "a", "b"],
    "____": [],
    "_::_": [],
    "\u0301": [],
    "iPhone iPHONE IPhone": [
        "iphone",
        "i",
        "phone",
        "iphone",
        "i",
        "phone",
        "iphone",
        "i",
        "phone",
    ],
    "ID ids IDs": ["id", "ids", "ids", "i", "ds"],
    "sha256sum": ["sha256sum"],
    "don't": ["don", "t"],
    "用户_id": ["用户", "_id", "id"],
    "ÉcoleNormale": ["écolenormale", "école", "normale"],
    "x\u030cY": ["x\u030cy", "x\u030c", "y"],
    "ΟΔΟΣ": ["οδος"],
    "İstanbul": ["i\u0307stanbul"],
    "ไทย": ["ไท", "ทย"],
}


@pytest.mark.parametrize(("text", "expected"), IDENTIFIERS.items())
def test_standard_v1_by_hand(text, expected):
    assert Analyzer().tokens(text) == expected
    assert reference.tokens(text) == expected


def test_spans_outside_changed_segments_stay_exact():
    alone = Analyzer().spans("x_e\u0348y")
    assert Analyzer().spans("x_e\u0348y \ufb01")[:-1] == alone
    assert alone == [Span("x_e\u0348y", 0, 5), Span("x", 0, 1), Span("e\u0348y", 2, 5)]


def test_spans_by_hand():
    assert Analyzer().spans("see Std::toString") == [
        Span("see", 0, 3),
        Span("std::tostring", 4, 17),
        Span("std", 4, 7),
        Span("to", 9, 11),
        Span("string", 11, 17),
    ]
    jamo = "\u1112\u1161\u11ab\u1100\u1173\u11af"  # composes to two syllables
    assert Analyzer().spans(jamo) == [Span("한글", 0, 6)]
    assert Analyzer().spans("İx ﷺ")[0] == Span("i\u0307x", 0, 2)
    assert {(s.start, s.end) for s in Analyzer().spans("\ufdfa")} == {(0, 1)}


@preset
@given(text=TEXTS)
def test_the_text_of_a_span_gives_its_token(name, text):
    analyzer = Analyzer(name)
    if unicodedata.is_normalized("NFKC", text) and "Σ" not in text and "\u0130" not in text:
        for token, start, end in analyzer.spans(text):
            assert analyzer.tokens(text[start:end])[0] == token


@given(
    text=TEXTS, terms=st.sets(st.sampled_from(["a", "b", "std", "a_b", "中文", "allow", "http"]))
)
def test_match_spans_are_the_union_of_matching_tokens(text, terms):
    analyzer = Analyzer()
    spans = analyzer.match_spans(text, terms)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))
    marked = {at for start, end in spans for at in range(start, end)}
    inside = [s for s in analyzer.spans(text) if s.token in terms]
    assert marked == {at for s in inside for at in range(s.start, s.end)}


def test_a_match_of_whole_and_parts_is_one_span():
    assert Analyzer().match_spans("a max_packet b", {"max_packet", "max", "packet"}) == [(2, 12)]
    assert Analyzer().match_spans("全文检索", ["全文", "文检"]) == [(0, 3)]


@pytest.mark.parametrize("corpus", COLLECTIONS, ids=lambda path: path.parent.name)
def test_collections_give_the_recorded_tokens(corpus):
    folder = corpus.parent
    analyzer = Analyzer("basic-v1")
    alone = (folder / "answer_spans.jsonl").exists()
    texts = {}
    for line in corpus.read_text(encoding="utf-8").split("\n"):
        if line:
            document = json.loads(line)
            both = (document["title"] + " " + document["text"]).strip()
            texts[document["_id"]] = document["text"] if alone else both
    joined = "\n".join(" ".join(analyzer.tokens(text)) for text in texts.values())
    oracle = json.loads((folder / "bm25" / "oracle.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(joined.encode("utf-8")).hexdigest()
    assert digest == oracle["index"]["tokens_sha256"]
    queries = (folder / "queries.jsonl").read_text(encoding="utf-8").split("\n")
    asked = {each["_id"]: each["text"] for each in map(json.loads, filter(None, queries))}
    sample = (folder / "tokens_basic_v1_sample.jsonl").read_text(encoding="utf-8").split("\n")
    for each in map(json.loads, filter(None, sample)):
        text = texts[each["doc"]] if "doc" in each else asked[each["query"]]
        assert analyzer.tokens(text) == each["tokens"]
        assert reference.tokens(text, "basic-v1") == each["tokens"]
        runs(text, "standard-v1")


@pytest.mark.skipif(not COLLECTIONS, reason=f"no collections under {SHARED}")
def test_collections_are_found():
    assert len(COLLECTIONS) >= 6


@pytest.mark.parametrize("letter", ["a", "é", "文", "\U0001d51e"])
@preset
def test_a_token_may_be_as_long_as_the_text(name, letter):
    text = "é" + letter * 1_000_000 if letter != "a" else letter * 10_000_000
    tokens = bare(name).tokens(text)
    if name == "lucene-english":
        assert "".join(tokens) == text
        assert max(map(len, tokens)) == {"文": 1, "\U0001d51e": 128}.get(letter, 255)
    elif letter == "文" and name != "bm25s":
        assert tokens == ["é", *["文文"] * 999_999]
    else:
        assert tokens == [text if name == "bm25s" else unicodedata.normalize("NFKC", text)]


def test_many_parts_in_one_identifier_cost_no_more_than_their_length():
    text = "aB_c::" * 200_000 + "x"
    tokens = Analyzer().tokens(text)
    assert tokens[0] == text.lower()
    assert tokens[1:] == [*["a", "b", "c"] * 200_000, "x"]


def test_views():
    text = "plain ASCII"
    cased, lowered = Analyzer().views(text)
    assert cased is text
    assert lowered is text
    assert Analyzer().views("\u0130ﬁẞ") == ("i\u0307fiẞ", "i\u0307fiß")


def test_errors_name_the_rule_and_the_remedy():
    with pytest.raises(
        ValueError, match="one of basic-v1, standard-v1, bm25s, lucene-english, got 'klingon'"
    ):
        Analyzer("klingon")
    with pytest.raises(
        ValueError, match="one of basic-v1, standard-v1, bm25s, lucene-english, got 'klingon'"
    ):
        Analyzer.from_meta({"name": "klingon", "unicode": unicodedata.unidata_version})
    with pytest.raises(
        ValueError, match="one of basic-v1, standard-v1, bm25s, lucene-english, got None"
    ):
        Analyzer.from_meta({})
    with pytest.raises(ValueError, match="one of basic-v1, standard-v1"):
        _core.tokenize("klingon", "a", "a")
    with pytest.raises(ValueError, match="one of basic-v1, standard-v1"):
        reference.tokens("a", "klingon")
    with pytest.raises(ValueError, match="same length, got 1 and 2"):
        _core.tokenize("basic-v1", "a", "ab")
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        Analyzer().tokens(b"bytes")  # type: ignore[arg-type]


def shouting(text: str) -> list[str]:
    return text.upper().split()


def test_a_users_callable_is_recorded_by_name_and_required_again():
    analyzer = Analyzer.of(shouting)
    assert analyzer.custom
    assert analyzer.tokens("two words") == ["TWO", "WORDS"]
    meta = json.loads(json.dumps(analyzer.to_meta()))
    assert meta["name"].endswith("test_analysis.shouting")
    with pytest.raises(ValueError, match="shouting, which cannot be stored; pass it at load"):
        Analyzer.from_meta(meta)
    assert Analyzer.from_meta(meta, analyzer) is analyzer
    with pytest.warns(UserWarning, match="shouting, standard-v1 was given"):
        Analyzer.from_meta(meta, Analyzer())
    with pytest.raises(ValueError, match="shouting is a callable and has no spans"):
        analyzer.spans("x")


def test_a_users_callable_must_give_tokens():
    with pytest.raises(TypeError, match="must be a callable"):
        Analyzer.of("standard-v1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got one str"):
        Analyzer.of(str.upper).tokens("x")
    with pytest.raises(TypeError, match="must return str tokens, got int"):
        Analyzer.of(lambda text: [1]).tokens("x")  # type: ignore[list-item]


@preset
def test_meta_round_trip(name):
    analyzer = Analyzer(name)
    meta = json.loads(json.dumps(analyzer.to_meta()))
    assert Analyzer.from_meta(meta) == analyzer
    assert pickle.loads(pickle.dumps(analyzer)) == analyzer
    other = PRESETS[1 - PRESETS.index(name)]
    with pytest.raises(ValueError, match=f"built with, Analyzer.'{name}'.*, got .*{other}"):
        Analyzer.from_meta(meta, Analyzer(other))
    with pytest.warns(UserWarning, match=r"Unicode 1\.1, this Python has Unicode \d"):
        assert Analyzer.from_meta(meta | {"unicode": "1.1"}) == analyzer
