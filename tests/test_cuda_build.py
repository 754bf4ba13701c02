"""How the CUDA back end is built: its primitives, its machine code, and a machine without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cuda_mutants as mutants
import emulated
import gnomon
import numpy as np
import pytest

TESTS = Path(__file__).parent
SANITIZE = os.environ.get("GNOMON_CUDA_SANITIZE") == "1"
EMULATOR_ONLY = [emulated.EMULATOR / "emulator.cpp"]


def nvcc() -> str:
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        pytest.skip("nvcc is not installed: the kernels are not compiled for GPUs here")
    return found


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- without a GPU --------------------------------------------------------------------------------


def test_a_machine_without_a_gpu_says_so() -> None:
    cpu, *others = gnomon.devices()
    assert cpu == ("cpu", True, "every search")
    assert others, "a device that cannot be used is listed with the reason"
    for one in others:
        assert one.detail
        if not one.usable:
            with pytest.raises(gnomon.DeviceError, match=re.escape(one.detail)):
                gnomon.cosine_topk([1.0], [[1.0]], 1, device=one.name)


def test_importing_the_extension_needs_no_driver() -> None:
    if importlib.util.find_spec("gnomon._cuda") is None:
        pytest.skip("gnomon was built without CUDA")
    seen = run_python("from gnomon import _cuda; print(_cuda.devices()['driver'])")
    assert int(seen) >= 0


def test_importing_gnomon_loads_no_cuda() -> None:
    loaded = run_python("import sys, gnomon; print('gnomon._cuda' in sys.modules)")
    assert loaded.strip() == "False"


def test_names_of_devices() -> None:
    index = gnomon.DenseIndex.build([[1.0]])
    assert index.search([1.0], 1, device="cpu").ids.tolist() == [0]
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:N', got 'tpu'"):
        index.search([1.0], 1, device="tpu")
    code = "import gnomon; gnomon.DenseIndex.build([[1.0]]).search([1.0], 1, device='emulated')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "device 'emulated' exists in gnomon's own tests only" in done.stderr


def test_a_device_that_does_not_exist(device: emulated.Emulator) -> None:
    with pytest.raises(gnomon.DeviceError, match="'emulated:3' does not exist: this machine has 1"):
        gnomon.cosine_topk([1.0], [[1.0]], 1, device="emulated:3")


# --- primitives -----------------------------------------------------------------------------------


def test_each_primitive_does_what_plain_code_does() -> None:
    source = emulated.EMULATOR / "conformance.cu"
    program = emulated.build("conformance", [source, *EMULATOR_ONLY], ["-O1"], shared=False)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line for line in lines if not line["right"]] == []
    assert done.returncode == 0, done.stderr
    names = {line["primitive"] for line in lines}
    assert {"mma int8", "mma bf16", "wgmma int8", "wgmma bf16"} < names
    # The emulated sum rounds toward zero after every product: an eighth of what the bound allows.
    sums = [line["float_sum"] for line in lines if "bf16" in line["primitive"]]
    assert 0.0 < max(sums) < 0.125


def test_misuse_of_a_primitive_is_an_error(device: emulated.Emulator) -> None:
    """The checks of the emulator work: an odd number of threads cannot meet at a barrier."""
    code = """
#include "emulator.hpp"
#include <cstdio>
void half() { if (threadIdx.x < 5) __syncthreads(); else __syncwarp(0xffffffffU); }
void wrong_mask() { __syncwarp(2U << threadIdx.x); }
void gone() { if (threadIdx.x == 3) return; __syncwarp(); }
int main() {
    for (auto* kernel : {&half, &wrong_mask, &gone}) {
        try { emulator::run_grid(kernel, dim3(1), dim3(32), 0); std::puts("no error"); }
        catch (const emulator::Failure& error) { std::puts(error.what()); }
    }
}
"""
    folder = emulated.ROOT / "build" / "emulated"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "misuse.cpp"
    source.write_text(code, "utf-8")
    program = emulated.build("misuse", [source, *EMULATOR_ONLY], ["-O0"], shared=False)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(said) == 3
    assert said[0].startswith("emulator: deadlock: not every thread reaches")
    assert said[1].startswith("emulator: the calling lane is not in its mask: __syncwarp")
    assert said[2].startswith("emulator: a mask names a lane that has exited: __syncwarp")


# --- machine code ---------------------------------------------------------------------------------

CANONICAL = """
#include "bm25.cuh"
#include "dense_settle.cuh"
#include "mmr.cuh"
"""


def fusable(folder: Path, *flags: str) -> list[str]:
    """Fused multiply-adds in the PTX of the kernels that settle scores, and what may become one.

    An operation without ``.rn`` is the assembler's to fuse.
    """
    source = folder / "canonical.cu"
    source.write_text(CANONICAL, "utf-8")
    target = folder / "canonical.ptx"
    command = [nvcc(), "-std=c++20", "-O3", "-arch=compute_90", *flags, f"-I{emulated.CUDA}"]
    subprocess.run([*command, "-ptx", str(source), "-o", str(target)], check=True)
    text = target.read_text("utf-8")
    for name in ("bm25_settle", "dense_settle", "mmr_greedy", "mmr_cosines"):
        assert name in text
    return re.findall(r"\bfma\.rn\.f(?:32|64)|\b(?:mul|add|sub)\.f(?:32|64)", text)


def test_canonical_code_is_never_fused(tmp_path: Path) -> None:
    assert fusable(tmp_path, "-fmad=false") == []
    assert fusable(tmp_path, "-fmad=true") != [], "the check sees what a compiler does by itself"


def test_kernels_keep_their_registers(tmp_path: Path) -> None:
    """Hopper's, with both families of products; a build with GNOMON_WERROR asks this of all."""
    command = [nvcc(), "-std=c++20", "-O3", "-fmad=false", "-Xptxas=-v", "-cubin"]
    command += ["-gencode", "arch=compute_90a,code=sm_90a", str(emulated.CUDA / "kernels.cu")]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "kernels.cubin")],
        capture_output=True,
        text=True,
        check=True,
    )
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    assert len(spills) >= 20
    assert set(spills) == {("0", "0")}
    assert "wgmma" not in done.stderr, "ptxas warns of products that it runs one by one"


# --- sanitizers -----------------------------------------------------------------------------------

KINDS = 9  # of tests/cuda/races.cpp
# Which of them comes by the barriers of a file.
RACES = {
    "dense_screen.cuh": "narrow",
    "dense_screen90.cuh": "wgmma",
    "topk.cuh": "dense",
    "bm25.cuh": "bm25",
    "mmr.cuh": "mmr",
}


def sanitized(name: str, *flags: str) -> Path:
    sources = [*emulated.DEVICE_SOURCES, *EMULATOR_ONLY, emulated.EMULATOR / "races.cpp"]
    return emulated.build(name, sources, ["-O1", "-g1", *flags], shared=False)


def racing(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The searches of races.cpp with a thread of the system for each of CUDA's."""
    program = sanitized("races", "-fsanitize=thread", "-DGNOMON_EMULATED_THREADS", "-Wno-tsan")
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, env=environment
    )


def test_no_races() -> None:
    """ThreadSanitizer finds none, and one where a barrier is left out."""
    done = racing()
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stdout.count("\n") == KINDS
    file, line, _ = next(site for site in mutants.sites() if site[0] == "bm25.cuh")
    assert "data race" in racing(RACES[file], file, str(line)).stderr


BARRIERS = [site for site in mutants.sites() if "__syncthreads" in site[2]]


@pytest.mark.skipif(not SANITIZE, reason="set GNOMON_CUDA_SANITIZE=1: a minute of races")
@pytest.mark.parametrize(("file", "line"), [site[:2] for site in BARRIERS])
def test_each_barrier_left_out_is_a_race(file: str, line: int) -> None:
    assert "data race" in racing(RACES[file], file, str(line)).stderr


@pytest.mark.skipif(not SANITIZE, reason="set GNOMON_CUDA_SANITIZE=1: the build takes long")
def test_no_access_outside_of_memory() -> None:
    """AddressSanitizer and UndefinedBehaviorSanitizer over the same searches, on fibers."""
    program = sanitized(
        "bounds", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
    )
    environment = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=0"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stdout.count("\n") == KINDS


def test_arrays_of_numpy_are_not_taken_for_the_devices(device: emulated.Emulator) -> None:
    found = gnomon.cosine_topk(np.ones(2), np.eye(2), 1, device="emulated")
    assert isinstance(found.values, np.ndarray)
