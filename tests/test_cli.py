"""The gnomon command: what it prints, leaves behind, and says when something is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gnomon
import pytest
from click.testing import CliRunner, Result
from gnomon import cli_search
from gnomon.cli import cli
from gnomon.cli_common import visible
from gnomon.documents import Document
from gnomon.passage_store import Passages, PassageWriter
from gnomon.reference import analysis, bm25
from gnomon.storage import Directory, DirectoryWriter


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def hits(index: Path, query: str, k: int = 10) -> list[dict[str, Any]]:
    found = json.loads(run("search", index, query, "-k", k, "--json").stdout)
    assert found["query"] == query
    assert found["took_ms"] > 0
    return list(found["hits"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "apple.txt").write_text("first line\n\nA red apple, an APPLE pie.\n", newline="")
    (texts / "berry.md").write_text("A blueberry is blue.")
    (texts / "rows.jsonl").write_text('{"_id":"r1","title":"Pie","text":"rhubarb"}\n{bad\n')
    (texts / "binary.txt").write_bytes(b"\0\1\2")
    (texts / "latin.txt").write_bytes(b"caf\xe9")
    return texts


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Path:
    run("index", folder, "--out", tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize("command", [None, *sorted(cli.commands)])
def test_help_keeps_its_lines(command: str | None) -> None:
    """A paragraph that click is not to rewrap is marked by a character, which is not printed."""
    text = run(*([] if command is None else [command]), "--help").output
    assert "\\b" not in text
    assert "\b" not in text
    if command is None:
        assert "\n  gnomon search docs.gnomon" in text


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_index_says_what_it_did_and_what_it_left_out(folder: Path, tmp_path: Path) -> None:
    result = run("index", folder, "--out", tmp_path / "index")
    assert "documents  3 in 3 passages\n" in result.stdout
    assert "tokens     14, 11 distinct\n" in result.stdout
    assert "left out   3 (bad JSON 1, binary 1, not UTF-8 1)\n" in result.stdout
    assert f"left out: {folder}/rows.jsonl:2: bad JSON" in result.stderr
    assert "\x1b" not in result.output
    assert names(tmp_path) == ["index", "texts"]


def test_index_summary_for_machines(folder: Path, tmp_path: Path) -> None:
    summary = json.loads(run("index", folder, "--out", tmp_path / "i", "--json").stdout)
    assert summary["documents"] == summary["passages"] == 3
    assert summary["problems"] == {"binary": 1, "not UTF-8": 1, "bad JSON": 1}
    assert summary["index_bytes"] == sum(file.stat().st_size for file in (tmp_path / "i").iterdir())


def test_search_for_people(index: Path) -> None:
    result = run("search", index, "apple pie", "-k", 2)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(" 1. ")
    assert "/texts/apple.txt:1  [0-38]" in lines[0]
    assert lines[1] == "    first line A red apple, an APPLE pie."
    assert "/texts/rows.jsonl:1 r1  [0-11]" in lines[2]
    assert "\x1b" not in result.output


def test_search_for_machines(index: Path, folder: Path) -> None:
    hit = hits(index, "apple")[0]
    text = (folder / "apple.txt").read_text()
    assert hit["source"] == str(folder / "apple.txt")
    assert (hit["rank"], hit["line"], hit["id"]) == (1, 1, "")
    assert text[hit["start"] : hit["end"]] == hit["text"]
    assert [hit["text"][a:b] for a, b in hit["matches"]] == ["apple", "APPLE"]


def test_scores_equal_the_reference_in_every_bit(tmp_path: Path) -> None:
    texts = [f"word{n % 7} " * (n % 5) + f"term{n} 全文检索 café" for n in range(200)]
    rows = "\n".join(json.dumps({"text": text}) for text in texts)
    (tmp_path / "x.jsonl").write_text(rows)
    for preset in ("standard-v1", "basic-v1"):
        run("index", tmp_path, "--out", tmp_path / preset, "--analyzer", preset)
        tokens = [analysis.tokens(text.strip(), preset) for text in texts]
        for query in ("word3 term12", "检索 cafe café", "word1 word1 word2"):
            wanted = bm25.bm25_scores(analysis.tokens(query, preset), tokens)
            order = sorted(range(200), key=lambda number: (-wanted[number], number))
            found = hits(tmp_path / preset, query, 50)
            matching = [number for number in order if wanted[number] > 0][:50]
            assert [hit["line"] - 1 for hit in found] == matching
            assert [hit["score"] for hit in found] == [wanted[number] for number in matching]


def test_no_match_is_an_answer(index: Path) -> None:
    assert hits(index, "zebra") == []
    assert hits(index, "") == []
    assert run("search", index, "zebra\x1b").stdout == "no passage contains a word of 'zebra␛'\n"


def test_long_documents_have_spans_and_lines(tmp_path: Path) -> None:
    text = "\r\n".join(f"Line {n} tells of thing{n}. e\u0301 👍🏽" for n in range(1, 500))
    (tmp_path / "x.txt").write_bytes(text.encode())
    run("index", tmp_path / "x.txt", "--out", tmp_path / "i")
    hit = hits(tmp_path / "i", "thing321")[0]
    assert text[hit["start"] : hit["end"]] == hit["text"]
    at = hit["start"] + hit["matches"][0][0]
    assert text.count("\n", 0, at) == 320
    assert hit["line"] == 1 + text.count("\n", 0, hit["start"])


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    nasty = "apple \x1b]0;title\x07\x9b31m \u202e reversed \x00"
    (tmp_path / "x\x1b[31m\n.txt").write_text("x" * 9000 + " " + nasty)
    run("index", tmp_path, "--out", tmp_path / "i")
    result = run("search", tmp_path / "i", "apple")
    assert not set(result.stdout) & set("\x1b\x07\x9b\u202e\x00")
    assert len(result.stdout.splitlines()) == 2
    assert hits(tmp_path / "i", "apple")[0]["text"].endswith(nasty)
    assert len(visible(nasty)) == len(nasty)


def test_file_names_of_any_kind(tmp_path: Path) -> None:
    texts = tmp_path / "t"
    texts.mkdir()
    path = os.path.join(os.fsencode(texts), b"\xff new\nline.txt")
    try:
        with open(path, "w") as file:
            file.write("apple")
    except OSError:
        pytest.skip("the file system refuses this name")
    run("index", texts, "--out", tmp_path / "i")
    assert os.fsencode(hits(tmp_path / "i", "apple")[0]["source"]) == path
    assert "� new␊line.txt:1" in run("search", tmp_path / "i", "apple").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no such file or folder: nowhere"),
        (["t", "--analyzer", "magic"], "basic-v1, standard-v1"),
        (["t", "--encoding", "klingon"], "encoding must be a text encoding"),
        (["t", "--max-bytes", "many"], "'many' is not a size"),
        (["t", "--text-field", "zz"], "no text found in t; no index was written"),
        ([], "Missing argument 'PATHS...'"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "x.jsonl").write_text('{"text":"a"}')
    result = run("index", *arguments, "--out", "i", code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") <= 4
    assert names(tmp_path) == ["t"]


def test_an_existing_index_is_replaced_only_on_demand(folder: Path, index: Path) -> None:
    before = hits(index, "apple")
    result = run("index", folder / "berry.md", "--out", index, code=2)
    assert result.stderr == f"gnomon: {index}: already exists; --overwrite replaces it\n"
    assert hits(index, "apple") == before
    run("index", folder / "berry.md", "--out", index, "--overwrite")
    assert hits(index, "apple") == []
    assert len(hits(index, "blue")) == 1


def test_overwrite_replaces_nothing_but_an_index(folder: Path, tmp_path: Path) -> None:
    result = run("index", folder, "--out", folder, "--overwrite", code=2)
    assert "not a gnomon index" in result.stderr
    assert (folder / "apple.txt").exists()
    assert run("index", folder, "--out", tmp_path / "no" / "i", code=2).stderr.count("\n") <= 2


def test_a_folder_may_hold_its_own_index(folder: Path) -> None:
    run("index", folder, "--out", folder / "index")
    run("index", folder, "--out", folder / "index", "--overwrite")
    assert len(hits(folder / "index", "apple")) == 1


def test_searching_what_is_no_index(tmp_path: Path, folder: Path, index: Path) -> None:
    assert "no gnomon index there" in run("search", tmp_path / "x", "q", code=2).stderr
    assert "not a gnomon index" in run("search", folder, "q", code=2).stderr
    gnomon.BM25Index.build(["a text"]).save(tmp_path / "bare")
    assert "no passages to show" in run("search", tmp_path / "bare", "text", code=2).stderr
    assert "Invalid value for '-k'" in run("search", index, "q", "-k", 0, code=2).stderr


def test_damage_is_found_and_named(index: Path) -> None:
    for file in index.glob("*.gno"):
        whole = file.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 40)):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
            result = CliRunner().invoke(cli, ["search", str(index), "apple", "--json"])
            assert result.exit_code in (0, 2), (file.name, at, result.exception)
            if result.exit_code == 0:  # the damage lies where this search did not read
                assert json.loads(result.stdout)["hits"][0]["matches"] == [[18, 23], [28, 33]]
            else:
                assert result.stderr.startswith("gnomon: ")
                assert result.stderr.count("\n") == 1
        file.write_bytes(whole)
    assert hits(index, "apple")


def test_an_error_while_reading_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: PassageWriter, document: Document) -> Iterator[str]:
        yield "one"
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(PassageWriter, "add", full)
    result = run("index", folder, "--out", tmp_path / "i", code=2)
    assert result.stderr.endswith("gnomon: somewhere: No space left on device\n")
    assert names(tmp_path) == ["texts"]


def gnomon_process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gnomon", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    texts = tmp_path / "t"
    texts.mkdir()
    (texts / "x.txt").write_text("some words of a text that takes a while " * 400_000)
    with gnomon_process("index", texts, "--out", tmp_path / "i") as process:
        began = time.monotonic()
        while (
            len(names(tmp_path)) == 1 and process.poll() is None and time.monotonic() < began + 60
        ):
            time.sleep(0.005)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (1, 143), errors
    assert "Traceback" not in errors
    assert names(tmp_path) == ["t"]


def test_the_module_runs_as_a_program(folder: Path, tmp_path: Path) -> None:
    with gnomon_process("index", folder, "--out", tmp_path / "i") as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "documents  3 in 3 passages" in output
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    (folder / "x.md").write_text("漢字 apple")
    with gnomon_process("search", tmp_path / "i", "apple 漢", env=environment) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "apple.txt" in output
    with gnomon_process("--version") as process:
        assert process.communicate(timeout=60)[0] == f"gnomon {gnomon.__version__}\n"


def test_demo_ends_with_equal_scores() -> None:
    result = run("demo")
    lines = result.stdout.splitlines()
    assert lines[-1].endswith("passages scored; equal: True")
    for line in lines[-4:-1]:
        _, compiled, reference = line.split()
        assert compiled == reference
        assert compiled.startswith("0x1.")


def test_demo_fails_when_a_score_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.cli_demo.Library", TinyLibrary)
    assert "equal: True" in run("demo").stdout
    exact = bm25.bm25_scores
    monkeypatch.setattr(
        bm25, "bm25_scores", lambda *arguments: [s + 1e-15 for s in exact(*arguments)]
    )
    assert "equal: False" in run("demo", code=1).stdout


class TinyLibrary:
    folder = "nowhere"
    bytes_read = 1

    def __init__(self, folder: str) -> None:
        pass

    def documents(self) -> Iterator[Document]:
        for text in ("open a file", "reading in binary mode", "neither"):
            yield Document("tiny.py", text)


def test_passages_come_back_as_they_went(tmp_path: Path) -> None:
    documents = [
        Document("a.txt", "one\n\ntwo", line=1, lines=True),
        Document("b.jsonl", "\ud800 lone", "id\udfff", 7),
        Document("b.jsonl", "漢字", "", 8),
        Document("c\udcff", "e\u0301"),
        Document("a.txt", "again"),
    ]
    with DirectoryWriter(tmp_path / "i") as directory:
        writer = PassageWriter(directory, size=5)
        texts = [text for document in documents for text in writer.add(document)]
        directory.commit({"passages": writer.finish()})
    passages = Passages(Directory.open(tmp_path / "i"))
    assert [tuple(passage) for passage in passages] == [
        ("one", "a.txt", "", 0, 3, 1),
        ("two", "a.txt", "", 5, 8, 3),
        ("\ud800", "b.jsonl", "id\udfff", 0, 1, 7),
        ("lone", "b.jsonl", "id\udfff", 2, 6, 7),
        ("漢字", "b.jsonl", "", 0, 2, 8),
        ("e\u0301", "c\udcff", "", 0, 2, 0),
        ("again", "a.txt", "", 0, 5, 0),
    ]
    assert [passage.text for passage in passages] == texts
    with pytest.raises(IndexError, match=r"passage number must be in \[0, 7\), got 7"):
        passages[7]


@pytest.mark.parametrize("size", [10, 50, 420])
def test_snippets_show_matches(size: int) -> None:
    text = "filler text " * 60 + "the MATCH here and a MATCH there " + "more of it " * 60
    first = text.index("MATCH")
    second = text.index("MATCH", first + 1)
    pieces = cli_search.snippet(text, [(first, first + 5), (second, second + 5)], size)
    assert [piece for piece, matched in pieces if matched] == ["MATCH"] * (1 if size == 10 else 2)
    assert len("".join(piece for piece, _ in pieces)) <= size + 4


def read_all(terminal: int) -> str:
    """What was written to the other side, which is closed: one read may give a part of it."""
    data = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux tells the end
            part = b""
        if not part:
            os.close(terminal)
            return data.decode()
        data += part


def test_highlighting_on_a_terminal(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show: Callable[[list[cli_search.Hit]], None] = cli_search.print_hits
    opened = cli_search.Opened(str(index))
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        show(opened.search("apple", 1))
        monkeypatch.undo()
    shown = read_all(reader)
    assert "\x1b[1;33mapple\x1b[0m" in shown
