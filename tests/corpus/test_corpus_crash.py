"""A writer may die anywhere, and the disk may be full or lie: no reader ever sees half a state.

`GNOMON_CRASHES` sets how many times a writer is killed at a random moment (500 in the long run).
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from corpus_states import built, embed, pages, put, told
from gnomon import CorruptIndex
from gnomon.corpus import CorpusIndex, Snapshot, transaction
from gnomon.corpus.generation import KINDS, read_state
from gnomon.corpus.transaction import CRASH_POINTS

pytestmark = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")

CRASHES = int(os.environ.get("GNOMON_CRASHES", "6"))
LIMITS = (1, 400, 3000, 9000, 20_000)  # bytes that a file may have
PAST = ("after_transaction", "in_cleanup")


def in_child(body) -> int:
    """Runs body in a forked process; its wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def only_named_files(path: Path) -> None:
    """Nothing lies around that the newest generation does not name."""
    state = read_state(path)
    assert os.listdir(path / "sparse") == [state.sparse.name]
    assert sorted(os.listdir(path / "seg")) == sorted(part.name for part in state.segments)
    assert os.listdir(path / "dense") == ([state.dense.name] if state.dense else [])


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_killed_at_a_named_point(tmp_path, monkeypatch, point):
    path = tmp_path / "x"
    old, new = pages(1, 4), pages(2, 4)
    with CorpusIndex.create(path) as index:
        put(index, old, embedder=embed)
        generation = index.generation

    def update() -> None:
        def crash(name: str) -> None:
            if name == point:
                os.kill(os.getpid(), signal.SIGKILL)

        transaction.crash_point = crash
        put(CorpusIndex.open(path), new, embedder=embed)

    assert in_child(update) == signal.SIGKILL, "point not reached"
    past = point in PAST
    assert Snapshot.open(path).generation == generation + past
    assert told(Snapshot.open(path)) == told(built(tmp_path / "y", new if past else old,
                                                   embedder=embed))  # fmt: skip
    with CorpusIndex.open(path) as index:
        only_named_files(path)
        assert index.verify() == []
        put(index, new, embedder=embed)
        assert index.verify() == []
        only_named_files(path)


def test_killed_at_random_moments(tmp_path):
    """A process that updates without end is killed; the generation never goes back, and what was
    reported stays.
    """
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from corpus_states import edited, embed, pages, put\n"
        "from gnomon.corpus import CorpusIndex\n"
        "import random\n"
        "rng = random.Random(int(sys.argv[3])); now = pages(int(sys.argv[3]), 6)\n"
        "index = CorpusIndex.open(sys.argv[2]); print(0, flush=True)\n"
        "while True:\n"
        "    now = edited(now, rng); put(index, now, embedder=embed)\n"
        "    print(index.generation, flush=True)\n"
    )
    path, rng, newest = tmp_path / "x", random.Random(3), 1
    CorpusIndex.create(path).close()
    for turn in range(CRASHES):
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(path), str(turn)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(1 + turn % 3)]
        time.sleep(rng.random() * 0.15)
        process.kill()
        reported += [int(line) for line in process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        assert Snapshot.open(path).generation >= max(newest, *reported)
        with CorpusIndex.open(path) as index:
            only_named_files(path)
            assert index.verify() == []
            newest = index.generation


def test_killed_while_creating(tmp_path):
    def create() -> None:
        def die(*_: object, **__: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        os.rename = die  # type: ignore[assignment]
        CorpusIndex.create(tmp_path / "x")

    assert in_child(create) == signal.SIGKILL
    assert not (tmp_path / "x").exists()
    CorpusIndex.create(tmp_path / "x").close()
    assert Snapshot.open(tmp_path / "x").stats().documents == 0


def test_an_error_on_the_way_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "x"
    with CorpusIndex.create(path) as index:
        put(index, pages(1, 3))
        before = told(index.snapshot())
        for point in CRASH_POINTS[:-2]:

            def fail(name: str, point: str = point) -> None:
                if name == point:
                    raise OSError(errno.ENOSPC, "No space left on device")

            monkeypatch.setattr(transaction, "crash_point", fail)
            with pytest.raises(OSError, match="No space"):
                put(index, pages(2, 3))
            assert told(index.snapshot()) == before
            only_named_files(path)
        monkeypatch.undo()
        put(index, pages(2, 3))
        assert told(index.snapshot()) == told(built(tmp_path / "y", pages(2, 3)))


def test_full_disk(tmp_path):
    """The limit on the size of files stands for a disk that takes no more, wherever it strikes."""
    path = tmp_path / "x"
    with CorpusIndex.create(path) as index:
        put(index, pages(1, 3))
    before = told(Snapshot.open(path))

    def update(limit: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        index = CorpusIndex.open(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            put(index, pages(2, 60))
        except OSError:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            index.close()
            os._exit(7)

    status = [in_child(lambda limit=limit: update(limit)) for limit in LIMITS]
    assert [os.waitstatus_to_exitcode(one) for one in status] == [7] * len(LIMITS)
    assert told(Snapshot.open(path)) == before
    with CorpusIndex.open(path) as index:
        only_named_files(path)
        assert index.verify() == []


def files_of(path: Path) -> list[Path]:
    return [
        place for kind in KINDS for place in sorted((path / kind).rglob("*")) if place.is_file()
    ]


def test_torn_and_lost_files_are_refused(tmp_path):
    path = tmp_path / "x"
    with CorpusIndex.create(path) as index:
        put(index, pages(1, 6), embedder=embed)
        put(index, pages(2, 6), embedder=embed)
    files = files_of(path)
    assert len(files) > 8
    for place in files:
        whole = place.read_bytes()
        for torn in (whole[: len(whole) // 2], b""):
            place.write_bytes(torn)
            with pytest.raises(CorruptIndex):
                Snapshot.open(path)
        place.unlink()
        with pytest.raises(CorruptIndex):
            Snapshot.open(path)
        place.write_bytes(whole)
    assert told(Snapshot.open(path)) == told(built(tmp_path / "y", pages(2, 6), embedder=embed))


def test_damaged_bytes_are_found(tmp_path):
    """Wherever a byte changes, verify says so; what a reader touches is refused at once."""
    path = tmp_path / "x"
    with CorpusIndex.create(path) as index:
        put(index, pages(1, 6), embedder=embed)
        put(index, pages(2, 6), embedder=embed)
    rng = random.Random(4)
    for place in files_of(path):
        whole = place.read_bytes()
        for _ in range(2):
            damaged = bytearray(whole)
            damaged[rng.randrange(len(damaged))] ^= 0x55
            place.write_bytes(damaged)
            try:
                with CorpusIndex.open(path) as index:
                    assert index.verify() != []
            except CorruptIndex:
                pass
        place.write_bytes(whole)
    with CorpusIndex.open(path) as index:
        assert index.verify() == []


def test_a_damaged_database_is_refused(tmp_path):
    path = tmp_path / "x"
    built(path, pages(1, 2))
    whole = (path / "meta.sqlite").read_bytes()
    (path / "meta.sqlite").write_bytes(whole[:100])
    with pytest.raises((CorruptIndex, OSError)):
        Snapshot.open(path)
    (path / "meta.sqlite").write_bytes(whole)
    database = sqlite3.connect(path / "meta.sqlite")
    (state,) = database.execute("SELECT state FROM generation").fetchone()
    damaged = bytearray(state)
    damaged[20] ^= 1
    database.execute("UPDATE generation SET state = ?", (bytes(damaged),))
    database.commit()
    database.close()
    with pytest.raises(CorruptIndex, match="checksum"):
        Snapshot.open(path)


def test_one_writer(tmp_path):
    path = tmp_path / "x"
    with CorpusIndex.create(path) as index:
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()}"):
            CorpusIndex.open(path)
        index.close()
        with pytest.raises(ValueError, match="was closed"):
            index.update([])
    CorpusIndex.open(path).close()
    with pytest.raises(FileExistsError):
        CorpusIndex.create(path)
    with pytest.raises(FileNotFoundError, match="no corpus"):
        CorpusIndex.open(tmp_path)
    with pytest.raises(FileNotFoundError, match="no corpus"):
        Snapshot.open(tmp_path / "nowhere")


def test_readers_keep_their_generation(tmp_path):
    """Eight readers and a writer: no error, and no answer of two generations."""
    path = tmp_path / "x"
    seconds = float(os.environ.get("GNOMON_CORPUS_SECONDS", "2"))
    problems: list[str] = []
    stop = threading.Event()

    def content(number: int) -> dict[str, bytes]:
        return {f"{i}.md": b"# T%d\n\ngeneration g%d\n" % (i, number) for i in range(4)}

    def read() -> None:
        snapshot = Snapshot.open(path)
        try:
            while not stop.is_set():
                snapshot = snapshot.refresh()
                lines = snapshot.grep("generation g[0-9]+").lines
                said = {bytes(snapshot.raw(each.doc_id)[slice(*each.span)]) for each in lines}
                hits = snapshot.sparse.search("generation", k=9).ids
                texts = {chunk.text.split()[-1] for chunk in snapshot.at(hits)}
                if not (len(said) == len(texts) == 1 and len(lines) == len(hits) == 4):
                    problems.append(f"{snapshot.generation}: {said} {texts}")
        except Exception as error:
            problems.append(repr(error))

    with CorpusIndex.create(path) as index:
        put(index, content(0))
        readers = [threading.Thread(target=read) for _ in range(8)]
        for reader in readers:
            reader.start()
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end or number < 3:
            number += 1
            put(index, content(number))
        stop.set()
        for reader in readers:
            reader.join()
    assert problems == []


def test_a_snapshot_outlives_its_files(tmp_path):
    path = tmp_path / "x"
    snapshot = built(path, pages(1, 5), embedder=embed)
    before = told(snapshot)
    with CorpusIndex.open(path) as index:
        put(index, pages(2, 5), embedder=embed)
    fresh = Snapshot.open(path)
    shutil.rmtree(path)
    assert told(snapshot) == before
    assert told(fresh) == told(built(tmp_path / "y", pages(2, 5), embedder=embed))
