"""Sources: every kind of file gives its documents; nothing that lies in a folder stops the rest."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from gnomon.documents import Document, Options, decode
from gnomon.html_text import html_to_text
from gnomon.sources import Sources


def read(path: Path | str, **options: Any) -> tuple[list[Document], Sources]:
    sources = Sources([str(path)], Options(**options))
    return list(sources), sources


def texts(path: Path, **options: Any) -> list[str]:
    found, sources = read(path, **options)
    assert not sources.problems, sources.problems
    return [document.text for document in found]


def problem(path: Path, **options: Any) -> str:
    """The only problem of a file that gives nothing."""
    found, sources = read(path, **options)
    assert found == []
    assert len(sources.problems) == 1, sources.problems
    return sources.problems.first[0]


def test_walks_in_order_and_leaves_hidden_and_foreign_files(tmp_path: Path) -> None:
    for name in [
        "b.txt",
        "a/z.md",
        "a/y.RST",
        "c.py",
        ".hidden.txt",
        ".git/x.txt",
        "p.png",
        "a.htm",
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found, sources = read(tmp_path)
    assert [document.text for document in found] == ["a.htm", "b.txt", "c.py", "a/y.RST", "a/z.md"]
    assert sources.other_files == 1
    assert sources.bytes_read == sources.bytes_total == sum(len(d.text) for d in found)
    assert texts(tmp_path / ".hidden.txt") == [".hidden.txt"]
    assert texts(tmp_path / "p.png") == ["p.png"]


def test_links_that_loop_and_paths_given_twice_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("once")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    sources = Sources([str(tmp_path), str(tmp_path / "sub" / "a.txt"), str(tmp_path)])
    assert [document.text for document in sources] == ["once"]


def test_the_parent_of_a_linked_folder_is_not_the_folder_of_the_link(tmp_path: Path) -> None:
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "far" / "a.txt").write_text("there")
    (tmp_path / "a.txt").write_text("here")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    assert [document.text for document in Sources([f"{tmp_path}/link/../a.txt"])] == ["there"]


def test_the_text_is_exactly_that_of_the_file(tmp_path: Path) -> None:
    content = "\r\n\r\na\tb\r\nc\rd\u2028e\u0301\n\n"
    (tmp_path / "x.txt").write_bytes(content.encode())
    found, _ = read(tmp_path)
    assert found == [Document(str(tmp_path / "x.txt"), content, "", 1, True)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-8"])
def test_byte_order_marks_are_honoured(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "x.txt").write_bytes("né 漢字".encode(encoding))
    assert texts(tmp_path) == ["né 漢字"]


def test_other_encodings_are_declared_or_named_and_never_guessed(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes("né".encode("cp1252"))
    assert "not UTF-8 (byte 1; name it with --encoding)" in problem(tmp_path)
    assert texts(tmp_path, encoding="cp1252") == ["né"]
    assert "nor shift_jis" in problem(tmp_path, encoding="shift_jis")
    page = '<meta charset="gb18030"><p>漢字'.encode("gb18030")
    (tmp_path / "x.txt").unlink()
    (tmp_path / "x.html").write_bytes(page)
    (tmp_path / "y.py").write_bytes('# -*- coding: latin-1 -*-\n"é"'.encode("latin-1"))
    assert texts(tmp_path) == ["漢字", '# -*- coding: latin-1 -*-\n"é"']
    assert decode("né".encode("utf-16-le"), "utf-16-le") == "né"
    with pytest.raises(ValueError, match="encoding must be a text encoding that Python knows"):
        Options(encoding="klingon")
    with pytest.raises(ValueError, match="got 'zlib'"):
        Options(encoding="zlib")


@pytest.mark.parametrize("codec", ["undefined", "idna", "punycode", "hex", "no-such"])
def test_a_file_that_declares_a_strange_codec_is_reported(tmp_path: Path, codec: str) -> None:
    (tmp_path / "x.py").write_bytes(f"# coding: {codec}\n".encode() + b"\xff..")
    assert f"not UTF-8 (nor {codec})" in problem(tmp_path)


def test_hostile_files_are_reported_and_the_others_read(tmp_path: Path) -> None:
    (tmp_path / "binary.txt").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "empty.md").touch()
    (tmp_path / "blank.md").write_text(" \n\t\r\n")
    (tmp_path / "latin.rst").write_bytes(b"\xe9t\xe9")
    (tmp_path / "huge.txt").write_text("x" * 9999)
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nothing")
    (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "cut16.txt").write_bytes("né".encode("utf-16") + b"x")
    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "late_nul.txt").write_bytes(b"x" * 9000 + b"\0 late zero byte")
    found, sources = read(tmp_path, max_bytes=9990)
    assert [Path(d.path).name for d in found] == ["good.txt", "late_nul.txt"]
    assert sources.problems.counts == {
        "binary": 1,
        "empty": 2,
        "not UTF-8": 2,
        "too large": 1,
        "unreadable": 2,
        "not a regular file": 1,
    }
    assert any(
        "huge.txt: too large (9,999 bytes, --max-bytes is 9,990)" in line
        for line in sources.problems.first
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_files_without_permission(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("secret")
    (tmp_path / "x.txt").chmod(0)
    assert "unreadable (Permission denied)" in problem(tmp_path)


def test_a_file_that_goes_away_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("here")
    sources = Sources([str(tmp_path)])
    (tmp_path / "x.txt").unlink()
    assert list(sources) == []
    assert sources.problems.counts == {"unreadable": 1}


@pytest.mark.parametrize(
    "name", [b"a b.txt", b"new\nline.txt", b"\xff\xfe.txt", "漢.txt".encode(), b"-x.txt"]
)
def test_any_file_name(tmp_path: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), name)
    try:
        with open(path, "wb") as file:
            file.write(b"text")
    except OSError:
        pytest.skip("the file system refuses this name")
    found, _ = read(tmp_path)
    assert os.fsencode(found[0].path) == path


def test_a_missing_path_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder: nowhere"):
        Sources(["nowhere"])


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '\ufeff{"_id":"d1","title":"T","text":"body"}\n\n{"_id":7,"text":"\\ud800"}\r\n'
    )
    found, _ = read(path)
    assert found == [Document(str(path), "T body", "d1", 1), Document(str(path), "\ud800", "7", 3)]
    path.write_text('{"id":1,"abstract":["One.","Two."],"h":"x"}')
    assert texts(path) == ["One. Two."]
    assert texts(path, text_field="h") == ["x"]
    assert texts(path, title_field="h") == ["x One. Two."]


def test_broken_json_lines_are_named_and_the_others_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.ndjson"
    lines = [
        '{"text":"a"}',
        "{broken",
        "[1]",
        '{"x":1}',
        '{"text":3}',
        '{"text":""}',
        "[" * 100_000,
    ]
    lines += ['{"text":"' + "x" * 200_000 + '"}', '{"text":"b"}']
    path.write_bytes("\n".join(lines).encode() + b'\n{"text":"\xff"}\n{"text":"c"}')
    found, sources = read(path, max_bytes=150_000)
    assert [(d.text, d.line) for d in found] == [("a", 1), ("b", 9), ("c", 11)]
    assert sources.problems.counts == {
        "bad JSON": 3,
        "no text field": 1,
        "not text": 1,
        "empty": 1,
        "too large": 1,
        "not UTF-8": 1,
    }
    report = "\n".join(sources.problems.first)
    assert f"{path}:2: bad JSON" in report
    assert "fields found: 'x'; name the right one with --text-field" in report


def test_csv_and_tsv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(
        b'\xef\xbb\xbfid,title,text\r\n1,T,"two\r\nlines, ""q"""\r\n\r\n2,,plain\r\n3,x\r\n'
    )
    found, sources = read(path)
    assert [(d.id, d.text, d.line) for d in found] == [
        ("1", 'T two\r\nlines, "q"', 2),
        ("2", "plain", 5),
    ]
    assert sources.problems.first == [f"{path}:6: bad CSV row (2 fields, the header has 3)"]
    path = tmp_path / "y.tsv"
    path.write_text('id\ttext\n1\tan "odd quote\n2\tnext\n', encoding="utf-16")
    assert texts(path) == ['an "odd quote', "next"]


def test_csv_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    assert (
        "no text field (fields found: 'a', 'b'; name the right one with --text-field)"
        in problem(path)
    )
    assert texts(path, text_field="b") == ["2"]
    assert "no id field" in problem(path, text_field="b", id_field="zz")
    path.write_text("")
    assert "empty" in problem(path)
    path.write_bytes(b"text\n\xe9\n")
    assert "not UTF-8" in problem(path)
    assert texts(path, encoding="latin-1") == ["é"]
    path.write_bytes(b"text\n" + b"x" * 5000)
    assert "too large" in problem(path, max_bytes=1000)
    path.write_text('text\n"never closed\n' + "more\n" * 1000)
    assert "bad CSV" in problem(path, max_bytes=1000)
    path.write_bytes(b"text\n\0")
    assert "binary" in problem(path)


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    rows = [{"_id": n, "text": f"text {n}" if n != 5 else None, "other": 1.5} for n in range(3000)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    found, sources = read(path)
    assert [d.text for d in found] == [f"text {n}" for n in range(3000) if n != 5]
    assert found[-1].id == "2999"
    assert sources.problems.first == [f"{path} row 6: empty"]
    assert "fields found: '_id', 'text', 'other'" in problem(path, text_field="body")
    path.write_bytes(path.read_bytes()[:-7])
    assert "bad Parquet" in problem(path)
    path.write_bytes(b"")
    assert "empty" in problem(path)


def test_parquet_that_unpacks_to_far_more_than_its_size(tmp_path: Path) -> None:
    """Records beyond the limit are left out though the file is far below it."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    texts = pyarrow.array(["w " * 100_000] * 500 + ["good", "\U0001f600" * 12_500, "x" * 50_001])
    parquet.write_table(pyarrow.table({"text": texts.dictionary_encode()}), path)
    assert path.stat().st_size < 50_000
    found, sources = read(path, max_bytes=50_000)
    assert [len(document.text) for document in found] == [4, 12_500]
    assert sources.problems.counts == {"too large": 501}


def test_parquet_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    assert "no Parquet reader (install it with: pip install 'gnomon[parquet]')" in problem(tmp_path)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<title>T</title><p>a<p>b<br>c", "T\n\na\n\nb\nc"),
        ("a&amp;b &#x4e2d; <i>x</i>y", "a&b 中 xy"),
        ("<style>p{}</style>x<script>if (a<b) '</p>'</script>y", "xy"),
        ("<pre>a\n   b</pre>", "a\n   b"),
        ("a   \n  b", "a b"),
        ("<table><tr><td>1<td>2<tr><td>3", "1\t2\n3"),
        ("<!-- no --><![CDATA[x]]><?php y ?>z", "z"),
        ("<", "<"),
        ("", ""),
    ],
)
def test_html(page: str, text: str) -> None:
    assert html_to_text(page) == text


@pytest.mark.parametrize(
    "page",
    ["<![if x", "<!DOCTYPE [<!x", "<![bad[x]]>y", "<!a b <c>", "</", "&#xffffffff;", "<a " * 2000],
)
def test_html_of_any_kind_gives_some_text(page: str) -> None:
    assert isinstance(html_to_text("<p>before</p>" + page), str)


def test_html_files_have_no_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("<p>a</p>\n<p>b</p>")
    found, _ = read(tmp_path)
    assert found == [Document(str(tmp_path / "x.html"), "a\n\nb")]
    (tmp_path / "x.html").write_text("<p></p>")
    assert "empty" in problem(tmp_path)


def test_problems_keep_only_the_first(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{\n" * 50 + json.dumps({"text": "good"}))
    found, sources = read(tmp_path)
    assert len(found) == 1
    assert len(sources.problems) == 50
    assert len(sources.problems.first) == 20


@pytest.mark.parametrize(
    "unit",
    [
        "<!--",
        "<![CDATA[",
        "<?",
        "<!x",
        "</a ",
        "<a ",
        "<a x='",
        "<a x='<a x=\"",
        '<a x=">" ',
        "<a =",
    ],
)
def test_html_that_is_never_closed_takes_linear_time(unit: str) -> None:
    """html.parser, used before, takes minutes for each of these."""
    began = time.process_time()  # a busy machine takes no processor time of ours
    html_to_text("<p>before" + unit * 20_000)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("&#" + "9" * 5000 + ";x", "\ufffdx"),
        ("&#" + "0" * 5000 + "65;x", "Ax"),
        ("&#" + "0" * 5000 + ";x", "\ufffdx"),
        ("<a href='x>y' title=\"a'b>\">z</a>", "z"),
        ('<a title="never closed>z <b>y</b>', "z y"),
        ("<!-- never closed <b>y</b>", "<!-- never closed y"),
        ("a < b <= c <3 </ d", "a < b <= c <3 </ d"),
        ("<!-->a<!--->b", "ab"),
        ("<script/>x<SCRIPT>y</scripty></Script >z", "xz"),
        ("<style>never closed <p>x", ""),
    ],
)
def test_html_that_browsers_would_mend(page: str, text: str) -> None:
    assert html_to_text(page) == text


def test_a_declared_codec_that_cannot_decode_is_a_report(tmp_path: Path) -> None:
    """The codec "undefined" raises UnicodeError itself, which once ended the whole run."""
    (tmp_path / "a.py").write_bytes(b"# coding: undefined\n# \xff")
    (tmp_path / "b.html").write_text("<p>&#" + "1" * 5000 + ";word")
    (tmp_path / "c.txt").write_text("good")
    found, sources = read(tmp_path)
    assert [document.text for document in found] == ["\ufffdword", "good"]
    assert "not UTF-8 (nor undefined)" in sources.problems.first[0]


def test_a_path_through_a_link_and_up_again(tmp_path: Path) -> None:
    """ "link/.." is the parent of the link's target, not the folder that holds the link."""
    (tmp_path / "far" / "sub").mkdir(parents=True)
    (tmp_path / "far" / "x.txt").write_text("far")
    (tmp_path / "x.txt").write_text("near")
    (tmp_path / "link").symlink_to("far/sub")
    found = list(Sources([os.path.join(tmp_path, "link", "..", "x.txt")]))
    assert [document.text for document in found] == ["far"]
