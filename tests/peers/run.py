"""Run the peers' own tests with gnomon in the peer's place, against a pinned set of passing tests.

run.py [SUITE ...]               the suites named, or all that need no checkout
run.py --ci                      the suites that continuous integration runs
    --checkout NAME=PATH         where the source of a peer lies (suites with source = "checkout")
    --original                   run the peer itself, nothing swapped, and compare the counts
    --record                     write expected/SUITE.txt from what passed
    --venvs DIR                  where the virtual environments are kept (default: build/peers)

Each peer gets a virtual environment of its own; gnomon, pytest and numpy come from the environment
of the Python that runs this file. None of the peers' code is kept here: a suite comes from inside
an installed package, from a source distribution, from a checkout, or is a few lines under own/.
What is asked of each, and every test that may fail with its reason, stands in peers.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10; pytest brings it there
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
SOURCES = ("package", "sdist", "checkout", "own", "tests")


@dataclass
class Suite:
    """One table of peers.toml; see the comment at its top."""

    name: str
    version: str
    requires: list[str]
    source: str
    run: list[dict[str, Any]]
    swap: str
    itself: dict[str, int]
    ci: bool = False
    venv: str = ""
    checkout: str = ""
    sdist: str = ""
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    plugins: list[str] = field(default_factory=list)
    allowed: dict[str, str] = field(default_factory=dict)

    @property
    def expected_file(self) -> Path:
        """The ids of the tests that pass with gnomon in place, one a line."""
        return HERE / "expected" / f"{self.name}.txt"

    def expected(self) -> set[str]:
        """Those ids."""
        return set(self.expected_file.read_text("utf-8").splitlines())


def suites() -> dict[str, Suite]:
    """All suites by name; TypeError or ValueError for a table that says something unknown."""
    tables = tomllib.loads((HERE / "peers.toml").read_text("utf-8"))
    found = {name: Suite(name=name, **table) for name, table in tables.items()}
    for suite in found.values():
        if suite.source not in SOURCES:
            raise ValueError(f"peers.toml: {suite.name}: source is {suite.source!r}")
    return found


def python_of(suite: Suite, venvs: Path) -> Path:
    """The Python of the peer's virtual environment, which is made where it is not there yet."""
    folder = (venvs / (suite.venv or suite.name)).resolve()
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        ours = [path for path in sys.path if path.endswith("-packages")]
        # The peer's own packages come first; addsitedir, unlike a path, follows .pth files.
        (site / "zz-gnomon.pth").write_text(f"import site; list(map(site.addsitedir, {ours!r}))\n")
    done = folder / "installed.json"
    known = json.loads(done.read_text()) if done.exists() else []
    missing = [wanted for wanted in suite.requires if wanted not in known]
    if missing:
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
        subprocess.run([*pip, "--no-compile", *missing], check=True)
        done.write_text(json.dumps([*known, *missing]))
    return python


def place_of(suite: Suite, checkouts: Mapping[str, Path], folder: Path) -> Path | None:
    """Where the files of the suite lie; None for files named as modules."""
    if suite.source == "package":
        return None
    if suite.source in ("own", "tests"):
        return HERE / "own" if suite.source == "own" else HERE.parent
    if suite.source == "checkout":
        return checkouts[suite.checkout or suite.name]
    # Of this package alone the source: pip asks it for its metadata, with a build backend's wheel.
    name = suite.sdist.partition("==")[0]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
    subprocess.run([*pip, "-d", str(folder), suite.sdist], check=True)
    archive = next(folder.glob("*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def outcomes(
    suite: Suite, python: Path, place: Path | None, swapped: bool, log: Path
) -> dict[str, str]:
    """What became of every selected test, by id: passed, failed, skipped or xfailed."""
    environment = {**os.environ, **suite.environment, "GNOMON_PEERS_LOG": str(log)}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HERE / "swaps"), *([str(place)] * bool(place))]
    )
    environment.pop("PYTEST_ADDOPTS", None)
    plugins = ["outcomes", *suite.plugins, *([suite.swap] if swapped and suite.swap else [])]
    environment["GNOMON_PEERS_SWAP"] = "1" if swapped else ""
    for part in suite.run:
        command = [str(python), "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
        command += ["-o", "addopts=", *(word for name in plugins for word in ("-p", name))]
        if suite.source in ("own", "package"):  # away from the settings of the tests of gnomon
            command += ["-c", os.devnull, "--rootdir", str(place or log.parent)]
            command += ["--confcutdir", str(place or log.parent)]
        command += suite.options
        if "select" in part:
            command += ["-k", part["select"]]
        for test in part.get("deselect", []):
            command += ["--deselect", test]
        command += ["--pyargs"] * (suite.source == "package") + part["files"]
        done = subprocess.run(command, cwd=place or log.parent, env=environment, check=False)
        if done.returncode not in (0, 1):  # 2 and more: not even collected
            raise SystemExit(f"{suite.name}: pytest ended with {done.returncode}: {part['files']}")
    return dict(json.loads(line) for line in log.read_text("utf-8").splitlines())


def complaints(suite: Suite, found: Mapping[str, str]) -> list[str]:
    """What is not as peers.toml has it."""
    passed = {name for name, outcome in found.items() if outcome == "passed"}
    said = [f"passed before, now {found.get(t, 'not run')}: {t}" for t in suite.expected() - passed]
    unexplained = {n for n, o in found.items() if o == "failed"} - set(suite.allowed)
    said += [f"failed without a reason in peers.toml: {test}" for test in unexplained]
    said += [f"may fail but passes, remove it: {t}" for t in set(suite.allowed) & passed]
    said += [f"may fail but is not run: {t}" for t in set(suite.allowed) - set(found)]
    return sorted(said)


def run(suite: Suite, arguments: argparse.Namespace, checkouts: Mapping[str, Path]) -> list[str]:
    """Runs one suite; returns what is wrong."""
    python = python_of(suite, arguments.venvs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        log = folder / "outcomes.jsonl"
        log.touch()
        place = place_of(suite, checkouts, folder)
        found = outcomes(suite, python, place, not arguments.original, log)
    counts = Counter(found.values())
    who = "itself" if arguments.original else "gnomon in its place"
    shown = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
    print(f"{suite.name} {suite.version}, {who}: {shown}", flush=True)
    if arguments.original:
        return [] if counts == suite.itself else [f"peers.toml says {suite.itself}"]
    if arguments.record:
        passed = sorted(name for name, outcome in found.items() if outcome == "passed")
        suite.expected_file.parent.mkdir(exist_ok=True)
        suite.expected_file.write_text("".join(f"{name}\n" for name in passed), "utf-8")
    return complaints(suite, found)


def chosen(known: Mapping[str, Suite], arguments: argparse.Namespace) -> Iterable[Suite]:
    """The suites that the command line asks for."""
    unknown = set(arguments.suites) - set(known)
    if unknown:
        raise SystemExit(f"no suite {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    if arguments.ci:
        return [suite for suite in known.values() if suite.ci]
    if arguments.suites:
        return [known[name] for name in arguments.suites]
    return [suite for suite in known.values() if suite.source != "checkout"]


def main() -> int:
    """Runs the suites of the command line; 1 when one is not as pinned."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--original", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--checkout", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--venvs", type=Path, default=HERE.parents[1] / "build" / "peers")
    arguments = parser.parse_args()
    checkouts = {
        name: Path(path).resolve()
        for name, _, path in (text.partition("=") for text in arguments.checkout)
    }
    bad = 0
    for suite in chosen(suites(), arguments):
        if suite.source == "checkout" and (suite.checkout or suite.name) not in checkouts:
            raise SystemExit(f"{suite.name}: say --checkout {suite.checkout or suite.name}=PATH")
        for complaint in run(suite, arguments, checkouts):
            print(f"  {suite.name}: {complaint}", file=sys.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
