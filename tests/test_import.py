"""What `import gnomon` costs: numpy, and next to nothing else."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

IMPORT_SECONDS_MAX = 0.2
HEAVY = {"torch", "click", "rich", "pyarrow", "scipy", "pandas", "hypothesis", "pytest"}


def output_of(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_numpy_and_the_standard_library_only() -> None:
    code = "import sys, gnomon; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(output_of(code).split())
    assert "numpy" in loaded
    assert loaded & HEAVY == set()
    beyond_numpy = loaded - set(output_of(code.replace("sys, gnomon", "sys, numpy")).split())
    assert beyond_numpy - sys.stdlib_module_names == {"gnomon"}


def test_import_takes_less_than_a_fifth_of_a_second_beyond_numpy() -> None:
    code = (
        "import time, numpy; t = time.process_time(); import gnomon; print(time.process_time() - t)"
    )
    output_of(code)  # the first import reads the files from disk
    # CPU time: a busy machine took 1.7 s by the clock for what costs it 0.1 s.
    seconds = min(float(output_of(code)) for _ in range(5))
    assert seconds < IMPORT_SECONDS_MAX


def test_the_public_face_is_complete_and_sorted() -> None:
    import gnomon

    assert len(gnomon.__all__) == len(set(gnomon.__all__))
    assert all(hasattr(gnomon, name) for name in gnomon.__all__)


def test_the_version_is_one() -> None:
    import gnomon
    from gnomon import _core

    installed = importlib.metadata.version("gnomon")
    assert gnomon.__version__ == installed == _core.build_info()["version"]
