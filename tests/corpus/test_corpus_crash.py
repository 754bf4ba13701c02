"""A writer may die anywhere, and the disk may be full or lie: no reader ever sees half a state.

GNOMON_CRASHES is how many times a writer is killed at a random moment; 500 with GNOMON_CORPUS_FULL.
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
import time
from pathlib import Path

import pytest
from corpora import count
from corpus_states import built, edited, embed, pages, put, told
from gnomon import CorruptIndex
from gnomon.corpus import CorpusIndex, Snapshot, transaction
from gnomon.corpus.generation import KINDS, read_state
from gnomon.corpus.transaction import CRASH_POINTS

pytestmark = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")

CRASHES = count(4, 500, "GNOMON_CRASHES")
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
    """Check 6: a reader has all of the old state or all of the new one at each step of a commit."""
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


WRITER = """
import random, sys
sys.path.insert(0, sys.argv[1])
from corpus_states import edited, embed, pages, put
from gnomon.corpus import CorpusIndex
rng = random.Random(int(sys.argv[3])); now = pages(int(sys.argv[3]), 6)
index = CorpusIndex.open(sys.argv[2]); print(index.generation, flush=True)
while True:
    now = edited(now, rng); put(index, now, embedder=embed)
    print(index.generation, flush=True)
"""


def states_of(seed: int, reported: list[int], now: dict[str, bytes]) -> dict[int, dict[str, bytes]]:
    """The documents of each generation that the writer reported, and of the one behind the last."""
    rng, given = random.Random(seed), pages(seed, 6)
    states = {reported[0]: now}
    for generation in [*reported[1:], reported[-1] + 1]:
        given = edited(given, rng)
        states[generation] = given
    return states


def test_killed_at_random_moments(tmp_path):
    """Check 6: a process that updates without end is killed, 500 times. What a reader has, opened
    while the writer ran or after its end, is all that the documents of its generation say, the one
    reported last or the next; the generation never goes back; recovery takes less than a second.
    """
    path, rng, newest, slowest = tmp_path / "x", random.Random(3), 1, 0.0
    now: dict[str, bytes] = {}
    CorpusIndex.create(path).close()
    for turn in range(CRASHES):
        command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(path), str(turn)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(1 + turn % 3)]
        time.sleep(rng.random() * 0.08)
        during = Snapshot.open(path)
        time.sleep(rng.random() * 0.08)
        process.kill()
        reported += [int(line) for line in process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        states = states_of(turn, reported, now)
        after = Snapshot.open(path)
        assert after.generation in (reported[-1], reported[-1] + 1)
        assert newest <= during.generation <= after.generation
        said = {}
        for snapshot in (during, after):
            generation = snapshot.generation
            if generation not in said:
                anew = built(tmp_path / f"y{turn}-{generation}", states[generation], embedder=embed)
                said[generation] = told(anew)
                shutil.rmtree(tmp_path / f"y{turn}-{generation}")
            assert told(snapshot) == said[generation]
        began, cpu = time.perf_counter(), time.process_time()
        with CorpusIndex.open(path) as index:
            slowest = max(slowest, time.perf_counter() - began)
            assert time.process_time() - cpu < 1.0  # the clock others share stands in the print
            only_named_files(path)
            assert index.verify() == []
            newest = index.generation
        assert newest == after.generation
        now = states[newest]
    print(f"{CRASHES} kills, generation {newest}, slowest recovery {slowest:.3f} s")


FULL_DISK = """
import errno, sys
sys.path.insert(0, sys.argv[1])
from corpus_states import pages, put, told
from gnomon.corpus import CorpusIndex, Snapshot
path = sys.argv[2] + "/x"
with CorpusIndex.create(path) as index:
    put(index, pages(1, 3))
    before, n, failed = told(index.snapshot()), 30, 0
    while failed < 2:
        try:
            put(index, pages(2, n))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            assert told(Snapshot.open(path)) == told(index.snapshot()) == before
            assert index.verify() == []
            failed += 1
            put(index, pages(1, 3))
        else:
            put(index, pages(1, 3))
            n += n // 2
assert told(Snapshot.open(path)) == before
print(n)
"""


def test_a_file_system_without_room(tmp_path):
    """Check 6: updates that grow until a file system of 0.9 MB takes no more change nothing."""
    room = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f'mount -t tmpfs -o size=900k none "{tmp_path}"'
    allowed = shutil.which("unshare") and subprocess.run(
        [*room, "sh", "-c", mount], capture_output=True, check=False
    )
    if not allowed or allowed.returncode:
        pytest.skip("no file system of an own size can be mounted here")
    inside = f'{mount} && exec "$0" -c "$1" "$2" "{tmp_path}"'
    command = [*room, "sh", "-c", inside, sys.executable, FULL_DISK, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
    """Check 6: the limit on the size of files stands for a disk that takes no more."""
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
    """Check 6: of each file of an index."""
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
