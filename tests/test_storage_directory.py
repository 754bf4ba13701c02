"""Index directories: states by manifest, never half of one, never a byte unchecked."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from gnomon import _core
from gnomon._manifest import Manifest, Part, _is_sealed, decode, encode
from gnomon.storage import Directory, DirectoryWriter
from storage_states import commit, number_of, put

META = {"a": [1, -0.0, 1e300, None, True, "ä\ud800\u2028"], "b": {"": {}}, "big": 2**70}


def test_directory_round_trip(tmp_path):
    target = tmp_path / "my índex 索引"
    with DirectoryWriter(str(target)) as writer:
        put(writer, "dense", "vectors", np.arange(3.0))
        writer.commit({"dense": META, "bm25": {}})
    directory = Directory.open(target)
    assert (directory.parts(), directory.generation) == (["bm25", "dense"], 1)
    assert directory.meta("dense") == META
    assert directory.files("dense") == ["vectors"]
    assert directory.container("dense", "vectors").array("values").tolist() == [0.0, 1.0, 2.0]
    assert sorted(os.listdir(target)) == ["MANIFEST.json", "dense-vectors-000001.gno"]
    assert os.listdir(tmp_path) == [target.name]
    with pytest.raises(_core.CorruptIndex, match=r"no part 'mmr' \(parts: bm25, dense\)"):
        directory.meta("mmr")
    with pytest.raises(_core.CorruptIndex, match="no file 'x'"):
        directory.container("dense", "x")


def test_relative_empty_symlinked_and_long_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commit(Path("plain"), 1)
    (tmp_path / "empty").mkdir()
    commit(Path("empty"), 2)
    (tmp_path / "link").symlink_to("linked")
    commit(Path("link"), 3)
    commit(Path("link"), 4)
    commit(Path("ü" * 127), 5)
    numbers = [
        number_of(Directory.open(p)) for p in ["plain", "empty", "link", "linked", "ü" * 127]
    ]
    assert numbers == [1, 2, 4, 4, 5]
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir()) == sorted(["plain", "empty", "link", "linked", "ü" * 127])


def test_replace_keeps_open_readers_and_deletes_old_files(tmp_path):
    commit(tmp_path / "x", 1)
    old = Directory.open(tmp_path / "x")
    (tmp_path / "x" / "notes.txt").write_text("mine")
    commit(tmp_path / "x", 2)
    assert number_of(old) == 1
    assert number_of(Directory.open(tmp_path / "x")) == 2
    assert sorted(os.listdir(tmp_path / "x")) == [
        "MANIFEST.json",
        "bm25-postings-000002.gno",
        "notes.txt",
        "passages-text-000002.gno",
    ]


def test_keep_takes_files_over(tmp_path):
    commit(tmp_path / "x", 1)
    with DirectoryWriter(tmp_path / "x") as writer:
        writer.keep("bm25", "postings")
        put(writer, "passages", "text", np.zeros(1))
        with pytest.raises(ValueError, match="no file 'nothing' in part 'bm25' to keep"):
            writer.keep("bm25", "nothing")
        with pytest.raises(ValueError, match="already in this state"):
            writer.file("bm25", "postings")
        writer.commit({})
    directory = Directory.open(tmp_path / "x")
    assert directory.generation == 2
    assert set(directory.container("bm25", "postings").array("values").tolist()) == {1}
    assert "bm25-postings-000001.gno" in os.listdir(tmp_path / "x")


def raises_inside(writer):
    put(writer, "bm25", "postings", np.zeros(9))
    raise KeyboardInterrupt


def forgets_to_commit(writer):
    put(writer, "bm25", "postings", np.zeros(9))


def does_not_finish(writer):
    file = _core.ContainerWriter(writer.file("bm25", "postings"))
    file.section("a", np.zeros(10**6))
    writer.commit({})


def does_not_write(writer):
    writer.file("bm25", "postings")
    writer.commit({})


def commits_meta(meta):
    return lambda writer: writer.commit(meta)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (raises_inside, KeyboardInterrupt),
        (forgets_to_commit, None),
        (does_not_finish, _core.CorruptIndex),
        (does_not_write, FileNotFoundError),
        (commits_meta({"A": {}}), ValueError),
        (commits_meta({"a": {"x": float("nan")}}), ValueError),
        (commits_meta({"a": {1: 2}}), TypeError),
        (commits_meta({"a": {"x": (1,)}}), TypeError),
        (commits_meta({"a": {"x": np.float64(1)}}), TypeError),
    ],
)
def test_without_commit_the_target_stays_as_it_was(tmp_path, exists, body, error):
    if exists:
        commit(tmp_path / "x", 1)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}

    def attempt():
        with DirectoryWriter(tmp_path / "x") as writer:
            body(writer)

    with contextlib.nullcontext() if error is None else pytest.raises(error):
        attempt()
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before


def test_writer_misuse(tmp_path):
    with pytest.raises(RuntimeError, match="with statement"):
        DirectoryWriter(tmp_path / "x").file("a", "b")
    with pytest.raises(ValueError, match="path must name"):
        DirectoryWriter("")
    with pytest.raises(FileNotFoundError, match="make it first"), DirectoryWriter(tmp_path / "a/b"):
        pass
    with DirectoryWriter(tmp_path / "x") as writer:
        for part, name in [("../x", "a"), ("a", "a/b"), ("", "a"), ("a", "A"), ("a-b", "c")]:
            with pytest.raises(ValueError, match="must be a-z"):
                writer.file(part, name)
        writer.commit({})
        with pytest.raises(RuntimeError, match="already committed"):
            writer.file("a", "b")
    with pytest.raises(RuntimeError, match="used once"), writer:
        pass
    assert Directory.open(tmp_path / "x").parts() == []


def test_other_things_at_the_path_are_left_alone(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("y")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "MANIFEST.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    for name, why in [("file", "is a file"), ("full", "not empty"), ("other", "cannot be read")]:
        with pytest.raises(FileExistsError, match=why) as caught, DirectoryWriter(tmp_path / name):
            pass
        assert "remove it or choose another path" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_open_says_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="build one"):
        Directory.open(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match=r"no MANIFEST.json in it"):
        Directory.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Directory.open(tmp_path / "file")


def test_every_flipped_and_cut_manifest_byte_is_found(tmp_path):
    commit(tmp_path / "x", 1)
    data = (tmp_path / "x" / "MANIFEST.json").read_bytes()
    assert encode(decode(data, "")) == data
    for at in range(len(data)):
        damaged = bytearray(data)
        for mask in (0x01, 0x20, 0x80):
            damaged[at] = data[at] ^ mask
            with pytest.raises(_core.CorruptIndex):
                decode(bytes(damaged), "")
        with pytest.raises(_core.CorruptIndex):
            decode(data[:at], "")


def sealed(change) -> bytes:
    """A manifest with a right checksum over changed content."""
    body = {
        "format": "gnomon",
        "version": 1,
        "generation": 1,
        "parts": {"bm25": {"files": {"postings": "bm25-postings-000001.gno"}, "meta": {}}},
        "files": {"bm25-postings-000001.gno": {"bytes": 64, "crc32c": "00000000"}},
    }
    change(body)
    options = {"sort_keys": True, "indent": 1}
    crc = _core.crc32c((json.dumps(body, **options) + "\n").encode())
    return (json.dumps({**body, "checksum": f"{crc:08x}"}, **options) + "\n").encode()


def rename_file(body, name):
    body["parts"]["bm25"]["files"]["postings"] = name
    body["files"] = {name: {"bytes": 64, "crc32c": "00000000"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.update(format="other"), "not a gnomon manifest"),
        (lambda b: b.update(version=2), "format version 2, but this gnomon reads 1"),
        (lambda b: b.update(version=1.0), "generation"),
        (lambda b: b.update(generation=0), "generation"),
        (lambda b: b.update(generation=True), "generation"),
        (lambda b: b.update(extra=1), "unexpected keys"),
        (lambda b: b.pop("parts"), "unexpected keys"),
        (lambda b: b.update(parts=[]), "must be objects"),
        (lambda b: b.update(files={}), "not the files that the parts use"),
        (lambda b: b["parts"].update(bm25=1), "part 'bm25'"),
        (lambda b: b["parts"].update({"../x": {"files": {}, "meta": {}}}), "part name"),
        (lambda b: b["parts"]["bm25"].update(meta=[]), "part 'bm25'"),
        (lambda b: b["parts"]["bm25"]["files"].update(postings=3), "file 'postings'"),
        (lambda b: rename_file(b, "../bm25-postings-000001.gno"), "file name"),
        (lambda b: rename_file(b, "/etc/passwd"), "file name"),
        (lambda b: rename_file(b, "bm25-postings-000001.gno\n"), "file name"),
        (lambda b: rename_file(b, "MANIFEST.json"), "file name"),
        (lambda b: b["files"]["bm25-postings-000001.gno"].update(bytes=-1), "size of file"),
        (lambda b: b["files"]["bm25-postings-000001.gno"].update(bytes="64"), "size of file"),
        (lambda b: b["files"]["bm25-postings-000001.gno"].update(crc32c=0), "checksum of file"),
        (lambda b: b["files"]["bm25-postings-000001.gno"].update(x=0), "facts of file"),
    ],
)
def test_hostile_manifests_are_refused(tmp_path, change, message):
    (tmp_path / "MANIFEST.json").write_bytes(sealed(change))
    with pytest.raises(_core.CorruptIndex, match=message):
        Directory.open(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[" * 200_000,
        b"1" * 10_000,
        b'{"format": "gnomon"}',
        b"\xff\xfe{\0}\0",
        b'"\xc3\xa4"',
    ],
)
def test_no_manifest_at_all(tmp_path, data):
    (tmp_path / "MANIFEST.json").write_bytes(data)
    with pytest.raises(_core.CorruptIndex):
        Directory.open(tmp_path)


def test_only_small_manifests_are_remembered_and_large_ones_are_checked():
    for size, kept in ((1 << 20) // 2, True), (1 << 21, False):
        data = encode(Manifest(1, {"a": Part({}, {"x": "y" * size})}, {}))
        before = _is_sealed.cache_info().misses
        assert decode(data, "here").parts["a"].meta == {"x": "y" * size}
        assert _is_sealed.cache_info().misses == before + kept
        with pytest.raises(_core.CorruptIndex, match="damaged"):
            decode(data.replace(b"y", b"z", 1), "here")


def test_infinite_numbers_in_a_manifest(tmp_path):
    text = sealed(lambda b: b["parts"]["bm25"]["meta"].update(x=1.5)).decode()
    for value in ["1e999", "Infinity", "NaN", "1.50"]:
        with pytest.raises(_core.CorruptIndex, match="damaged"):
            decode(text.replace("1.5", value).encode(), "")


def test_files_must_be_those_of_the_manifest(tmp_path):
    commit(tmp_path / "x", 1)
    file = tmp_path / "x" / "bm25-postings-000001.gno"
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(_core.CorruptIndex, match="missing, though the manifest names it"):
        Directory.open(tmp_path / "x")
    other = _core.ContainerWriter(file)  # sound, of the same size, and not the one
    other.section("values", np.full(100, 7, np.uint32))
    other.finish()
    with pytest.raises(_core.CorruptIndex, match="not the file that the manifest names"):
        Directory.open(tmp_path / "x")
    file.write_bytes(data)
    assert number_of(Directory.open(tmp_path / "x")) == 1
