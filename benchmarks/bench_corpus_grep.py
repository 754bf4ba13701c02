"""Complete search for lines beside ripgrep and codesearch: the same lines, and how fast.

bench_corpus_grep.py [INDEX]

INDEX is a corpus of the shared documents; without it one is made. Every pattern goes to gnomon (raw
bytes: exact totals and the first 10 lines), to ripgrep as it prints lines and as it counts them (a
process each time, all cores, files in the page cache) and to csearch where it is installed. First
the sets of (path, line) are compared: gnomon's and ripgrep's must be equal; what csearch leaves out
is reported (it skips files with long lines, and knows ASCII classes only). `value` is the median
over the patterns of each one's minimum of the rounds, which are interleaved; `each` has them all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from gnomon.corpus import CorpusIndex, Folder, Snapshot

SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")
TOP = SHARED / "data" / "dbconn"
ROUNDS = 7
WITH_LITERAL = [
    *(r"max_\w+_packet", r"timeout$", r"allow[A-Z]\w+", r"(ssl|tls)_mode", r"error \d+:"),
    *(r"\b\w+Exception\b", r"(?i)public_?key", r"^.*deprecated", r"time_zone|timezone"),
]
WITHOUT_LITERAL = [
    *(r"[0-9]{4}-[0-9]{2}", r"\w+@\w+", r"^#+ ", r"[a-z]+\(\)", r"\d+\.\d+\.\d+"),
    *(r"[a-z]{5}\d+", r"[A-Z]{2,}_[A-Z]+", r"\s$", r"\b[A-Z]\w*[a-z][A-Z]\w*\b"),
]
Asked = tuple[str, bool]  # pattern, literal
Found = set[tuple[str, int]]


def literals(snapshot: Snapshot, n: int) -> list[str]:
    """Names with an underscore, drawn from the documents."""
    found: set[str] = set()
    for document in list(snapshot.documents())[::40]:
        text = bytes(snapshot.raw(document.id)).decode("utf-8", "replace")
        found.update(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text))
    return random.Random(4).sample(sorted(found), n)


def ripgrep(asked: Asked, how: str, place: Path = TOP) -> bytes:
    pattern, literal = asked
    command = ["rg", "--hidden", "--no-ignore", "--no-heading", "--null", "--color=never", how]
    command += ["-F"] * literal + ["-e", pattern, str(place)]
    return subprocess.run(command, capture_output=True, check=False).stdout


def csearch(asked: Asked, index: Path) -> bytes:
    pattern, literal = asked
    command = ["csearch", "-n", re.escape(pattern) if literal else pattern]
    environment = os.environ | {"CSEARCHINDEX": str(index)}
    return subprocess.run(command, capture_output=True, check=False, env=environment).stdout


def lines_in(output: bytes, mark: bytes) -> Found:
    found = set()
    for line in output.split(b"\n"):
        path, between, rest = line.partition(mark)
        number = rest.partition(b":")[0]
        if between and number.isdigit() and path.startswith(os.fsencode(TOP)):
            found.add((os.path.relpath(os.fsdecode(path), TOP), int(number)))
    return found


def compared(snapshot: Snapshot, asked: list[Asked], code_index: Path | None) -> None:
    """Stops unless all lines are ripgrep's; says what csearch leaves out."""
    missed = lines = 0
    for pattern, literal in asked:
        result = snapshot.grep(pattern, literal=literal, limit=None)
        own = {(line.path, line.line) for line in result.lines}
        theirs = lines_in(ripgrep((pattern, literal), "-n"), b"\0")
        if own != theirs or result.total_lines != len(theirs):
            raise SystemExit(f"{pattern!r}: {len(own ^ theirs)} lines differ from ripgrep's")
        lines += len(own)
        if code_index is not None:
            missed += len(own - lines_in(csearch((pattern, literal), code_index), b":"))
    same = {"what": "lines of all patterns, the same as ripgrep's", "value": lines, "unit": "lines"}
    print(json.dumps(same), flush=True)
    if code_index is not None:
        row = {"what": "of these not found by codesearch", "value": missed, "unit": "lines"}
        print(json.dumps(row), flush=True)


def measured(
    kind: str, asked: list[Asked], run: dict[str, Callable[[Asked], object]]
) -> dict[str, dict[Any, float]]:
    best = {name: dict.fromkeys(asked, float("inf")) for name in run}
    for _ in range(ROUNDS):
        for each in asked:
            for name, look in run.items():
                began = time.perf_counter()
                look(each)
                took = (time.perf_counter() - began) * 1000
                best[name][each] = min(best[name][each], took)
    for name, times in best.items():
        row = {"what": f"{kind}: {name}", "value": round(statistics.median(times.values()), 3)}
        each = {pattern: round(took, 3) for (pattern, _), took in times.items()}
        print(json.dumps(row | {"unit": "ms", "each": each}), flush=True)
    for name in [name for name in best if name.startswith("ripgrep")]:
        ratios = [best[name][one] / best["gnomon"][one] for one in asked]
        for which, value in (("median", statistics.median(ratios)), ("least", min(ratios))):
            row = {"what": f"{kind}: {name} / gnomon, {which}", "value": round(value, 1)}
            print(json.dumps(row | {"unit": "x"}), flush=True)
    return best


def measure(snapshot: Snapshot, place: Path) -> dict[str, dict[str, dict[Any, float]]]:
    """The milliseconds of each pattern, by kind and program; what csearch's start takes."""
    code_index = None
    if shutil.which("csearch") and shutil.which("cindex"):
        code_index = place / "csearch"
        environment = os.environ | {"CSEARCHINDEX": str(code_index)}
        subprocess.run(["cindex", str(TOP)], check=True, capture_output=True, env=environment)
    names = [(name, True) for name in literals(snapshot, 10)]
    kinds = {
        "literal": names,
        "expressions with a literal": [(each, False) for each in WITH_LITERAL],
        "expressions without a literal": [(each, False) for each in WITHOUT_LITERAL],
    }
    compared(snapshot, [each for asked in kinds.values() for each in asked], code_index)
    empty = place / "empty"
    empty.mkdir()
    began = [time.perf_counter()]
    for _ in range(20):
        ripgrep(("a", True), "-n", empty)
        began.append(time.perf_counter())
    alone = min(b - a for a, b in pairwise(began)) * 1000
    print(json.dumps({"what": "ripgrep, an empty folder", "value": round(alone, 3), "unit": "ms"}))
    run: dict[str, Callable[[Asked], object]] = {
        "gnomon": lambda asked: snapshot.grep(asked[0], literal=asked[1], limit=10),
        "ripgrep, lines": partial(ripgrep, how="-n"),
        "ripgrep, counts": partial(ripgrep, how="--count"),
    }
    if code_index is not None:
        run["codesearch, lines"] = partial(csearch, index=code_index)
    found = {kind: measured(kind, asked, run) for kind, asked in kinds.items()}
    return found | {"codesearch, start": {"start": {"": csearch_start(place)}}}


def csearch_start(place: Path) -> float:
    """Milliseconds of a process that finds nothing: csearch over the index of an empty folder."""
    if not shutil.which("csearch") or not shutil.which("cindex"):
        return 0.0
    code_index = place / "csearch-empty"
    environment = os.environ | {"CSEARCHINDEX": str(code_index)}
    command = ["cindex", str(place / "empty")]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    began = [time.perf_counter()]
    for _ in range(20):
        csearch(("a", True), code_index)
        began.append(time.perf_counter())
    return min(b - a for a, b in pairwise(began)) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", nargs="?")
    options = parser.parse_args()
    if not TOP.is_dir() or not shutil.which("rg"):
        raise SystemExit(f"needs ripgrep, and the documents at {TOP}; set GNOMON_SHARED")
    with tempfile.TemporaryDirectory() as place:
        index = options.index
        if index is None:
            index = Path(place) / "grep.corpus"
            with CorpusIndex.create(index) as made:
                made.update([Folder("dbconn", str(TOP))])
        measure(Snapshot.open(index), Path(place))


if __name__ == "__main__":
    main()
