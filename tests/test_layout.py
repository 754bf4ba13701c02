"""The structure of the source: who may know whom, and where things may lie.

The rules are the tables below; everything else here reads the source and compares.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gnomon
import pytest
from gnomon import _core

ROOT = Path(__file__).resolve().parents[1]
CPP = ROOT / "cpp"
PACKAGE = ROOT / "python" / "gnomon"

TOP_LEVEL = {
    *(".ci", ".clang-format", ".gitignore", "CMakeLists.txt", "LICENSE", "README.md", "benchmarks"),
    *("cpp", "cuda", "pyproject.toml", "python", "tests"),
}

# Headers that include the standard library only.
CPP_LEAVES = {
    *("bm25.hpp", "order.hpp", "error.hpp", "parallel.hpp", "huge_pages.hpp", "crc32c.hpp"),
    *("analyze.hpp", "analyze_ascii.hpp", "porter.hpp", "storage.hpp", "kernels/kernels.hpp"),
    *("doc_set.hpp", "query_near.hpp", "vocabulary_sorted.hpp", "impacts.hpp"),
}
# What the other files of the core must not include. A file may always include its own header.
CPP_FORBIDDEN = {
    "topk.hpp": r"(?!order\.hpp)",
    "cpu.hpp": r"(?!kernels/kernels\.hpp)",
    "cpu.cpp": r"(bm25_|dense|mmr|storage|analyze)",
    "parallel.cpp": r"(?!error\.hpp)",
    "huge_pages.cpp": r".",
    "chunked.hpp": r"(?!huge_pages\.hpp)",
    "storage.cpp": r"(bm25|dense|mmr|analyze|vocabulary|kernels)",
    "analyze.cpp": r"(bm25|dense|mmr|storage|vocabulary|kernels)",
    "analyze_emit.hpp": r"(?!analyze\.hpp|unicode_tables\.inc)",
    "analyze_words.hpp": r"(?!analyze_)",
    "analyze_lucene.hpp": r"(?!analyze_)",
    "analyze_filter.hpp": r"(?!analyze\.hpp|vocabulary\.hpp)",
    "analyze_filter.cpp": r"(?!error\.hpp)",
    "porter.cpp": r".",
    "impacts.cpp": r"(?!error\.hpp)",
    "vocabulary.hpp": r"(?!storage\.hpp)",
    "vocabulary.cpp": r"(bm25|dense|mmr|analyze|kernels)",
    "bm25_index.hpp": r"(bm25_(search|snapshot|builder)|dense|mmr)",
    "bm25_index.cpp": r"(bm25_(search|snapshot|builder)|dense|mmr)",
    "bm25_builder.hpp": r"(bm25_(search|snapshot)|dense|mmr)",
    "bm25_builder.cpp": r"(bm25_(search|snapshot)|dense|mmr)",
    "bm25_snapshot.hpp": r"(bm25_(search|builder)|dense|mmr)",
    "bm25_snapshot.cpp": r"(bm25_(search|builder)|dense|mmr)",
    "bm25_positions.hpp": r"(bm25_search|query|dense|mmr)",
    "bm25_positions.cpp": r"(bm25_search|query|dense|mmr)",
    "query.hpp": r"(?!doc_set\.hpp)",
    "query_near.cpp": r"(bm25|dense|mmr)",
    "query_pattern.cpp": r"(bm25_search|dense|mmr)",
    "query_match.cpp": r"(bm25_search|dense|mmr)",
    "query_rank.cpp": r"(dense|mmr)",
    "bm25_search.hpp": r"(dense|mmr)",
    "bm25_search.cpp": r"(dense|mmr)",
    "dense.hpp": r"(bm25|mmr|analyze)",
    "dense.cpp": r"(bm25|mmr|analyze)",
    "mmr.hpp": r"(bm25|analyze)",
    "mmr.cpp": r"(bm25|analyze)",
}
KERNEL_INCLUDES = {
    *("immintrin.h", "arm_neon.h", "kernels.hpp", "screen_bounds.hpp", "bm25.hpp"),
    *("../bm25.hpp", "bm25_blocks.hpp", "dense_common.hpp"),
}
KERNEL_LEVELS = {"scalar", "avx2", "avx512", "avx512vnni", "avx512amx", "neon"}
INTRINSIC = re.compile(
    r"\b_mm\d*_\w+|immintrin\.h|arm_neon\.h|\b__m(128|256|512)\w*|\bfloat64x2_t\b"
)
PYTHON_HEADERS = re.compile(r"pybind11|Python\.h|numpy/")

# What a module may import besides the standard library, by the first part of its name.
# LAZY may be imported inside a function as well, where only the caller who needs it pays.
IMPORTS = {
    "cli": {"numpy", "click", "rich", "gnomon"},
    "reference": {"gnomon"},
    "agent": {"jsonschema_rs", "rfc8785", "anyio", "tenacity", "gnomon"},
    "corpus": {"numpy", "msgspec", "anyio", "gnomon"},
    # Base classes and decorators of the modules that take a framework's place.
    "compat": {
        *("numpy", "gnomon"),
        *("langchain_core", "sklearn", "scipy", "txtai", "sentence_transformers"),
        *("llama_index", "haystack", "pydantic"),
    },
    "": {"numpy", "gnomon"},
}
FRAMEWORKS = {"langchain_core", "langgraph", "pydantic_ai", "agents", "dbos", "mcp"}
ANN_LIBRARIES = {"faiss", "hnswlib", "usearch"}  # `gnomon recall --index` runs them
CORPUS_PARSERS = {"pyromark", "tree_sitter", "re2"}  # each where its format or pattern is read
PEERS = {"bm25s", "sentence_transformers"}  # gnomon.compat falls back to them
EMBEDDERS = {"safetensors", "tokenizers"}  # what gnomon.corpus.embedders reads weights with
WEB = {"starlette", "uvicorn"}  # `gnomon serve` over HTTP; the MCP SDK brings them
LAZY = {
    *("torch", "rich", "Stemmer", "pyarrow", "psycopg", "psycopg_pool", "opentelemetry", "h5py"),
    *("matplotlib", "tantivy", *FRAMEWORKS, *ANN_LIBRARIES, *CORPUS_PARSERS, *PEERS, *WEB),
    *EMBEDDERS,
}
REFERENCE_READERS = {"cli_demo"}  # `gnomon demo` shows that both give the same bits

LINES_MAX = 600
LINES_EXCEPTIONS: dict[str, str] = {}  # path -> the reason


def source_files(*suffixes: str) -> list[Path]:
    places = [ROOT / name for name in ("cpp", "cuda", "python", "tests", "benchmarks")]
    files = [path for place in places for path in sorted(place.rglob("*")) if path.is_file()]
    return [path for path in files if path.suffix in suffixes and "__pycache__" not in path.parts]


# --- C++ ------------------------------------------------------------------------------------------


def includes(text: str) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', text, re.MULTILINE)


def cpp_violations(place: str, text: str) -> list[str]:
    """Each way in which the file at `place` (relative to the checkout) breaks the rules above."""
    path = Path(place)
    name, level = path.name, path.stem.rsplit("_", 1)[-1]
    in_cpp = place.removeprefix("cpp/")
    in_core, in_kernels = path.parent == Path("cpp"), path.parent == Path("cpp/kernels")
    is_binding = in_core and name.startswith("bindings")
    own = re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
    found = []
    if not is_binding and PYTHON_HEADERS.search(text):
        found.append("knows Python")
    if not is_binding:
        found += [f"includes {header}" for header in own if header.startswith("bindings")]
    if in_cpp in CPP_LEAVES:
        found += [f"is a leaf but includes {header}" for header in own]
    if in_core and name in CPP_FORBIDDEN:
        others = [header for header in own if header != f"{path.stem}.hpp"]
        found += [f"includes {h}" for h in others if re.match(CPP_FORBIDDEN[name], h)]
    if in_kernels and path.suffix == ".cpp":
        if level not in KERNEL_LEVELS:
            found.append("does not end in its level")
        found += [
            f"is a kernel but includes {h}" for h in includes(text) if h not in KERNEL_INCLUDES
        ]
    if INTRINSIC.search(text) and not (in_kernels and level in KERNEL_LEVELS - {"scalar"}):
        found.append("holds an intrinsic outside a kernel file of its level")
    return found


def test_cpp_arrows() -> None:
    files = [path for path in source_files(".cpp", ".hpp", ".cu", ".cuh") if CPP in path.parents]
    assert len(files) > len(CPP_LEAVES)
    places = [str(path.relative_to(ROOT)) for path in files]
    bad = [
        f"{place} {why}"
        for place in places
        for why in cpp_violations(place, (ROOT / place).read_text("utf-8"))
    ]
    assert bad == []


def test_cpp_rules_name_files_that_exist() -> None:
    """A rule about a file that was renamed would pass for ever."""
    assert [name for name in (*CPP_LEAVES, *CPP_FORBIDDEN) if not (CPP / name).exists()] == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("cpp/dense.cpp", "#include <pybind11/pybind11.h>\n"),
        ("cpp/dense.cpp", '#include "bindings.hpp"\n'),
        ("cpp/dense.cpp", '#include "bm25_index.hpp"\n'),
        ("cpp/order.hpp", '#include "topk.hpp"\n'),
        ("cpp/topk.hpp", '#include "dense.hpp"\n'),
        ("cpp/mmr.cpp", "__m256d x;\n"),
        ("cpp/kernels/kernels.hpp", "#include <immintrin.h>\n"),
        ("cpp/kernels/dense_avx2.cpp", "#include <vector>\n"),
        ("cpp/kernels/dense_scalar.cpp", "double x = _mm_cvtsd_f64(y);\n"),
        ("cpp/kernels/dense_fast.cpp", "\n"),
    ],
)
def test_cpp_rules_can_fail(place: str, text: str) -> None:
    assert cpp_violations(place, text) != []


# --- Python ---------------------------------------------------------------------------------------


def imported(tree: ast.AST, module: str, is_package: bool) -> set[str]:
    """Absolute dotted names of all that `tree` imports; `module` is its own name under gnomon."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ["gnomon", *[part for part in module.split(".") if part]]
                package = package[: len(package) - node.level + is_package]
                base = ".".join([*package, *([base] if base else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


class _ImportTime(ast.NodeTransformer):
    """Leaves what runs when the module is imported: no function bodies, no `if TYPE_CHECKING:`."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def python_violations(module: str, text: str, is_package: bool = False) -> list[str]:
    """Each way in which one module of the package breaks the import rules."""
    area = re.split(r"[._]", module)[0]  # cli, cli_demo and cli.demo are one area
    at_import = imported(_ImportTime().visit(ast.parse(text)), module, is_package)
    allowed = IMPORTS.get(area, IMPORTS[""])
    found = []
    for name in sorted(imported(ast.parse(text), module, is_package)):
        package, inner = (*name.split("."), "")[:2]
        if package in sys.stdlib_module_names:
            continue
        lazy = package in LAZY and name not in at_import and area != "reference"
        if package not in allowed and not lazy:
            found.append(f"imports {name}")
        if package != "gnomon":
            continue
        if area == "reference" and inner != "reference":
            found.append(f"imports {name}, but a reference knows the standard library only")
        if inner == "reference" and area != "reference" and module not in REFERENCE_READERS:
            found.append(f"imports {name}, which only tests and the demo may")
        # `gnomon gate` is a command of the agent half; the other commands are of the search half.
        sees_both = area == "corpus" or module == "cli_gate"
        # The commands of a corpus import it when they run.
        runs_corpus = module.startswith("cli_corpus") and name not in at_import
        if inner == "corpus" and area != "corpus" and not runs_corpus:
            found.append(f"imports {name}, but nothing below corpus/ knows it")
        if (area == "agent") != (inner == "agent") and not sees_both:
            found.append(f"imports {name}, but only corpus/ sees both halves")
    return found


def test_python_arrows() -> None:
    bad = []
    for path in source_files(".py"):
        if PACKAGE in path.parents:
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            module = ".".join(parts[:-1] if is_package else parts)
            why = python_violations(module, path.read_text("utf-8"), is_package)
            bad += [f"{path.relative_to(ROOT)} {reason}" for reason in why]
    assert bad == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("reference.bm25", "import numpy"),
        ("reference.bm25", "def f():\n    import torch"),
        ("reference.bm25", "from .. import _core"),
        ("bm25", "import torch"),
        ("bm25", "from .reference import bm25"),
        ("bm25", "def f():\n    from gnomon.reference.bm25 import scores"),
        ("bm25", "from rich import print"),
        ("cli_search", "from .reference import bm25"),
        ("agent.loop", "from ..bm25 import BM25Index"),
        ("agent.loop", "def f():\n    import gnomon.dense"),
        ("agent.loop", "from ..bm25_input import add_documents"),
        ("dense", "from .agent import loop"),
        ("analysis", "import requests"),
        ("corpus.parse_markdown", "import pyromark"),
        ("corpus.index", "import lxml"),
        ("bm25", "import msgspec"),
        ("agent.loop", "from ..corpus import process_document"),
    ],
)
def test_python_rules_can_fail(module: str, text: str) -> None:
    assert python_violations(module, text) != []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("dense", "import numpy as np\nfrom . import _core"),
        ("dense", "def f():\n    import torch"),
        ("dense", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("reference.mmr", "import math\nfrom .dense import dot"),
        ("cli_demo", "from .reference import bm25\nimport rich"),
        ("agent.loop", "from . import events\nfrom .runtime import execute"),
        ("corpus.tools", "from ..agent import tools\nfrom ..bm25 import BM25Index"),
    ],
)
def test_python_rules_can_pass(module: str, text: str) -> None:
    assert python_violations(module, text) == []


# --- the tree -------------------------------------------------------------------------------------


def test_top_level_entries() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to it cannot be listed")
    command = [git, "-c", f"safe.directory={ROOT}", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} == TOP_LEVEL


def test_file_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the table of sizes; fails on a file that is too long to be read in one sitting."""
    table: dict[str, list[tuple[int, str]]] = {}
    too_long = []
    for path in source_files(".py", ".pyi", ".cpp", ".hpp", ".cu", ".cuh", ".sh"):
        lines, place = path.read_bytes().count(b"\n"), str(path.relative_to(ROOT))
        table.setdefault(str(path.parent.relative_to(ROOT)), []).append((lines, path.name))
        if lines > LINES_MAX and place not in LINES_EXCEPTIONS:
            too_long.append(f"{place}: {lines} lines")
    with capsys.disabled():
        print("\nlines of source:")
        for folder, files in sorted(table.items()):
            longest = ", ".join(
                f"{name} {lines}" for lines, name in sorted(files, reverse=True)[:3]
            )
            total = sum(lines for lines, _ in files)
            print(f"  {total:6d} in {len(files):2d} files of {folder} ({longest})")
    assert too_long == [], f"more than {LINES_MAX}: split, or name the exception with its reason"
    assert all((ROOT / place).exists() for place in LINES_EXCEPTIONS)


# --- kernel objects -------------------------------------------------------------------------------


def kernel_flags() -> dict[str, list[str]]:
    """Level -> flags, as this build compiled its kernels."""
    return {level: flags.split() for level, flags in _core.build_info()["kernel_flags"].items()}


def kernel_sources() -> list[Path]:
    """The kernel files that this build compiled."""
    files = sorted((CPP / "kernels").glob("*.cpp"))
    return [path for path in files if path.stem.rsplit("_", 1)[-1] in kernel_flags()]


@pytest.mark.parametrize("optimisation", ["-O3", "-O0"])
@pytest.mark.parametrize("source", kernel_sources(), ids=lambda path: path.stem)
def test_kernel_objects_are_leaves(source: Path, optimisation: str, tmp_path: Path) -> None:
    """No weak symbol, and only what kernels.hpp declares leaves the object.

    At -O0 as well: an inline function that -O3 swallows leaves a weak symbol there.
    """
    if shutil.which("g++") is None or shutil.which("nm") is None:
        pytest.skip("needs g++ and nm to look at kernel objects")
    level = source.stem.rsplit("_", 1)[-1]
    flags = [*kernel_flags()[level], "-ffp-contract=off", optimisation]
    target = str(tmp_path / "kernel.o")
    headers = [f"-I{CPP}", f"-I{CPP / 'kernels'}"]
    subprocess.run(
        ["g++", "-std=c++20", *headers, *flags, "-c", str(source), "-o", target], check=True
    )
    listing = subprocess.run(
        ["nm", "-C", target], capture_output=True, text=True, check=True
    ).stdout
    symbols = re.findall(r"^[0-9a-f ]*\s([A-Za-z])\s(.*)$", listing, re.MULTILINE)
    assert [name for kind, name in symbols if kind in "WwVvu"] == []
    exported = {re.sub(r"\(.*", "", name) for kind, name in symbols if kind in "TDRBG"}
    assert exported
    assert exported <= {f"gnomon::{level}::{kernel}" for kernel in kernels_of_the_table()}


def kernels_of_the_table() -> list[str]:
    header = (CPP / "kernels" / "kernels.hpp").read_text("utf-8")
    struct = re.search(r"struct Kernels \{(.*?)\n\};", header, re.DOTALL)
    assert struct
    return re.findall(r"^    [A-Z]\w+\* (\w+);$", struct.group(1), re.MULTILINE)


def test_every_kernel_exists_at_every_level() -> None:
    kernels = kernels_of_the_table()
    assert len(kernels) >= 6
    table = (CPP / "cpu.cpp").read_text("utf-8")
    header = (CPP / "kernels" / "kernels.hpp").read_text("utf-8")
    missing = [
        f"{name} in the table of cpu.cpp" for name in kernels if f"level::{name}" not in table
    ]
    for level in kernel_flags():
        assert f"GNOMON_TABLE({level})" in table
        files = sorted((CPP / "kernels").glob(f"*_{level}.cpp"))
        text = "\n".join(path.read_text("utf-8") for path in files)
        taken = set(re.findall(rf"namespace {level} \{{(.*?)\n\}}", header, re.DOTALL)[0].split())
        for (
            name
        ) in kernels:  # defined at this level, or taken over from another by a using-declaration
            if not re.search(rf"\b{name}\(", text) and not any(
                t.endswith(f"::{name};") for t in taken
            ):
                missing.append(f"{name} at {level}")
    assert missing == []


def test_every_built_level_is_a_known_one() -> None:
    assert set(gnomon.levels()) <= set(kernel_flags()) <= KERNEL_LEVELS
