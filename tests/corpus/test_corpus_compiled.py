"""What is compiled for processing documents says what plain Python says."""

from __future__ import annotations

import random
import sys
from itertools import pairwise

import msgspec
import pytest
from gnomon import CorruptIndex, _core
from gnomon.corpus import locate_many, names, process_document
from gnomon.corpus.rawmap import pack, rendered_at, rendered_many, runs
from gnomon.corpus.stored import StoredChunk, rendered, stored_chunks
from gnomon.corpus.words import _SPANNING, hits_of, in_bytes

PIECES = (
    *("max_size", "--max-size=3", "`ER_DUP`", "Cursor.execute()", "foo.bar(", "MariaDB", "10.4.2"),
    *("the", "option", "set", "to", "variables", "package", "bug", "#12345", "$HOME_DIR", "5.1"),
    *("Error", "1153", "(08S01)", "SQLSTATE", "'42000'", "pip", "install", "torch", "SET"),
    *(
        "import",
        "os",
        "\nusing",
        "Foo;",
        "\n[mysqld]",
        "\nkey",
        "= 3",
        "export",
        "PATH_X",
        "[client",
    ),
    *(
        "été",
        "日本",
        "naïve_name",
        "🦀",
        "\u2028",
        "\xa0",
        "\x1c",
        "x" * 90,
        "a_b" * 40,
        "Connector/J",
        "function()",
        "Bug",
        "123456",
        "(#1234)",
    ),
)
SPACES = (" ", " ", " ", "\n", "", "\t", "\u3000", " `", " (", '"')


def texts(count: int) -> list[str]:
    rng = random.Random(8)
    return [
        "".join(rng.choice(PIECES) + rng.choice(SPACES) for _ in range(rng.randrange(1, 40)))
        for _ in range(count)
    ]


def plain_hits(text: str) -> list[tuple[int, int, str]]:
    """The tokens, each word looked at by itself, without memory or compiled code."""
    found = set()
    at = 0
    for word in text.split():
        at = text.index(word, at)
        for match in names.TOKEN.finditer(word):
            begin, end = match.span(match.lastgroup or 0)
            found.add((at + begin, at + end, match.lastgroup or ""))
        at += len(word)
    words = set(text.split())
    for triggers, parts, pattern in _SPANNING:
        if words & triggers or any(part in text for part in parts):
            for match in pattern.finditer(text):
                for group in match.groupdict():
                    if match.start(group) >= 0:
                        found.add((*match.span(group), group))
    return sorted(found)


def test_the_tokens_of_texts_are_those_of_their_words() -> None:
    for text in texts(600):
        assert hits_of(text) == plain_hits(text)


def test_words_are_parted_where_str_split_parts_them() -> None:
    words: list[str] = []

    def lookup(word: str) -> tuple[int, list[tuple[int, int, int]]]:
        words.append(word)
        return 0, []

    text = "".join(f"x{chr(code)}" for code in range(sys.maxunicode + 1))
    _core.WordScanner(lookup, ["a"]).hits(text)
    expected = list(dict.fromkeys(text.split()))
    assert list(dict.fromkeys(words)) == expected


def test_a_scanner_looks_at_a_word_once_and_forgets_when_it_is_full() -> None:
    asked: list[str] = []

    def lookup(word: str) -> tuple[int, list[tuple[int, int, int]]]:
        asked.append(word)
        return len(word) % 2, [(0, 1, 1)]

    scanner = _core.WordScanner(lookup, ["a", "b"])
    assert scanner.hits("ab abc ab") == ([(0, 1, "b"), (3, 4, "b"), (7, 8, "b")], 1)
    assert asked == ["ab", "abc"]
    scanner.hits(" ".join(map(str, range(200_000))))
    assert len(scanner) < 200_000
    assert scanner.hits("ab") == ([(0, 1, "b")], 0)
    with pytest.raises(IndexError):
        _core.WordScanner(lambda word: (0, [(0, 1, 9)]), ["a"]).hits("x")
    with pytest.raises(ZeroDivisionError):
        _core.WordScanner(lambda word: 1 // 0, ["a"]).hits("x")


def mapped(rng: random.Random) -> tuple[bytes, list[int], str]:
    """Raw bytes, marks and the text that they make."""
    raw, text, marks = b"", "", []
    for _ in range(rng.randrange(1, 12)):
        skipped = rng.choice(("", "**", "<b>", "é"))
        shown = rng.choice(("word", "日本", "a b", "&amp;", "🦀x"))
        copied = shown != "&amp;"
        raw += (skipped + shown).encode()
        text += shown if copied else "&"
        marks += [len(skipped.encode()), len(shown.encode()), -1 if copied else 1]
    return raw, marks, text


def test_places_in_a_text_are_found_in_its_raw_bytes() -> None:
    rng = random.Random(3)
    for _ in range(400):
        _, marks, text = mapped(rng)
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(8))
        spans = [(a, b) for a, b in pairwise(cuts) if a < b]
        wanted = locate_many(pack(marks), in_bytes(text, spans))
        assert _core.locate_spans(text, marks, 0, spans) == wanted
        moved = [(a + 7, b + 7) for a, b in wanted]
        assert _core.locate_spans(text, marks, 7, spans) == moved
        assert _core.locate_spans(text, None, 0, spans) == in_bytes(text, spans)
    with pytest.raises(ValueError, match="behind the end"):
        _core.locate_spans("abc", [0, 2, -1], 0, [(1, 3)])


def test_raw_places_are_found_in_a_text_one_by_one_and_together() -> None:
    rng = random.Random(4)
    for _ in range(200):
        raw, marks, _ = mapped(rng)
        packed = pack(marks)
        places = sorted(rng.randrange(len(raw) + 2) for _ in range(6))
        found = rendered_many(packed, places)
        assert found == [rendered_at(packed, place) for place in places]
        for place, here in zip(places, found, strict=True):
            run = next((r for r in runs(packed) if place < r[3]), None)
            width = sum(b - a for a, b, _, _, _ in runs(packed))
            inside = 0 if run is None or not run[4] else max(place - run[2], 0)
            assert here == (width if run is None else run[0] + inside)


def test_a_text_is_kept_as_what_its_raw_bytes_do_not_say() -> None:
    rng = random.Random(5)
    for _ in range(400):
        raw, marks, text = mapped(rng)
        kept = _core.pack_text(raw, pack(marks), text.encode())
        assert kept is not None
        assert len(kept[0]) == len(marks)  # a byte a number
        assert _core.unpack_text(raw, *kept) == (pack(marks), text.encode())
        if marks[-1] == -1:
            assert _core.pack_text(raw[:-1] + b"!", pack(marks), text.encode()) is None
        assert _core.pack_text(raw, pack(marks), text.encode() + b"x") is None
    assert _core.pack_text(b"abc", b"", b"abc") == (b"", b"")
    assert _core.pack_text(b"abc", b"", b"") is None
    for place in (b"\x05\x01\x00", b"\x00", b"\xff\xff\xff\xff\xff", b"\x00\x01\x09"):
        with pytest.raises(CorruptIndex):
            _core.unpack_text(b"abc", place, b"")
    with pytest.raises(CorruptIndex):
        _core.unpack_text(b"abc", b"", b"x")


def test_texts_that_are_not_their_bytes_are_kept_whole() -> None:
    for raw in (b"bad \xff byte\n", "größer & **fett**\n".encode("utf-16"), b"a **b** &amp; c\n"):
        done = process_document(raw, "x", path="a.md")

        for chunk, record in zip(done.chunks, stored_chunks(done, raw), strict=True):
            stored = msgspec.msgpack.decode(record, type=StoredChunk)
            text = chunk.text.encode("utf-8", "surrogatepass")
            assert rendered(stored, memoryview(raw)) == (chunk.raw_map, text)


def test_screens_leave_out_only_what_does_not_match() -> None:
    rng = random.Random(6)
    ends = (
        *("MariaDB", "Percona Server", "Connector/vv", "Python", "release", "node", "version"),
        *("the variable", "properties", "propertys", "set the", "values of", "value for the"),
        *("option named", "settings are", "Enabling", "a package", "module", "namespace", "wage"),
    )
    signs = (
        "",
        " ",
        "`",
        "'",
        " `",
        ": ",
        "\n",
        " v",
        " V",
        " vv",
        '"',
        "[",
        "(",
        " [",
        "  ",
        " >= ",
        " <= ",
        "\xa0",
    )
    for _ in range(4000):
        text = "some words " * rng.randrange(4) + rng.choice(ends) + rng.choice(signs)
        text += rng.choice(("", "", "\n"))
        at = len(text)
        text += "max_size=3"
        assert names.after_product(text, at) == bool(
            names.PRODUCT.search(text[max(at - 40, 0) : at])
        )
        wanted = names.PACKAGE_BEFORE.search(text[max(at - 16, 0) : at])
        assert names.after_package(text, at) == bool(wanted)
        noun = names.NOUN_BEFORE.search(text[max(at - 40, 0) : at])
        assert bool(names.noun_before(text, at)) == bool(noun)
