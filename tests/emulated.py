"""Builds the emulated device: gnomon._cuda over tests/cuda's emulator in the place of a GPU.

The sources are those that ship; only the device is another. A build is kept in build/ by the hash
of all that goes into it. Nothing of this is installed.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
CUDA = ROOT / "cuda"
EMULATOR = ROOT / "tests" / "cuda"
DEVICE_SOURCES = [CUDA / "kernels.cu", *sorted(CUDA.glob("*.cpp"))]
EMULATOR_SOURCES = [EMULATOR / "emulator.cpp", EMULATOR / "control.cpp"]
BINDINGS = sorted((ROOT / "cpp").glob("bindings_cuda*.cpp"))
FLAGS = [
    *("-std=c++20", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DGNOMON_EMULATED"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"),
    *(f"-I{EMULATOR}", f"-I{ROOT / 'cpp'}"),
]


def _python_flags() -> list[str]:
    pybind11 = pytest.importorskip("pybind11", reason="pybind11 builds the emulated device")
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        pytest.skip("the headers of Python, which the emulated device is built with, are missing")
    return [
        "-DGNOMON_CUDA_MODULE=_cuda_emulated",
        f"-isystem{include}",
        f"-isystem{pybind11.get_include()}",
    ]


def compiler() -> str:
    """The C++ compiler; skips the test where there is none."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        pytest.skip("needs g++ to build the emulated device")
    return found


def _headers() -> list[Path]:
    folders = (CUDA, EMULATOR, ROOT / "cpp")
    files = [path for folder in folders for path in folder.glob("*.*h*")]
    return sorted(path for path in files if path.suffix in (".cuh", ".hpp"))


def build(name: str, sources: list[Path], flags: list[str], *, shared: bool) -> Path:
    """The program or shared library of these sources; made once for what goes into it."""
    flags = [*FLAGS, *flags]
    folder = ROOT / "build" / "emulated"
    headers = hashlib.sha256(sys.version.encode())
    for path in _headers():
        headers.update(path.read_bytes())

    def object_of(source: Path) -> Path:
        state = headers.copy()
        state.update(" ".join(flags).encode())
        state.update(source.read_bytes())
        return folder / f"{source.name}.{state.hexdigest()[:16]}.o"

    def compiled(source: Path) -> str:
        out = object_of(source)
        if not out.exists():
            own = [*_python_flags(), "-O0"] if source in BINDINGS else []
            part = out.with_suffix(f".{os.getpid()}")
            command = [compiler(), *flags, *own, "-x", "c++", "-c", str(source), "-o", str(part)]
            subprocess.run(command, check=True)
            part.replace(out)
        return str(out)

    state = hashlib.sha256("".join(object_of(source).name for source in sources).encode())
    target = folder / state.hexdigest()[:16] / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        objects = list(pool.map(compiled, sources))
    temporary = target.with_name(f"{name}.{os.getpid()}")
    link = [*(["-shared"] if shared else []), *[flag for flag in flags if "sanitize" in flag]]
    subprocess.run([compiler(), *link, *objects, "-pthread", "-o", str(temporary)], check=True)
    temporary.replace(target)
    return target


class Emulator:
    """The module, and what tests set of the emulated device."""

    def __init__(self, path: Path):
        spec = importlib.util.spec_from_file_location("gnomon._cuda_emulated", path)
        assert spec is not None
        assert spec.loader is not None
        self.module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        sys.modules["gnomon._cuda_emulated"] = self.module
        self._library = ctypes.CDLL(str(path))
        self._library.emulator_memory.argtypes = [ctypes.c_size_t]
        self._library.emulator_skip.argtypes = [ctypes.c_char_p, ctypes.c_uint]
        self._library.emulator_refuse.argtypes = [ctypes.c_size_t]
        for name in ("skipped", "used", "used_most", "to_refuse", "held"):
            getattr(self._library, f"emulator_{name}").restype = ctypes.c_size_t

    def schedule(self, number: int) -> None:
        """0 forward, 1 backward, else a seed: the order of blocks, warps, lanes and streams."""
        self._library.emulator_schedule(number)

    def skip(self, file: str = "", line: int = 0) -> None:
        """Leaves out the barrier or wait that stands there."""
        self._library.emulator_skip(file.encode(), line)

    def skipped(self) -> int:
        return int(self._library.emulator_skipped())

    def memory(self, size: int) -> None:
        """Bytes of device memory."""
        self._library.emulator_memory(size)

    def refuse(self, call: int) -> None:
        """Lets a call fail that allocates or makes something: the first, second ... from now."""
        self._library.emulator_refuse(call)

    def has_refused(self) -> bool:
        return int(self._library.emulator_to_refuse()) == 0

    def held(self) -> int:
        """How many things are there: memory of the device, pinned memory, streams, events."""
        return int(self._library.emulator_held())

    def used(self) -> int:
        return int(self._library.emulator_used())

    def used_most(self) -> int:
        """The greatest use since memory() was called."""
        return int(self._library.emulator_used_most())


def examples(number: int) -> settings:
    """For properties that cost more than most: so many examples in CI, else the profile's."""
    most = number if os.environ.get("GNOMON_HYPOTHESIS", "ci") == "ci" else settings().max_examples
    fixture = HealthCheck.function_scoped_fixture  # the device is as it was before each example
    return settings(suppress_health_check=[fixture], max_examples=most)


def load() -> Emulator:
    known: ModuleType | None = sys.modules.get("gnomon._cuda_emulated")
    if known is not None:
        emulator: Emulator = known.emulator
        return emulator
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    sources = [*DEVICE_SOURCES, *BINDINGS, *EMULATOR_SOURCES]
    emulator = Emulator(build(f"_cuda_emulated{suffix}", sources, ["-O2"], shared=True))
    emulator.module.emulator = emulator
    return emulator


@pytest.fixture(scope="session")
def emulator() -> Emulator:
    return load()


@pytest.fixture
def device(emulator: Emulator) -> Any:
    """The emulated device as it is at first, and again after the test."""
    for step in range(2):
        emulator.schedule(0)
        emulator.skip()
        emulator.memory(1 << 40)
        emulator.refuse(0)
        if step == 0:
            yield emulator
