"""The lock in front of a SQLite write: limited in time, fair, and gone with its process."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from gnomon.agent.file_lock import FileLock

pytestmark = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


def test_one_holder(path):
    with FileLock(path) as first, FileLock(path) as second:
        assert first.acquire(1)
        start = time.monotonic()
        assert not second.acquire(0.05)
        assert 0.05 <= time.monotonic() - start < 5
        first.release()
        assert second.acquire(5)
        second.release()


def test_a_wait_that_was_given_up_does_not_keep_the_lock(path):
    with FileLock(path) as first, FileLock(path) as second, FileLock(path) as third:
        assert first.acquire(1)
        assert not second.acquire(0.01)
        first.release()
        assert third.acquire(5)
        assert not second.acquire(0.01)
        assert not second.acquire(0.01)
        third.release()
        assert second.acquire(5)
        assert not first.acquire(0.01)
        second.release()
        assert first.acquire(5)


def test_whoever_waits_comes_before_whoever_asks_again(path):
    order: list[str] = []
    with FileLock(path) as first, FileLock(path) as second:
        assert first.acquire(1)

        def wait() -> None:
            assert second.acquire(10)
            order.append("second")
            second.release()

        thread = threading.Thread(target=wait)
        thread.start()
        while not second._pending:
            time.sleep(0.001)
        time.sleep(0.02)
        first.release()
        assert first.acquire(10)
        order.append("first again")
        first.release()
        thread.join()
    assert order == ["second", "first again"]


def test_an_interrupted_wait_gives_the_lock_back(path, monkeypatch):
    with FileLock(path) as first, FileLock(path) as second:
        assert first.acquire(1)

        def interrupt(timeout: float) -> bool:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(second._granted, "wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                second.acquire(10)
        first.release()
        assert first.acquire(10)
        first.release()


def test_a_wait_without_a_thread_keeps_no_place(path, monkeypatch):
    with FileLock(path) as first, FileLock(path) as second, FileLock(path) as third:
        assert first.acquire(1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _no_thread_left)
            with pytest.raises(RuntimeError, match="no thread"):
                second.acquire(1)
        first.release()
        assert third.acquire(5)
        third.release()
        assert second.acquire(5)
        second.release()


def _no_thread_left(thread):
    raise RuntimeError("no thread left")


def test_a_killed_holder_leaves_nothing(path):
    child = os.fork()
    if child == 0:
        assert FileLock(path).acquire(1)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with FileLock(path) as lock:
        assert lock.acquire(5)


def test_closing_while_it_waits(path):
    with FileLock(path) as first:
        assert first.acquire(1)
        second = FileLock(path)
        assert not second.acquire(0.01)
        second.close()
        second.close()
        first.release()
        with FileLock(path) as third:
            assert third.acquire(5)
