"""A run may be killed anywhere, any number of times: in the end the file is the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gnomon
import numpy as np
import pytest
from gnomon._core import CorruptIndex
from gnomon.formats import write_vectors
from gnomon.groundtruth import checkpoint_of

# argv: base, queries, out, point, after how many times it is reached, seconds to sleep in a batch.
CHILD = """
import os, signal, sys, time
import gnomon
from gnomon import groundtruth_scan
base, queries, out, point, left, pause = *sys.argv[1:5], int(sys.argv[5]), float(sys.argv[6])

def crash(name):
    global left
    if name == "after_batch":
        time.sleep(pause)
    if name == point:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

groundtruth_scan._crash_point = crash
if point in ("fsync", "replace"):
    inner = getattr(os, point)
    def dying(*arguments, **options):
        crash(point)
        return inner(*arguments, **options)
    setattr(os, point, dying)
print("ready", flush=True)
gnomon.groundtruth(base, queries, 9, out=out, block_rows=100, checkpoint_s=0.0, threads=1)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """base, queries, and the file of a run that nobody killed; 23 blocks, ties everywhere."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(11)
    base = rng.integers(-2, 3, (2_250, 6)).astype(np.float32) + np.float32(0.125)
    write_vectors(folder / "base.fbin", base)
    write_vectors(folder / "queries.fbin", base[:40] * np.float32(0.5))
    gnomon.groundtruth(folder / "base.fbin", folder / "queries.fbin", 9, out=folder / "want.npz")
    return folder


def start(
    world: Path, out: Path, point: str, left: int, pause: float = 0.0
) -> subprocess.Popen[str]:
    files = [str(world / "base.fbin"), str(world / "queries.fbin"), str(out)]
    command = [sys.executable, "-c", CHILD, *files, point, str(left), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait(child: subprocess.Popen[str]) -> int:
    _, errors = child.communicate(timeout=120)
    assert child.returncode in (0, -signal.SIGKILL), errors
    return child.returncode


POINTS = [
    *(("after_batch", n) for n in (1, 7, 22)),
    *(("after_block", n) for n in (1, 12, 23)),
    *(("after_checkpoint", n) for n in (1, 12, 22)),
    *(("fsync", n) for n in (1, 2, 9)),
    *(("replace", n) for n in (1, 9, 23)),
]


@pytest.mark.parametrize(("point", "left"), POINTS)
def test_killed_at_a_point_and_resumed(world: Path, tmp_path: Path, point: str, left: int) -> None:
    out = tmp_path / "truth.npz"
    assert wait(start(world, out, point, left)) == -signal.SIGKILL, "the point was not reached"
    assert not out.exists()
    seen: list[int] = []
    gnomon.groundtruth(
        world / "base.fbin",
        world / "queries.fbin",
        9,
        out=out,
        block_rows=77,  # other blocks than before the kill
        report=lambda phase, done, total: seen.append(done) if phase == "search" else None,
    )
    if point == "after_checkpoint":
        assert seen[0] > left * 100 * 40  # it went on behind the checkpoint
    assert out.read_bytes() == (world / "want.npz").read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["truth.npz"]


def test_killed_at_random_moments_until_it_is_done(world: Path, tmp_path: Path) -> None:
    rng = random.Random(5)
    out = tmp_path / "truth.npz"
    kills = 0
    for attempt in range(40):
        child = start(world, out, "never", 1, pause=0.02)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        # A whole run sleeps for half a second; on a busy machine a block may take that long.
        time.sleep(rng.uniform(0.0, 0.2) * 1.2**attempt)
        child.kill()
        code = wait(child)
        kills += code != 0
        if code == 0:
            break
    else:
        pytest.fail("40 runs were killed, and none got on")
    assert kills >= 2
    assert out.read_bytes() == (world / "want.npz").read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["truth.npz"]


@pytest.fixture
def killed(world: Path, tmp_path: Path) -> Path:
    """The output path of a run that was killed behind its fifth checkpoint."""
    out = tmp_path / "truth.npz"
    assert wait(start(world, out, "after_checkpoint", 5)) == -signal.SIGKILL
    assert checkpoint_of(out).exists()
    return out


def run(world: Path, out: Path, k: int = 9, **options: object) -> None:
    arguments = {"base": world / "base.fbin", "queries": world / "queries.fbin", **options}
    gnomon.groundtruth(k=k, out=out, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"k": 8}, "k was 9, is 8"),
        ({"metric": "ip"}, "metric was cosine, is ip"),
        ({"ties_max": 5}, "ties_max was 1000, is 5"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    world: Path, killed: Path, options: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=rf"of another run: {why}.*--restart"):
        run(world, killed, **options)  # type: ignore[arg-type]
    run(world, killed, restart=True, **options)  # type: ignore[arg-type]
    assert killed.exists()
    assert not checkpoint_of(killed).exists()


def test_a_base_that_changed_is_refused(world: Path, killed: Path, tmp_path: Path) -> None:
    data = bytearray((world / "base.fbin").read_bytes())
    data[-1] ^= 1
    (tmp_path / "other.fbin").write_bytes(data)
    with pytest.raises(ValueError, match="of another run: base_sha256 was"):
        run(world, killed, base=tmp_path / "other.fbin")


def test_the_same_rows_under_another_name_go_on(world: Path, killed: Path, tmp_path: Path) -> None:
    """What counts is what the files hold, not what they are called."""
    (tmp_path / "moved.fbin").write_bytes((world / "base.fbin").read_bytes())
    run(world, killed, base=tmp_path / "moved.fbin")
    assert killed.read_bytes() == (world / "want.npz").read_bytes()


def test_every_flipped_bit_of_a_checkpoint_is_noticed(world: Path, killed: Path) -> None:
    path = checkpoint_of(killed)
    data = path.read_bytes()
    rng = random.Random(2)
    for place in [0, 1, len(data) - 1, *(rng.randrange(len(data)) for _ in range(60))]:
        broken = bytearray(data)
        broken[place] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        with pytest.raises((CorruptIndex, ValueError)):
            run(world, killed)
    for size in (0, 1, 100, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptIndex):
            run(world, killed)
    path.write_bytes(data)
    run(world, killed)
    assert killed.read_bytes() == (world / "want.npz").read_bytes()


def test_two_runs_do_not_write_one_file(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "truth.npz"
    child = start(world, out, "never", 1, pause=0.05)
    try:
        deadline = time.monotonic() + 30
        while not checkpoint_of(out).exists():
            assert time.monotonic() < deadline, "the first run does not start"
            time.sleep(0.01)
        with pytest.raises(BlockingIOError, match=f"process {child.pid}"):
            run(world, out)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    run(world, out)
    assert out.read_bytes() == (world / "want.npz").read_bytes()
