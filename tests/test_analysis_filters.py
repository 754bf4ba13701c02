"""Stop words, stemmers and synonyms: compiled, Python and reference give the same tokens."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import gnomon
import pytest
from gnomon import _core
from gnomon.analysis import PRESETS, Analyzer, Span
from gnomon.analysis_filters import STEMMERS, STOP_WORD_LANGUAGES, stop_words
from gnomon.reference import analysis_filters as reference
from gnomon.reference import lucene, porter
from hypothesis import example, given
from hypothesis import strategies as st

Stemmer = pytest.importorskip("Stemmer", reason="the extra stem")

WORDS = [
    *("the", "The", "cars", "car", "motor", "vehicles", "new", "York", "NYC", "running", "a", "of"),
    *("max_sizes", "allowPublicKeys", "std::vectors", "x9B", "HTTPServers", "ER_LOCKS", "dog's"),
    *("中文检索", "ไทย", "العربية", "والكتاب", "Häuser", "ﬁshes", "İstanbul", "ΟΔΟΣ", "👩‍💻", "é"),
]
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=12).map(" ".join)
SYNONYMS = {
    "cars": ["motor vehicles", "automobile"],
    "New York": "NYC",
    "new": "recent",
    "max_sizes": "limit",
    "中文": "汉语",
}


def stem_one(name: str) -> Any:
    if name == "none":
        return None
    if name == "porter":
        return porter.stem
    return Stemmer.Stemmer(name, 0).stemWord


def expected(analyzer: Analyzer, text: str, side: str) -> list[tuple[str, int, int]]:
    """The reference's tokens. The rules are cut by the reference, too."""
    options = analyzer.options
    stops = options["stop_words"]
    stops = set(stop_words(stops) if isinstance(stops, str) else stops)
    stem = stem_one(options["stemmer"])

    def cut(phrase: str) -> tuple[str, ...]:
        found = reference.filtered(phrase, analyzer.name, stops, stem)
        return tuple(token for token, _, _ in found)

    rules: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for phrase, others in options["synonyms"].items():
        for other in others:
            rules.setdefault(cut(phrase), []).append(cut(other))
    flat = [(key, tuple(t for other in others for t in other)) for key, others in rules.items()]
    applied = flat if options["synonyms_at"] == side else []
    return reference.filtered(text, analyzer.name, stops, stem, applied)


ANALYZERS = [
    Analyzer(preset, stemmer=stemmer, stop_words=stops, synonyms=synonyms, synonyms_at=side)
    for preset, stemmer, stops, synonyms, side in [
        *[(preset, "english", "english", SYNONYMS, "index") for preset in PRESETS],
        *[(preset, "porter", ["the", "x9b", "max_sizes"], {}, "query") for preset in PRESETS[:3]],
        ("standard-v1", "none", [], SYNONYMS, "index"),
        ("standard-v1", "none", "english", SYNONYMS, "query"),
        ("standard-v1", "arabic", "arabic", None, "query"),
        ("basic-v1", "german", "german", None, "query"),
        ("bm25s", None, None, None, "query"),
        ("lucene-english", None, None, None, "query"),
    ]
]


@pytest.mark.parametrize("analyzer", ANALYZERS, ids=repr)
@given(text=TEXTS)
@example(text="new York new York NYC the cars max_sizes max sizes")
@example(text="the the a")
def test_tokens_and_spans_equal_the_reference(analyzer: Analyzer, text: str) -> None:
    documents = expected(analyzer, text, "index")
    assert analyzer.spans(text) == [Span(*token) for token in documents]
    assert analyzer.tokens(text) == [token for token, _, _ in documents]
    queries = expected(analyzer, text, "query")
    assert analyzer.query_tokens(text) == [token for token, _, _ in queries]


@pytest.mark.parametrize("analyzer", ANALYZERS, ids=repr)
@given(texts=st.lists(TEXTS, max_size=6), cut=st.integers(0, 6))
def test_an_index_holds_the_tokens_of_its_documents(
    analyzer: Analyzer, texts: list[str], cut: int
) -> None:
    builder = _core.Bm25Builder(with_vocabulary=True)
    prepare = analyzer.feed(builder)
    for part in (texts[:cut], texts[cut:]):
        prepare(part)()
    core = builder.finish()
    tokens = [[token for token, _, _ in expected(analyzer, text, "index")] for text in texts]
    from_tokens = _core.Bm25Builder(with_vocabulary=True)
    from_tokens.add_tokens(tokens)
    other = from_tokens.finish()
    assert (core.n_docs, core.n_tokens(), core.n_terms) == (
        other.n_docs,
        other.n_tokens(),
        other.n_terms,
    )
    for token in sorted({token for document in tokens for token in document}):
        # Equal ids as well: terms are numbered by first occurrence.
        assert core.lookup([[token]])[0].tolist() == other.lookup([[token]])[0].tolist()
        ids, _ = core.lookup([[token]])
        one, two = core.postings(int(ids[0])), other.postings(int(ids[0]))
        assert [array.tolist() for array in one] == [array.tolist() for array in two]
    core.verify()


@pytest.mark.parametrize("analyzer", [Analyzer(stemmer="porter"), Analyzer("bm25s")], ids=repr)
def test_a_builder_goes_on_after_an_index_was_made_of_it(analyzer: Analyzer) -> None:
    builder = _core.Bm25Builder(with_vocabulary=True)
    prepare = analyzer.feed(builder)
    for texts in (["running dogs", "dogs"], ["cats running", "dogs"]):
        prepare(texts)()
        core = builder.finish()
        core.verify()
        words = Counter(token for text in texts for token in analyzer.tokens(text))
        assert core.n_terms == len(words)
        assert core.lookup([list(words)])[0].size == len(words)


def test_synonyms_where_they_apply() -> None:
    texts = ["new cars", "motor", "NYC"]
    synonyms = {"cars": "motor", "new york": ["nyc", "big apple"]}
    at_query = gnomon.BM25Index.build(texts, analyzer=Analyzer(synonyms=synonyms))
    assert sorted(at_query.search("cars").ids.tolist()) == [0, 1]
    assert at_query.search("motor").ids.tolist() == [1]
    assert sorted(at_query.search("new york").ids.tolist()) == [0, 2]
    assert at_query.n_tokens == 4
    at_index = gnomon.BM25Index.build(
        texts, analyzer=Analyzer(synonyms=synonyms, synonyms_at="index")
    )
    assert at_index.search("motor").ids.tolist() == [1, 0]
    assert at_index.search("cars").ids.tolist() == [0]
    assert at_index.n_tokens == 5


def test_expansions_have_the_span_of_their_cause() -> None:
    analyzer = Analyzer(synonyms={"New York": "big apple", "york": "jorvik"}, synonyms_at="index")
    assert analyzer.spans("in New-York, York") == [
        Span("in", 0, 2),
        Span("new", 3, 6),
        Span("york", 7, 11),
        Span("big", 3, 11),
        Span("apple", 3, 11),
        Span("york", 13, 17),
        Span("jorvik", 13, 17),
    ]
    assert analyzer.match_spans("in New-York, York", {"apple"}) == [(3, 11)]


IDENTIFIERS = {
    "max_allowed_packets": ["max_allowed_packets", "max", "allow", "packet"],
    "allowPublicLocks": ["allowpubliclocks", "allow", "public", "lock"],
    "std::vectors": ["std::vectors", "std", "vector"],
    "ER_LOCK_WAIT_TIMEOUTS": ["er_lock_wait_timeouts", "er", "lock", "wait", "timeout"],
    "vectors": ["vector"],
}


@pytest.mark.parametrize(("text", "tokens"), IDENTIFIERS.items())
@pytest.mark.parametrize("stemmer", ["english", "porter"])
def test_a_stemmer_leaves_whole_identifiers(stemmer: str, text: str, tokens: list[str]) -> None:
    assert Analyzer(stemmer=stemmer).tokens(text) == tokens
    index = gnomon.BM25Index.build(["nothing", f"{text} here"], analyzer=Analyzer(stemmer=stemmer))
    for query in (text, *tokens[1:]):
        assert index.search(query).ids.tolist() == [1]


@pytest.mark.parametrize("language", STOP_WORD_LANGUAGES)
def test_shipped_stop_words(language: str) -> None:
    words = stop_words(language)
    assert 80 < len(words) < 400
    assert all(word == word.lower().strip() and " " not in word for word in words)
    some = max(words, key=len)
    assert Analyzer(stop_words=language).tokens(f"{some} zzz") in (["zzz"], [some, "zzz"])
    assert Analyzer("basic-v1", stop_words=language).tokens("zzz") == ["zzz"]


def test_lucenes_stop_words_are_one_list() -> None:
    assert stop_words("lucene-english") == lucene.STOP_WORDS
    assert len(lucene.STOP_WORDS) == 33


@pytest.mark.parametrize("name", [name for name in STEMMERS if name not in ("none", "porter")])
def test_every_stemmer_named_here_exists(name: str) -> None:
    assert Analyzer(stemmer=name).tokens("words") == [Stemmer.Stemmer(name).stemWord("words")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stemmer": "klingon"}, ValueError, "stemmer must be one of none, porter, .*'klingon'"),
        ({"stop_words": "klingon"}, ValueError, "stop_words must be a list .*'klingon'"),
        ({"stop_words": 5}, TypeError, "stop_words must be a name or a list of words, got int"),
        ({"stop_words": [5]}, TypeError, "stop_words must hold str, got int"),
        ({"synonyms": ["a"]}, TypeError, "synonyms must be a mapping .* got list"),
        ({"synonyms": {5: "a"}}, TypeError, "a phrase must be a str, got int"),
        ({"synonyms": {"a": 5}}, TypeError, "synonyms of 'a' must be a str or a list of str"),
        ({"synonyms": {"a": [5]}}, TypeError, "synonyms of 'a' must be a str or a list of str"),
        ({"synonyms": {"!": "a"}}, ValueError, "the analyzer leaves nothing of '!'; remove it"),
        ({"synonyms": {"a": "?"}}, ValueError, "nothing of '\\?', a synonym of 'a'"),
        ({"synonyms_at": "never"}, ValueError, "synonyms_at must be one of query, index"),
    ],
)
def test_errors_name_the_option(options: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        Analyzer(**options)


def test_without_pystemmer_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['Stemmer'] = None\n"
        "import gnomon\n"
        "print(gnomon.Analyzer(stemmer='porter').tokens('running'))\n"
        "try: gnomon.Analyzer(stemmer='english')\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "['run']"
    assert 'pip install "gnomon[stem]"' in done.stdout


# ----------------------------------------------------------------------------------- in an index
@pytest.mark.parametrize("analyzer", ANALYZERS, ids=repr)
def test_saved_with_the_index(analyzer: Analyzer, tmp_path: Path) -> None:
    texts = ["The new cars of New York", "running max_sizes", "والكتاب", "Häuser"]
    index = gnomon.BM25Index.build(texts, analyzer=analyzer)
    index.save(tmp_path / "index")
    loaded = gnomon.BM25Index.load(tmp_path / "index")
    assert loaded.analyzer == analyzer
    assert loaded.analyzer is not None
    assert loaded.analyzer.options == analyzer.options
    for query in (*texts, "car", "NYC"):
        found, again = index.search(query), loaded.search(query)
        assert found.ids.tolist() == again.ids.tolist()
        assert found.scores.tolist() == again.scores.tolist()
    copy = pickle.loads(pickle.dumps(analyzer))
    assert copy == analyzer
    assert copy.query_tokens(texts[0]) == analyzer.query_tokens(texts[0])


def test_synonyms_of_queries_may_change_at_load() -> None:
    meta = json.loads(json.dumps(Analyzer(stemmer="porter", synonyms={"a": "b"}).to_meta()))
    other = Analyzer(stemmer="porter", synonyms={"a": "c"})
    assert Analyzer.from_meta(meta, other) is other
    with pytest.raises(ValueError, match="must be the one the index was built with"):
        Analyzer.from_meta(meta, Analyzer(stemmer="porter", stop_words=["x"]))
    at_index = Analyzer(synonyms={"a": "b"}, synonyms_at="index")
    with pytest.raises(ValueError, match="synonyms_at='index'"):
        Analyzer.from_meta(at_index.to_meta(), Analyzer())


FULL = Analyzer(stemmer="english", stop_words="english", synonyms={"x": "y"}).to_meta()


@pytest.mark.parametrize(
    "change",
    [
        *[{key: value} for key in FULL["filters"] for value in (5, None, [5], {"a": 1})],
        *({"version": 2}, {"version": True}, {"stemmer": "klingon"}, {"stop_words": "klingon"}),
        *({"synonyms": [["a"]]}, {"synonyms": [["a", "b"]]}, {"synonyms": [["!", ["b"]]]}),
        *({"synonyms": [["a", [5]]]}, {"synonyms_at": "never"}, {"more": 1}),
    ],
    ids=str,
)
def test_forged_options_are_refused(change: dict[str, Any]) -> None:
    meta = json.loads(json.dumps(FULL))
    forged = meta | {"filters": meta["filters"] | change}
    if change.keys() & {"snowball", "stop_words_sha256"}:
        with pytest.warns(UserWarning, match="the index was built with"):
            Analyzer.from_meta(forged)
    else:
        rule = "damaged|version|must be|leaves nothing"
        with pytest.raises((ValueError, gnomon.CorruptIndex), match=rule):
            Analyzer.from_meta(forged)


@pytest.mark.parametrize(
    "missing", sorted(set(FULL["filters"]) - {"snowball", "stop_words_sha256"})
)
def test_options_with_an_entry_missing_are_refused(missing: str) -> None:
    meta = json.loads(json.dumps(FULL))
    del meta["filters"][missing]
    with pytest.raises(gnomon.CorruptIndex, match="the index's analyzer is damaged"):
        Analyzer.from_meta(meta)
    with pytest.raises(gnomon.CorruptIndex, match="damaged"):
        Analyzer.from_meta(meta | {"filters": [1]})


def test_a_stemmer_serves_threads() -> None:
    analyzer = Analyzer(stemmer="english")
    words = [f"running{number}s jumping" for number in range(300)]
    alone = [analyzer.tokens(word) for word in words]
    found: dict[int, list[list[str]]] = {}

    def work(place: int) -> None:
        found[place] = [analyzer.tokens(word) for word in words]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [alone] * 4


def test_what_stems_must_fit() -> None:
    def texts(stem: Any, rules: Any = ()) -> _core.FilteredTexts:
        return _core.FilteredTexts(_core.Bm25Builder(True), "standard-v1", [], stem, rules)

    with pytest.raises(ValueError, match="a list of one stem a word, 1"):
        texts(lambda words: []).add(["word"], ["word"])
    with pytest.raises(ValueError, match="a list of one stem a word, 1"):
        texts(lambda words: "w").add(["word"], ["word"])
    with pytest.raises(TypeError, match="must return str"):
        texts(lambda words: [5]).add(["word"], ["word"])
    with pytest.raises(ValueError, match='None, "porter" or a function'):
        texts("klingon")
    with pytest.raises(ValueError, match="at least one token"):
        texts(None, [([], ["a"])])
    with pytest.raises(ValueError, match="the same length"):
        texts(None).add(["word"], [])
