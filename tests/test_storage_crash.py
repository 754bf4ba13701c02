"""A writer may die anywhere: the old state or the new one remains, and the next writer works."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from gnomon import _core, _directory_writer
from gnomon._directory_writer import CRASH_POINTS
from gnomon.storage import Directory, DirectoryWriter
from storage_states import commit, number_of, put

# Forked children only write files and die.
pytestmark = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")

ONLY_NEW = {"before_directory_rename", "after_directory_rename"}
# The first point at which the new state is in force, for a replaced and for a new directory.
REPLACED, CREATED = "after_manifest_rename", "after_directory_rename"


def in_child(body) -> int:
    """Run body in a forked process; its wait status. The fork shares no lock: none is held here."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def kill_at(monkeypatch, point: str, target: Path, number: int) -> None:
    def crash(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(_directory_writer, "_crash_point", crash)
        assert in_child(lambda: commit(target, number)) == signal.SIGKILL, "point not reached"


def is_past(point: str, commit_point: str) -> bool:
    return CRASH_POINTS.index(point) >= CRASH_POINTS.index(commit_point)


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_killed_while_creating(tmp_path, monkeypatch, point):
    target = tmp_path / "an index"
    kill_at(monkeypatch, point, target, 1)
    if is_past(point, CREATED):
        assert number_of(Directory.open(target)) == 1
    else:
        assert not target.exists()
        with pytest.raises(FileNotFoundError):
            Directory.open(target)
    commit(target, 2)
    assert number_of(Directory.open(target)) == 2
    assert os.listdir(tmp_path) == [target.name]
    assert len(os.listdir(target)) == 3


@pytest.mark.parametrize("start", ["index", "empty directory"])
@pytest.mark.parametrize("point", [name for name in CRASH_POINTS if name not in ONLY_NEW])
def test_killed_while_replacing(tmp_path, monkeypatch, point, start):
    target = tmp_path / "x"
    if start == "index":
        commit(target, 1)
    else:
        target.mkdir()
    kill_at(monkeypatch, point, target, 2)
    if is_past(point, REPLACED):
        assert number_of(Directory.open(target)) == 2
    elif start == "index":
        assert number_of(Directory.open(target)) == 1
    else:
        with pytest.raises(FileNotFoundError, match="never finished"):
            Directory.open(target)
    commit(target, 3)
    assert number_of(Directory.open(target)) == 3
    assert os.listdir(tmp_path) == ["x"]
    assert len(os.listdir(target)) == 3


def test_killed_while_writing_a_file(tmp_path):
    def die() -> None:
        with DirectoryWriter(tmp_path / "x") as writer:
            file = _core.ContainerWriter(writer.file("bm25", "postings"))
            file.section("values", np.zeros(10**6))
            os.kill(os.getpid(), signal.SIGKILL)

    for number in (1, 2):
        assert in_child(die) == signal.SIGKILL
        commit(tmp_path / "x", number)
        assert os.listdir(tmp_path) == ["x"]
        assert len(os.listdir(tmp_path / "x")) == 3


def test_killed_at_random_moments(tmp_path):
    """A process that commits without end is killed at any moment; what it reported stays."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from storage_states import commit\n"
        "from pathlib import Path\n"
        "for number in range(int(sys.argv[3]), 10**9):\n"
        "    commit(Path(sys.argv[2]), number); print(number, flush=True)\n"
    )
    target, number = tmp_path / "x", 0
    for turn in range(6):
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(target)]
        process = subprocess.Popen([*command, str(number + 1)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(1 + turn % 3)]
        threading.Event().wait(turn * 0.0007)
        process.kill()
        reported += [int(line) for line in process.stdout.read().split()]
        process.stdout.close()
        process.wait()
        number = number_of(Directory.open(target))
        assert number in (reported[-1], reported[-1] + 1)
    commit(target, 0)
    assert len(os.listdir(target)) == 3
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("limit", [0, 100, 300, 100_000])
def test_full_disk_leaves_the_old_state(tmp_path, exists, limit):
    """RLIMIT_FSIZE makes the system refuse writes past a size, as a full disk does."""
    import resource

    if exists:
        commit(tmp_path / "x", 1)
    before = sorted(tmp_path.rglob("*"))

    def write_limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(OSError) as caught, DirectoryWriter(tmp_path / "x") as writer:  # noqa: PT011, PT012
            put(writer, "bm25", "postings", np.zeros(50))
            put(writer, "passages", "text", np.zeros(10_000_000 if limit > 300 else 0))
            writer.commit({"bm25": {"long": "x" * 1000}})
        assert caught.value.errno == errno.EFBIG
        assert caught.value.filename is None or "x" in caught.value.filename

    assert in_child(write_limited) == 0
    assert sorted(tmp_path.rglob("*")) == before
    commit(tmp_path / "x", 2)
    assert number_of(Directory.open(tmp_path / "x")) == 2


@pytest.mark.parametrize("call", ["fsync", "replace", "rename"])
@pytest.mark.parametrize("exists", [False, True])
def test_failing_system_calls_leave_a_whole_state(tmp_path, monkeypatch, call, exists):
    """Each call of the protocol fails once, from the first to the last."""
    real = getattr(os, call)
    for fail_at in range(20):
        target = tmp_path / str(fail_at)
        if exists:
            commit(target, 1)
        calls = 0

        def flaky(*args, fail_at=fail_at):
            nonlocal calls
            calls += 1
            if calls == fail_at + 1:
                raise OSError(errno.EIO, "Input/output error")
            return real(*args)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, flaky)
            try:
                commit(target, 2)
                failed = False
            except OSError:
                failed = True
        if exists or target.exists():
            assert number_of(Directory.open(target)) in ((1, 2) if failed and exists else (2,))
        else:
            assert failed
        commit(target, 3)
        assert number_of(Directory.open(target)) == 3
        assert len(os.listdir(target)) == 3
        if not failed:
            break
    assert not failed
    assert sorted(os.listdir(tmp_path)) == sorted(str(i) for i in range(fail_at + 1))


def test_reader_during_replacements(tmp_path):
    """Readers see whole states only, and never an older one than before."""
    target = tmp_path / "x"
    commit(target, 0)
    done = threading.Event()
    failures: list[BaseException] = []
    seen: set[int] = set()

    def read() -> None:
        last = 0
        try:
            while not done.wait(0.001):
                number = number_of(Directory.open(target))
                assert number >= last
                last = number
                seen.add(number)
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 51):
        commit(target, number)
    done.set()
    reader.join()
    assert failures == []
    assert len(seen) > 1


def test_reader_retries_when_files_vanish(tmp_path, monkeypatch):
    """The worst moment, forced: the state is replaced after the manifest was read."""
    from gnomon import storage

    target = tmp_path / "x"
    commit(target, 1)
    real, moments = storage.decode, iter([2, 3])

    def decode_then_replace(data, where):
        manifest = real(data, where)
        number = next(moments, None)
        if number is not None:
            commit(target, number)
        return manifest

    monkeypatch.setattr(storage, "decode", decode_then_replace)
    assert number_of(Directory.open(target)) == 3


@pytest.mark.parametrize("exists", [False, True])
def test_second_writer_is_told(tmp_path, exists):
    target = tmp_path / "x"
    if exists:
        commit(target, 1)
    with DirectoryWriter(target) as writer:
        put(writer, "bm25", "postings", np.zeros(1))
        with (
            pytest.raises(BlockingIOError, match=f"process {os.getpid()}") as caught,
            DirectoryWriter(target),
        ):
            pass
        assert caught.value.filename == str(target)
        writer.commit({})
    commit(target, 2)
    assert number_of(Directory.open(target)) == 2
    assert os.listdir(tmp_path) == ["x"]


def test_targets_beside_each_other_do_not_meet(tmp_path):
    with DirectoryWriter(tmp_path / "x") as writer:
        commit(tmp_path / "y", 1)
        commit(tmp_path / "x.tmp", 2)
        writer.commit({})
    assert sorted(os.listdir(tmp_path)) == ["x", "x.tmp", "y"]


def test_target_that_appears_meanwhile_is_left_alone(tmp_path):
    target = tmp_path / "x"
    with pytest.raises(FileExistsError, match="appeared"), DirectoryWriter(target) as writer:  # noqa: PT012
        target.mkdir()
        (target / "mine").touch()
        writer.commit({})
    assert os.listdir(target) == ["mine"]
    assert os.listdir(tmp_path) == ["x"]


def test_many_writers_one_after_the_other(tmp_path):
    """Writers that are refused try again; each one's state is whole."""
    target = tmp_path / "x"
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            while True:
                try:
                    return commit(target, number)
                except BlockingIOError:
                    threading.Event().wait(0.002)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    directory = Directory.open(target)
    assert number_of(directory) in range(12)
    assert directory.generation == 12
    assert os.listdir(tmp_path) == ["x"]
