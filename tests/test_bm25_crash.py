"""The writer of a BM25 index may die anywhere: no committed document is lost, none half visible.

GNOMON_KILLS sets how many times a writing process is killed at a random moment.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import bm25_states
import gnomon
import pytest
from gnomon import _directory_writer
from gnomon._directory_writer import CRASH_POINTS

# Forked children only edit an index and die.
pytestmark = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
KILLS = int(os.environ.get("GNOMON_KILLS", "40"))
REPLACING = [name for name in CRASH_POINTS if "directory" not in name]


def start_child(body: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return pid


def in_child(body: Callable[[], None]) -> int:
    """Runs body in a forked process; its wait status."""
    return os.waitpid(start_child(body), 0)[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    bm25_states.first().save(tmp_path / "index")
    return tmp_path / "index"


def commit(path: Path, step: int, how: str = "commit") -> None:
    with gnomon.BM25Index.open(path, mode="w") as index:
        bm25_states.edit(index, step)
        getattr(index, how)()


def files_of(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


@pytest.mark.parametrize("how", ["commit", "merge"])
@pytest.mark.parametrize("point", REPLACING)
def test_killed_at_every_named_point(
    path: Path, monkeypatch: pytest.MonkeyPatch, point: str, how: str
) -> None:
    commit(path, 1)
    before = gnomon.BM25Index.open(path)  # a reader that stays

    def crash(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(_directory_writer, "_crash_point", crash)
        assert in_child(lambda: commit(path, 2, how)) == signal.SIGKILL, "point not reached"
    done = REPLACING.index(point) >= REPLACING.index("after_manifest_rename")
    assert bm25_states.step_of(path) == (2 if done else 1)
    assert list(before.ids) == list(bm25_states.live(1))
    for step in range(3 if done else 2, 6):
        commit(path, step)
    assert bm25_states.step_of(path) == 5
    named = gnomon.storage.Directory.open(path)
    kept = {"MANIFEST.json", *(Path(c.path).name for c in named._containers.values())}
    assert files_of(path) == kept  # nothing of the dead writer is left


def test_killed_at_random_moments(path: Path) -> None:
    """A process commits without end and is killed at any moment; what it reported stays."""
    rng = random.Random(3)
    step = 0
    for turn in range(KILLS):
        read, write = os.pipe()

        def work(step: int = step, write: int = write) -> None:
            with gnomon.BM25Index.open(path, mode="w") as index:
                for number in range(step + 1, 10**9):
                    bm25_states.edit(index, number)
                    index.commit()
                    os.write(write, b"%d\n" % number)

        pid = start_child(work)
        os.close(write)
        with open(read, "rb") as pipe:
            told = [pipe.readline()] if turn % 4 else []  # else it may not even have begun
            threading.Event().wait(rng.random() * 0.06)
            os.kill(pid, signal.SIGKILL)
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
            reported = [step, *map(int, told), *map(int, pipe.read().split())][-1]
        step = bm25_states.step_of(path)
        assert step in (reported, reported + 1)
    assert step > KILLS // 2  # or no commit was ever under way
    commit(path, step + 1)
    assert bm25_states.step_of(path) == step + 1


@pytest.mark.parametrize("limit", [0, 200, 2000])
def test_a_full_disk_leaves_the_old_state_and_the_edits(path: Path, limit: int) -> None:
    """RLIMIT_FSIZE makes the system refuse writes past a size, as a full disk does."""
    import resource

    before = files_of(path)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        index = gnomon.BM25Index.open(path, mode="w")
        bm25_states.edit(index, 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        for how in ("commit", "merge"):
            with pytest.raises(OSError) as caught:  # noqa: PT011
                getattr(index, how)()
            assert caught.value.errno == errno.EFBIG
            assert files_of(path) == {*before, ".lock"}
            assert bm25_states.step_of(path) == 0
        assert list(index.ids) == list(bm25_states.live(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        index.commit()  # there is room again
        index.close()

    assert in_child(work) == 0
    assert bm25_states.step_of(path) == 1


def test_one_writer_at_a_time(path: Path) -> None:
    writer = gnomon.BM25Index.open(path, mode="w")

    def other() -> None:
        with pytest.raises(BlockingIOError, match=f"process {os.getppid()}"):
            gnomon.BM25Index.open(path, mode="w")
        with pytest.raises(BlockingIOError, match=f"process {os.getppid()}"):
            bm25_states.first().save(path)
        assert bm25_states.step_of(path) == 0  # readers are not kept out
        with pytest.raises(ValueError, match="by the parent process"):
            writer.delete(["0 1"])  # the lock is the parent's alone

    assert in_child(other) == 0
    bm25_states.edit(writer, 1)
    writer.commit()
    writer.close()
    with pytest.raises(ValueError, match="was closed"):
        writer.add([["x"]], ["y"])
    assert in_child(lambda: commit(path, 2)) == 0
    assert bm25_states.step_of(path) == 2


def test_a_killed_writer_with_a_living_child_keeps_no_lock(path: Path) -> None:
    """A forked child holds the files of its parent open, but not its lock."""
    read, write = os.pipe()

    def work() -> None:
        index = gnomon.BM25Index.open(path, mode="w")
        child = start_child(lambda: threading.Event().wait(60) and None)
        bm25_states.edit(index, 1)
        os.write(write, b"%d\n" % child)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == signal.SIGKILL
    child = int(os.read(read, 20))
    try:
        commit(path, 1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(read)
        os.close(write)


def test_readers_keep_their_state_through_commits_and_merges(path: Path) -> None:
    readers = []
    for step in range(1, 9):
        readers.append((step - 1, gnomon.BM25Index.open(path)))
        commit(path, step, "merge" if step % 3 == 0 else "commit")
    for step, reader in readers:
        documents = bm25_states.live(step)
        assert list(reader.ids) == list(documents)
        assert reader.refresh()
        assert list(reader.ids) == list(bm25_states.live(8))
        assert not reader.refresh()
