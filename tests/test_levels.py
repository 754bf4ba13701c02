"""Levels and threads: chosen once per process, forced by the environment, never by accident."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gnomon
import pytest

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ["scalar", "avx2", "avx512", "avx512vnni", "avx512amx", "neon"]
SEARCH = """
import gnomon, numpy
index = gnomon.BM25Index.build([["a", "b"], ["b"], ["a", "a", "c"], []])
hits = index.search(["a", "b", "a"], 3)
print(hits.scores.tolist(), hits.ids.tolist())
rows = numpy.arange(200, dtype=numpy.float32).reshape(5, 40) % 7 - 3
print(gnomon.cosine_topk(rows[2], rows, 5).values.tolist())
"""


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {k: v for k, v in os.environ.items() if k not in {"GNOMON_LEVEL", "GNOMON_THREADS"}}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=keep | environment, capture_output=True, text=True, check=False
    )


def test_levels_go_from_slowest_to_fastest() -> None:
    levels = gnomon.levels()
    assert levels[0] == "scalar"
    assert levels == [level for level in KNOWN if level in levels]


@pytest.mark.parametrize("level", gnomon.levels())
def test_a_forced_level_gives_the_same_bits(level: str) -> None:
    free, forced = run_python(SEARCH), run_python(SEARCH, GNOMON_LEVEL=level)
    assert free.returncode == 0, free.stderr
    assert forced.returncode == 0, forced.stderr
    assert forced.stdout == free.stdout


@pytest.mark.parametrize("name", ["fast", "AVX2", " scalar"])
def test_an_unknown_level_is_an_error_that_lists_the_usable_ones(name: str) -> None:
    done = run_python(SEARCH, GNOMON_LEVEL=name)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError")
    assert "GNOMON_LEVEL" in last
    assert repr(name)[1:-1] in last
    assert all(level in last for level in gnomon.levels())


def test_a_level_that_this_machine_lacks_is_an_error() -> None:
    lacking = [level for level in KNOWN if level not in gnomon.levels()]
    done = run_python(SEARCH, GNOMON_LEVEL=lacking[-1])
    assert done.returncode != 0
    assert "ValueError" in done.stderr
    assert all(level in done.stderr for level in gnomon.levels())


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "99999999999999999999"])
def test_a_bad_thread_count_is_an_error_that_names_it(value: str) -> None:
    many = "import gnomon\ngnomon.BM25Index.build([['a']] * 9).search_many([['a']] * 9, 1)"
    done = run_python(many, GNOMON_THREADS=value)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError")
    assert "GNOMON_THREADS" in last
    assert value in last


@pytest.mark.parametrize("value", ["1", "2", "7"])
def test_the_thread_count_never_changes_an_answer(value: str) -> None:
    code = """
import gnomon
index = gnomon.BM25Index.build([["a"] * (i % 5) + ["b"] * (i % 3) for i in range(300)])
print([(h.ids.tolist(), h.scores.tolist()) for h in index.search_many([["a"], ["b", "a"]] * 20, 7)])
"""
    assert run_python(code, GNOMON_THREADS=value).stdout == run_python(code).stdout != ""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_threads_are_as_many_as_the_cores_that_the_process_may_use() -> None:
    code = """
import os
from gnomon import _core
cores = os.sched_getaffinity(0)
assert _core.thread_count() == len(cores)
os.sched_setaffinity(0, {min(cores)})
assert _core.thread_count() == 1
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


# The build itself: -ffast-math reorders additions, so it must not come in through the environment.


@pytest.mark.parametrize(
    "flags", ["-ffast-math", "-O2 -Ofast", "-ffp-contract=fast", "-mfpmath=387"]
)
@pytest.mark.parametrize("variable", ["CXXFLAGS", "CFLAGS", "LDFLAGS"])
def test_the_build_refuses_flags_that_change_bits(
    tmp_path: Path, variable: str, flags: str
) -> None:
    cmake = shutil.which("cmake")
    if cmake is None or shutil.which("g++") is None:
        pytest.skip("needs cmake and g++ to configure a build")
    if not (ROOT / "CMakeLists.txt").exists():
        pytest.skip("needs the source tree")
    command = [
        cmake,
        "-S",
        str(ROOT),
        "-B",
        str(tmp_path),
        "-DGNOMON_PYTHON=OFF",
        "-DGNOMON_CUDA=OFF",
    ]
    done = subprocess.run(
        command, env=os.environ | {variable: flags}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"gnomon: {flags.split()[-1]} changes the bits of scores" in done.stderr


def test_a_level_that_is_not_utf8_is_an_error_like_any_other() -> None:
    script = "import gnomon; gnomon.BM25Index.build(['a']).search('a')"
    environment = {**os.environb, b"GNOMON_LEVEL": b"\xff"}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert "usable levels: scalar" in ran.stderr
    assert r"'\xff'" in ran.stderr
