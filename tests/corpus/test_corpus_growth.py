"""Documents made to be slow: four times the text takes about four times the time; none fails."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from gnomon.corpus.model import Source
from gnomon.corpus.prepare import Prepared, prepare
from gnomon.corpus.prepare_model import Task

SMALL = 12_000  # bytes; the large one has four times as many
FASTEST = 0.1  # seconds in which growth is not judged


def repeated(piece: str) -> Callable[[int], bytes]:
    return lambda size: (piece * (size // len(piece.encode()) + 1)).encode()


def nested(opening: str, closing: str) -> Callable[[int], bytes]:
    return lambda size: (opening * (size // 2) + closing * (size // 2)).encode()


def stairs(piece: str) -> Callable[[int], bytes]:
    """Lines, each further in than the one before."""
    return lambda size: "".join(" " * (2 * i) + piece for i in range(int(size**0.5))).encode()


CASES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    **{
        f"{ext} {piece}": (f"a.{ext}", repeated(piece))
        for ext in ("md", "html", "py", "java", "json", "txt", "rst")
        for piece in ("[", "*", "`", "<div>", "(", "x", "{")
    },
    "md links": ("a.md", repeated("[a](")),
    "md stars": ("a.md", repeated("**a ")),
    "md quotes": ("a.md", repeated("> ")),
    "md lists": ("a.md", stairs("- a\n")),
    "md tags": ("a.md", repeated("{% ")),
    "md heading": ("a.md", lambda size: b"# a" + b" " * size + b"{#"),
    "md names": ("a.md", repeated("max_size fooBar FooBar MAX_SIZE x() ")),
    "html tables": ("a.html", repeated("<table><tr><td>")),
    "java chain": ("a.java", lambda size: b"class A{void f(){a" + b".b()" * (size // 4) + b";}}"),
    "java types": ("a.java", repeated("A<")),
    "js templates": ("a.js", repeated("`")),
    "json arrays": ("a.json", nested("[", "]")),
    "py calls": ("a.py", repeated("f(")),
    "rst lists": ("a.rst", stairs("- a\n\n")),
    "txt parens": ("a.txt", nested("(", ")")),
}


def seconds(path: str, raw: bytes) -> float:
    began = time.process_time()
    [made] = prepare([Task(path, "", raw, "")], Source(name="docs")).documents
    assert isinstance(made, Prepared)
    assert not made.error
    assert made.kinds
    return time.process_time() - began


@pytest.mark.parametrize("name", CASES)
def test_four_times_the_text_takes_about_four_times_the_time(name: str) -> None:
    path, text = CASES[name]
    large = min(seconds(path, text(4 * SMALL)) for _ in range(2))
    if large > FASTEST:
        small = min(seconds(path, text(SMALL)) for _ in range(2))
        assert large < 8 * small, (small, large)


@pytest.mark.parametrize("name", ["java chain", "java types", "js templates", "rst lists"])
def test_what_nests_too_deeply_is_read_as_plain_text(name: str) -> None:
    path, text = CASES[name]
    [made] = prepare([Task(path, "", text(SMALL), "")], Source(name="docs")).documents
    assert "too" in made.fallback
    assert made.type == "plain"
