"""Container files: what was written is what is read, and any damage is CorruptIndex."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from gnomon import _core
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = ["uint8", "uint16", "uint32", "uint64", "int64", "float32", "float64"]
BLOCK = 64 * 1024
HEADER = struct.Struct("<8sIIQQI24s")
ENTRY = struct.Struct("<32sIIQQ")


def write(path: Path, sections: dict[str, np.ndarray]) -> bytes:
    writer = _core.ContainerWriter(path)
    for name, values in sections.items():
        writer.section(name, values)
    writer.finish()
    return path.read_bytes()


def small(path: Path) -> bytes:
    return write(
        path,
        {
            "bytes": np.arange(5, dtype=np.uint8),
            "none": np.zeros(0, np.float64),
            "docs": np.arange(33, dtype=np.uint32),
        },
    )


def read_all(path: Path) -> dict[str, bytes]:
    container = _core.Container(path)
    container.verify()
    return {name: container.array(name).tobytes() for name, _, _ in container.sections()}


def is_refused(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        read_all(path)
    except _core.CorruptIndex as error:
        return str(path) in str(error)
    return False


def test_crc32c_vectors():
    assert _core.crc32c(b"") == 0
    assert _core.crc32c(b"123456789") == 0xE3069283
    assert _core.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert _core.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert _core.crc32c(bytes(range(32))) == 0x46DD794E
    assert _core.crc32c(np.arange(32, dtype=np.uint8)) == 0x46DD794E


def crc32c_by_bits(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@given(st.binary(max_size=200), st.integers(0, 200))
def test_crc32c_is_the_bitwise_definition_and_continues(data, cut):
    assert _core.crc32c(data) == crc32c_by_bits(data)
    assert _core.crc32c(data[cut:], _core.crc32c(data[:cut])) == _core.crc32c(data)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 70_001])
def test_round_trip(tmp_path, dtype, count):
    values = (np.arange(count) * 37 % 251).astype(dtype)
    write(tmp_path / "a.gno", {"before": values[:1], "values": values, "after": values[:3]})
    container = _core.Container(tmp_path / "a.gno")
    assert container.sections()[1] == ("values", dtype, count)
    array = container.array("values")
    assert array.dtype == dtype
    assert array.tobytes() == values.tobytes()
    assert array.ctypes.data % 64 == 0
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)
    container.verify()


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=6), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_streaming_equals_one_section(tmp_path_factory, sizes, seed):
    folder = tmp_path_factory.mktemp("stream")
    data = np.random.default_rng(seed).integers(0, 256, sum(sizes), np.uint8)
    write(folder / "whole", {"a": data})
    writer = _core.ContainerWriter(folder / "parts")
    writer.begin("a", "uint8")
    for chunk in np.split(data, np.cumsum(sizes)[:-1]) if sizes else []:
        writer.append(chunk)
    writer.end()
    writer.finish()
    assert (folder / "whole").read_bytes() == (folder / "parts").read_bytes()


def test_large_appends_pass_the_buffer(tmp_path):
    data = np.random.default_rng(1).integers(0, 2**63, 400_000, np.int64)
    writer = _core.ContainerWriter(tmp_path / "a")
    writer.begin("a", np.int64)
    writer.append(data[:1])
    writer.append(data[1:].tobytes())
    writer.end()
    writer.finish()
    assert np.array_equal(_core.Container(tmp_path / "a").array("a"), data)


def test_strided_values_are_written_in_order(tmp_path):
    values = np.arange(10, dtype=np.uint32)
    write(tmp_path / "a", {"a": values[::-2]})
    assert _core.Container(tmp_path / "a").array("a").tolist() == [9, 7, 5, 3, 1]


def test_arrays_outlive_container_and_file(tmp_path):
    small(tmp_path / "a")
    array = _core.Container(tmp_path / "a").array("docs")
    (tmp_path / "a").unlink()
    assert array.tolist() == list(range(33))


def test_writer_refuses_misuse(tmp_path):
    writer = _core.ContainerWriter(tmp_path / "a")
    for name in ["", "x" * 32, "a b", "é", "a\0b"]:
        with pytest.raises(ValueError, match="section name must be"):
            writer.begin(name, "uint8")
    for values in [np.zeros(2, np.int32), np.zeros(2, ">u4"), np.zeros(2, bool), np.array(["a"])]:
        with pytest.raises(ValueError, match="dtype must be one of uint8"):
            writer.section("a", values)
    with pytest.raises(ValueError, match="1-d array"):
        writer.section("a", np.zeros((2, 2)))
    with pytest.raises(ValueError, match="call begin"):
        writer.append(b"1")
    with pytest.raises(ValueError, match="call begin"):
        writer.end()
    writer.begin("a", "uint32")
    with pytest.raises(ValueError, match="values must be uint32"):
        writer.append(np.zeros(2))
    with pytest.raises(ValueError, match="call end"):
        writer.begin("b", "uint8")
    with pytest.raises(ValueError, match="call end"):
        writer.finish()
    writer.append(b"123")
    with pytest.raises(ValueError, match="whole elements of 4 bytes"):
        writer.end()
    writer.append(b"4")
    writer.end()
    with pytest.raises(ValueError, match="must be new in the file"):
        writer.begin("a", "uint8")
    writer.finish()
    with pytest.raises(ValueError, match="is finished"):
        writer.begin("c", "uint8")
    assert read_all(tmp_path / "a") == {"a": b"1234"}


def test_unfinished_file_opens_nowhere_and_is_removed(tmp_path):
    writer = _core.ContainerWriter(tmp_path / "a")
    writer.section("a", np.zeros(10**6))
    with pytest.raises(_core.CorruptIndex, match="not finished"):
        _core.Container(tmp_path / "a")
    del writer
    assert list(tmp_path.iterdir()) == []


def test_file_errors_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        _core.Container(tmp_path / "ü no")
    assert caught.value.filename == str(tmp_path / "ü no")
    with pytest.raises(IsADirectoryError):
        _core.Container(tmp_path)
    small(tmp_path / "a")
    with pytest.raises(FileExistsError):
        _core.ContainerWriter(tmp_path / "a")
    assert (tmp_path / "a").exists()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(_core.CorruptIndex, match="not a regular file"):
        _core.Container(tmp_path / "pipe")
    name = os.fsdecode(b"\xff\xfe bytes")
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(_core.CorruptIndex, match=r"\\xff\\xfe bytes: too short"):
        _core.Container(tmp_path / name)


def test_errors_pickle():
    with pytest.raises(_core.CorruptIndex) as caught:
        _core.Container("/dev/null")
    assert type(pickle.loads(pickle.dumps(caught.value))) is _core.CorruptIndex


def test_every_flipped_byte_is_found(tmp_path):
    data = small(tmp_path / "a")
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        assert is_refused(tmp_path / "b", bytes(damaged)), at


def test_every_truncation_and_extension_is_found(tmp_path):
    data = small(tmp_path / "a")
    for length in range(len(data)):
        assert is_refused(tmp_path / "b", data[:length]), length
    assert is_refused(tmp_path / "b", data + b"\0")


def test_damage_is_found_in_the_section_that_has_it(tmp_path):
    values = np.arange(3 * BLOCK, dtype=np.uint8)
    data = bytearray(write(tmp_path / "a", {"good": values, "bad": values}))
    data[64 + 3 * BLOCK + BLOCK + 7] ^= 1
    (tmp_path / "a").write_bytes(data)
    container = _core.Container(tmp_path / "a")
    assert np.array_equal(container.array("good"), values)
    for _ in range(2):  # and again: a failed check leaves the block unverified
        with pytest.raises(_core.CorruptIndex, match="section 'bad': damaged block 1 of 3"):
            container.array("bad")
    with pytest.raises(_core.CorruptIndex, match="'bad': damaged block 1"):
        container.verify()
    assert len(container.array("bad", verify=False)) == 3 * BLOCK


# Hostile files: all checksums right, the table wrong.


def forge(entries: list[tuple], *, body: bytes = bytes(128), head=None, crcs=1, **header) -> bytes:
    """A correct header over any table. An entry is (name, dtype, zero, count, offset)."""
    table = struct.pack("<II", *(head or (len(entries), 0)))
    for name, *rest in entries:
        block = _core.crc32c(body[rest[3] - 64 : rest[3]] if rest[3] < 1 << 20 else b"")
        table += ENTRY.pack(name, *rest) + struct.pack("<I", block) * crcs
    table = header.get("table", table)
    fields = (
        header.get("magic", b"GNOMON\0\1"),
        header.get("version", 1),
        header.get("flags", 0),
        header.get("offset", 64 + len(body)),
        header.get("size", len(table)),
        _core.crc32c(table),
        header.get("zeros", bytes(24)),
    )
    top = HEADER.pack(*fields)
    return top + struct.pack("<I", _core.crc32c(top)) + body + table


GOOD = [(b"a", 3, 0, 16, 64), (b"b", 1, 0, 64, 128)]
HOSTILE = {
    "version": (forge(GOOD, version=2), "format version 2, but this gnomon reads 1"),
    "flags": (forge(GOOD, flags=1), "unknown flags"),
    "zeros": (forge(GOOD, zeros=b"\1" * 24), "unknown flags"),
    "footer past the end": (forge(GOOD, offset=1 << 40), "another size"),
    "footer offset overflows": (forge(GOOD, offset=2**64 - 1, size=2**64 - 1), "another size"),
    "footer in the header": (forge(GOOD, offset=0, size=1000), "another size"),
    "count of sections": (forge(GOOD, head=(2**32 - 1, 0)), "impossible count"),
    "one section too many": (forge(GOOD, head=(3, 0)), "ends too early"),
    "one section too few": (forge(GOOD, head=(1, 0)), "longer than its sections"),
    "table flags": (forge(GOOD, head=(2, 7)), "impossible count"),
    "empty table": (forge([], table=b""), "impossible place or size"),
    "footer unaligned": (forge([], body=bytes(65)), "impossible place or size"),
    "unclaimed bytes": (forge([], body=bytes(64)), "belong to no section"),
    "no name": (forge([(b"", 1, 0, 128, 64)]), "not printable"),
    "no end of name": (forge([(b"x" * 32, 1, 0, 128, 64)]), "not printable"),
    "control in name": (forge([(b"a\n", 1, 0, 128, 64)]), "not printable"),
    "bytes after name": (forge([(b"a\0b", 1, 0, 128, 64)]), "not printable"),
    "dtype 0": (forge([(b"a", 0, 0, 128, 64)]), "unknown element type 0"),
    "dtype 8": (forge([(b"a", 8, 0, 128, 64)]), "unknown element type 8"),
    "entry flags": (forge([(b"a", 1, 9, 128, 64)]), "unknown flags"),
    "offset 0": (forge([(b"a", 1, 0, 128, 0)]), "not at its place"),
    "offset past the end": (forge([(b"a", 1, 0, 128, 1 << 50)]), "not at its place"),
    "offset unaligned": (forge([(b"a", 1, 0, 100, 65)]), "not at its place"),
    "overlap": (forge([GOOD[0], (b"b", 1, 0, 128, 64)]), "not at its place"),
    "count too large": (forge([(b"a", 1, 0, 129, 64)]), "more elements"),
    "count huge": (forge([(b"a", 1, 0, 2**64 - 1, 64)]), "more elements"),
    "count * size overflows": (forge([(b"a", 7, 0, 2**61, 64)]), "more elements"),
    "same name twice": (forge([GOOD[0], (b"a", 1, 0, 64, 128)]), "two sections named 'a'"),
    "checksums missing": (forge(GOOD, crcs=0), "more elements|ends too early|not printable"),
    "checksums too many": (forge(GOOD, crcs=2), "not printable|unknown|longer"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_tables_are_refused(tmp_path, case):
    data, message = HOSTILE[case]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(_core.CorruptIndex, match=message):
        _core.Container(tmp_path / "a")


def test_forged_table_is_otherwise_good(tmp_path):
    (tmp_path / "a").write_bytes(forge([(b"a", 3, 0, 16, 64)], body=bytes(64)))
    assert _core.Container(tmp_path / "a").sections() == [("a", "uint32", 16)]


def test_sparse_giant_does_not_allocate(tmp_path):
    table = struct.pack("<II", 0, 0)
    size = 1 << 42
    top = HEADER.pack(b"GNOMON\0\1", 1, 0, 64, size - 64, _core.crc32c(table), bytes(24))
    with open(tmp_path / "a", "wb") as file:
        file.write(top + struct.pack("<I", _core.crc32c(top)))
        file.truncate(size)
    with pytest.raises(_core.CorruptIndex, match="impossible place or size"):
        _core.Container(tmp_path / "a")


u32 = st.integers(0, 9) | st.integers(0, 2**32 - 1)
u64 = st.integers(0, 300) | st.sampled_from([2**32, 2**61, 2**63, 2**64 - 64, 2**64 - 1])
names = st.sampled_from([b"a", b"b", b"", b"\xff", b"x" * 32]) | st.binary(max_size=32)


@given(
    st.lists(st.tuples(names, u32, st.sampled_from([0, 0, 1]), u64, u64), max_size=4),
    st.binary(max_size=300),
    st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_fuzzed_tables_never_crash(tmp_path_factory, entries, body, crcs):
    path = tmp_path_factory.mktemp("fuzz") / "a"
    path.write_bytes(forge(entries, body=body + bytes(-len(body) % 64), crcs=crcs))
    with contextlib.suppress(_core.CorruptIndex):
        read_all(path)


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=100, deadline=None)
def test_fuzzed_bytes_never_crash(tmp_path_factory, data, magic):
    path = tmp_path_factory.mktemp("fuzz") / "a"
    assert is_refused(path, (b"GNOMON\0\1" if magic else b"") + data)


def test_threads_verify_the_same_container(tmp_path):
    values = np.random.default_rng(2).integers(0, 256, 70 * BLOCK, np.uint8)
    write(tmp_path / "a", {"a": values})
    container = _core.Container(tmp_path / "a")
    right: list[bool] = []
    threads = [
        threading.Thread(target=lambda: right.append(np.array_equal(container.array("a"), values)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 8
