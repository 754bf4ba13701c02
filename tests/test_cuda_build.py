"""How the CUDA back end is built: its primitives, its machine code, and a machine without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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

ARCHITECTURES = ("80", "90a", "100", "120")
CANONICAL = """
#include "bm25.cuh"
#include "dense_settle.cuh"
#include "mmr.cuh"
"""
SETTLING = ("bm25_settle", "dense_settle", "mmr_greedy", "mmr_cosines", "dense_squares")
DIVISION = """
namespace gnomon::cuda {
__global__ void divided_once(double* x) { x[0] = x[1] / x[2]; }
__global__ void divided_twice(double* x) { x[0] = x[1] / x[2] / x[3]; }
__global__ void rooted_once(double* x) { x[0] = __dsqrt_rn(x[1]); }
__global__ void rooted_twice(double* x) { x[0] = __dsqrt_rn(x[1]) * __dsqrt_rn(x[2]); }
}
"""
PROBES = ("divided_once", "divided_twice", "rooted_once", "rooted_twice")
SCREEN90 = """
#include "dense_screen90.cuh"
namespace gnomon::cuda {
void all(const ScreenArgs& args, cudaStream_t stream) {
    start_screen90<int, 1, 4>(args, stream);
    start_screen90<int, 2, 4>(args, stream);
    start_screen90<float, 1, 4>(args, stream);
}
}
"""


class Code(NamedTuple):
    """What nvcc made of a kernel: operations of the PTX, and instructions of the machine code."""

    unrounded: int  # operations that a compiler has fused, or may still fuse
    divisions: int
    roots: int
    fused64: int
    fused32: int


def opcodes(cubin: bytes) -> dict[str, list[int]]:
    """By section with a kernel's code: the low nine bits of its instructions, of 16 bytes each."""
    (headers,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    sections = [
        struct.unpack_from("<IIQQQQ", cubin, headers + place * size) for place in range(count)
    ]
    found = {}
    for name_at, _, _, _, offset, length in sections:
        start = sections[names_at][4] + name_at
        name = cubin[start : cubin.index(b"\0", start)].decode()
        if name.startswith(".text."):
            words = struct.iter_unpack("<H14x", cubin[offset : offset + length])
            found[name] = [word & 0x1FF for (word,) in words]
    return found


def machine_code(folder: Path, source: str, arch: str, *flags: str) -> tuple[dict[str, Code], str]:
    """The kernels of a source for an architecture, and what the assembler said of them."""
    (folder / "some.cu").write_text(source, "utf-8")
    command = [nvcc(), "-std=c++17", "-O3", *flags, f"-I{emulated.CUDA}", "-Xptxas=-v", "--keep"]
    command += ["-cubin", "-gencode", f"arch=compute_{arch},code=sm_{arch}", "some.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = (folder / "some.ptx").read_text("utf-8")
    found = {}
    for section, codes in opcodes((folder / "some.cubin").read_bytes()).items():
        name = section.removeprefix(".text.")
        body = text[text.index(f".entry {name}(") :]
        body = body[: body.index("\n}")]
        found[name] = Code(
            len(re.findall(r"\bfma\.|\b(?:mul|add|sub)\.f(?:32|64)", body)),
            body.count("div.rn.f64"),
            body.count("sqrt.rn.f64"),
            codes.count(0x2B),  # DFMA
            codes.count(0x23),  # FFMA
        )
    return found, done.stderr


def named(kernels: dict[str, Code], name: str) -> Code:
    (code,) = (code for full, code in kernels.items() if re.search(rf"\d{name}E", full))
    return code


def assert_no_spills(said: str, kernels: int) -> None:
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    assert len(spills) >= kernels
    assert set(spills) == {("0", "0")}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_canonical_code_is_never_fused(tmp_path: Path, arch: str) -> None:
    """Not by nvcc, nor by the assembler behind it.

    Every fused multiply-add of the machine code belongs to a division or a root, whose numbers of
    them are known from code that has nothing else.
    """
    kernels, said = machine_code(tmp_path, CANONICAL + DIVISION, arch, "-fmad=false")
    assert_no_spills(said, len(kernels))
    assert sum(code.unrounded for code in kernels.values()) == 0
    once, twice, root, roots = (named(kernels, name).fused64 for name in PROBES)
    for name in SETTLING:
        code = named(kernels, name)
        wanted = code.divisions * (twice - once) + code.roots * (roots - root)
        wanted += 2 * once - twice if code.divisions else 0  # the way for extreme operands, once
        wanted += 2 * root - roots if code.roots else 0
        assert code.fused64 == wanted, name
        assert code.fused32 == code.divisions, name  # of its test for extreme operands
    assert named(kernels, "dense_settle").divisions == 1
    assert named(kernels, "dense_squares").fused64 == 0


def test_the_check_of_fused_code_sees_it(tmp_path: Path) -> None:
    kernels, _ = machine_code(tmp_path, CANONICAL, "80", "-fmad=true")
    assert named(kernels, "bm25_settle").unrounded > 0
    assert named(kernels, "topk_merge").fused64 == 2  # of its limit; without the flag it has none


def test_warpgroup_products_overlap(tmp_path: Path) -> None:
    """And keep their registers; ptxas warns of products that it runs one by one."""
    kernels, said = machine_code(tmp_path, SCREEN90, "90a", "-fmad=false")
    assert len(kernels) == 3
    assert_no_spills(said, 3)
    assert "wgmma" not in said


@pytest.mark.skipif(not SANITIZE, reason="set GNOMON_CUDA_SANITIZE=1; a build asks it, too")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_keep_their_registers(tmp_path: Path, arch: str) -> None:
    """All of them; a build with GNOMON_WERROR, as CI's is, refuses a kernel that spills."""
    _, said = machine_code(tmp_path, '#include "kernels.cu"', arch, "-fmad=false")
    assert_no_spills(said, 25)


# --- sanitizers -----------------------------------------------------------------------------------

# Which kind of tests/cuda/races.cpp comes by the barriers of a file.
RACES = {
    "dense_screen.cuh": "narrow",
    "dense_screen90.cuh": "wgmma",
    "topk.cuh": "topk",
    "bm25.cuh": "bm25",
    "mmr.cuh": "mmr",
}


def racing(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The kernels of races.cpp with a thread of the system for each of CUDA's."""
    flags = ["-O1", "-g1", "-fsanitize=thread", "-DGNOMON_EMULATED_THREADS", "-Wno-tsan"]
    sources = [emulated.CUDA / "kernels.cu", *EMULATOR_ONLY, emulated.EMULATOR / "races.cpp"]
    program = emulated.build("races", sources, flags, shared=False)
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, env=environment
    )


def test_no_races() -> None:
    """ThreadSanitizer finds none, and one where a barrier is left out."""
    done = racing()
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stdout.count("\n") == 8  # kinds
    file, line, _ = next(site for site in mutants.sites() if site[0] == "bm25.cuh")
    assert "data race" in racing(RACES[file], file, str(line)).stderr


BARRIERS = [site for site in mutants.sites() if "__syncthreads" in site[2]]


@pytest.mark.skipif(not SANITIZE, reason="set GNOMON_CUDA_SANITIZE=1: a minute of races")
@pytest.mark.parametrize(("file", "line"), [site[:2] for site in BARRIERS])
def test_each_barrier_left_out_is_a_race(file: str, line: int) -> None:
    assert "data race" in racing(RACES[file], file, str(line)).stderr


@pytest.mark.skipif(not SANITIZE, reason="set GNOMON_CUDA_SANITIZE=1: the build takes long")
def test_no_access_outside_of_memory() -> None:
    """AddressSanitizer and UndefinedBehaviorSanitizer over searches of every kind, on fibers."""
    flags = ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    sources = [*emulated.DEVICE_SOURCES, *EMULATOR_ONLY, emulated.EMULATOR / "bounds.cpp"]
    program = emulated.build("bounds", sources, flags, shared=False)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=0"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stdout.count("\n") == 6


def test_arrays_of_numpy_are_not_taken_for_the_devices(device: emulated.Emulator) -> None:
    found = gnomon.cosine_topk(np.ones(2), np.eye(2), 1, device="emulated")
    assert isinstance(found.values, np.ndarray)
