"""Source code: sections and relations of the tree against what plain scanning finds."""

from __future__ import annotations

import pytest
from corpora import FULL, files_of, more_texts
from corpus_checks import check
from gnomon.corpus import process_document
from hypothesis import given
from hypothesis import strategies as st
from java_oracle import supertypes

NAME = st.sampled_from(["Alpha", "Beta", "Gamma", "Delta", "Eps1"])
TYPE = st.builds(
    lambda package, name, generic: package + name + generic,
    st.sampled_from(["", "", "p.q."]),
    NAME,
    st.sampled_from(["", "", "<T>", "<Map<K, V>>"]),
)
NOISE = st.sampled_from(
    [
        "",
        "// class Fake extends Wrong\n",
        "/* interface No extends Never {} */",
        '@Ann("class A")\n',
    ]
)


@st.composite
def java_types(draw: st.DrawFn, depth: int = 0) -> str:
    kind = draw(st.sampled_from(["class", "interface", "enum", "record"]))
    head = f"{draw(NOISE)}public {kind} {draw(NAME)}"
    head += (
        draw(st.sampled_from(["", "<T extends Number>"])) if kind in ("class", "interface") else ""
    )
    head += "(int a, String b)" if kind == "record" else ""
    if kind == "class" and draw(st.booleans()):
        head += f" extends {draw(TYPE)}"
    if draw(st.booleans()):
        word = "extends" if kind == "interface" else "implements"
        head += f" {word} " + ",\n ".join(draw(st.lists(TYPE, min_size=1, max_size=3)))
    inner = draw(java_types(depth=depth + 1)) if depth < 2 and draw(st.booleans()) else ""
    start = "A, B;" if kind == "enum" else ""
    return f'{head} {{ {start} String s = "class X extends Y {{"; {inner} }}\n'


@given(st.lists(java_types(), min_size=1, max_size=3))
def test_supertypes_of_java_equal_the_scanner(types: list[str]) -> None:
    """Check 12: of generated types."""
    source = "package a.b;\n" + "\n".join(types)
    if "interface" in source:
        source = source.replace("String s = ", "static String s = ")
    done = check(source.encode(), "A.java")
    wanted = {(relation, a.lower(), b.lower()) for relation, a, b in supertypes(source)}
    found = {
        (r.type, r.source.partition(":")[2].rsplit(".", 1)[-1], r.target.partition(":")[2])
        for r in done.relations
        if r.type in ("inherits", "implements")
    }
    assert found == wanted


def relations_of(raw: bytes, path: str) -> set[tuple[str, str, str]]:
    done = process_document(raw, "java", path=path)
    return {
        (r.type, r.source.partition(":")[2].rsplit(".", 1)[-1], r.target.partition(":")[2])
        for r in done.relations
        if r.type in ("inherits", "implements")
    }


@pytest.mark.skipif(not FULL, reason="set GNOMON_CORPUS_FULL=1; generated types stand above")
def test_supertypes_of_a_java_project_equal_the_scanner() -> None:
    """Check 12: "inherits" and "implements" of the 544 Java files of MySQL Connector/J."""
    files = files_of(more_texts("java/src/main"), ".java")
    edges = 0
    for path, raw in files:
        wanted = {(kind, a.lower(), b.lower()) for kind, a, b in supertypes(raw.decode())}
        assert relations_of(raw, path) == wanted, path
        edges += len(wanted)
    print(f"{len(files)} files, {edges} relations")
    assert len(files) >= 500
    assert edges > 300


PYTHON = b'''"""Module."""
import os.path
from a.b import c

LIMIT = 3


# About A.
@decorated
class A(Base, m.Mixin):
    """Doc."""

    def f(self, x, *rest, y=1):
        raise Broken(x)

    def g(self):
        return self.f(1)


def h(q):
    return A().g()


if __name__ == "__main__":
    h(1)
'''


def test_python_sections_and_relations() -> None:
    done = check(PYTHON, "m.py")
    titles = [section.path for section in done.sections]
    assert titles == [(), ("A",), ("A", "A.f"), ("A", "A.g"), ("h",), ("(module)",)]
    first = PYTHON[slice(*done.sections[1].span)]
    assert first.startswith(b"# About A.\n@decorated\nclass A")
    relations = {
        (r.type, r.source, r.target) for r in done.relations if r.type not in ("parent", "next")
    }
    assert relations == {
        ("inherits", "class:a", "class:base"),
        ("inherits", "class:a", "class:mixin"),
        ("defines", "class:a", "function:a.f"),
        ("defines", "class:a", "function:a.g"),
        ("parameter-of", "parameter:a.f.x", "function:a.f"),
        ("parameter-of", "parameter:a.f.rest", "function:a.f"),
        ("parameter-of", "parameter:a.f.y", "function:a.f"),
        ("parameter-of", "parameter:h.q", "function:h"),
        ("calls", "function:a.f", "class:broken"),
        ("calls", "function:a.g", "function:a.f"),
        ("calls", "function:h", "function:a.g"),
        ("calls", "function:h", "class:a"),
        ("throws", "function:a.f", "class:broken"),
    }
    packages = {e.name for e in done.entities if e.type == "package"}
    assert packages == {"os.path", "a.b"}


@pytest.mark.parametrize(
    ("path", "source", "wanted"),
    [
        ("a.go", b"package p\nfunc (t *T) M() { P() }\n", ("calls", "function:t.m", "function:p")),
        ("a.c", b"static int *f(int a) { return g(a); }\n", ("calls", "function:f", "function:g")),
        ("a.js", b"class A { f() { throw new E() } }\n", ("throws", "function:a.f", "class:e")),
        ("a.ts", b"export class A implements C, D<T> { }\n", ("implements", "class:a", "class:d")),
        ("a.tsx", b"interface I extends J { }\n", ("inherits", "class:i", "class:j")),
    ],
)  # fmt: skip
def test_other_languages(path: str, source: bytes, wanted: tuple[str, str, str]) -> None:
    done = check(source, path)
    assert wanted in {(r.type, r.source, r.target) for r in done.relations}


def test_code_without_a_grammar_is_shown_as_it_is() -> None:
    raw = b"SELECT 1;\n\n-- note\nSELECT 2;\n"
    done = check(raw, "q.sql")
    assert [chunk.text for chunk in done.chunks] == [raw.decode()]
    assert done.chunks[0].kind == "code"


def test_long_functions_are_cut_at_lines_and_marked() -> None:
    body = b"".join(b"    line_%d = call(%d)\n" % (i, i) for i in range(400))
    raw = b"def f():\n" + body
    done = process_document(raw, "s", path="f.py")
    assert len(done.chunks) > 4
    assert [chunk.continued for chunk in done.chunks] == [False] + [True] * (len(done.chunks) - 1)
    assert all(raw[chunk.span[1] - 1 : chunk.span[1]] == b"\n" for chunk in done.chunks)
