"""Run the benchmarks and keep the README's table true to their results.

run.py [NAME ...]   run bench_NAME.py (all when none is named), write results/NAME.json
run.py NAME -- ...  run it with these options, which are kept as the conditions of its figures
run.py NAME=FILE -- ...  the same, written to results/FILE.json beside those of NAME
run.py --table      print the table made from results/*.json
run.py --write      put that table into README.md, between its two markers
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def machine() -> dict[str, Any]:
    """Where a figure was measured; without it a figure means nothing."""
    import gnomon
    from gnomon import _core

    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux: the general name above stands
    git = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "level": os.environ.get("GNOMON_LEVEL", gnomon.levels()[-1]),
        "threads": os.environ.get("GNOMON_THREADS", "all"),
        "python": platform.python_version(),
        "compiler": _core.build_info()["compiler"],
        "gnomon": gnomon.__version__,
        "commit": commit or None,
    }


def run(name: str, options: list[str]) -> None:
    """Run one benchmark with options of its own and store what it printed."""
    name, _, file = name.partition("=")
    script = HERE / f"bench_{name}.py"
    if not script.exists():
        known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
        raise SystemExit(f"no benchmark named {name!r}; there are: {', '.join(known)}")
    done = subprocess.run(
        [sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True, check=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not rows:
        raise SystemExit(f"{script.name} printed no result")
    RESULTS.mkdir(exist_ok=True)
    where = machine()
    if options:
        where["conditions"] = " ".join(options)
    result = {"benchmark": name, "machine": where, "rows": rows}
    (RESULTS / f"{file or name}.json").write_text(
        json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    )
    print(done.stdout, end="")


def figure(value: float) -> str:
    """Three significant digits: more would promise what one run cannot keep."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where rows have limits, those that do; what they were worked out from stays in the file."""
    return [row for row in rows if "limit" in row] or rows


def told(row: dict[str, Any]) -> str:
    """A row's figure, and the limit that it has to keep."""
    said = f"{figure(row['value'])} {row['unit']}"
    if "limit" not in row:
        return said
    return f"{said} (goal: {row['limit']}{'' if row['met'] else ', not met'})"


def table() -> str:
    """The README's table; empty when nothing was measured yet."""
    lines: list[str] = []
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        where = result["machine"]
        lines += [
            "",
            f"`{path.stem}` on {where['cpu']}, {where['cores']} cores, level {where['level']}, "
            f"{where['threads']} threads, Python {where['python']}"
            + (f" ({where['conditions']}):" if "conditions" in where else ":"),
            "",
            "| what | figure |",
            "| --- | --- |",
            *(f"| {row['what']} | {told(row)} |" for row in shown(result["rows"])),
        ]
    return "\n".join(lines).strip()


def with_table(readme: str) -> str:
    """The README's text with the table between its markers."""
    head, rest = readme.split(BEGIN)
    _, tail = rest.split(END)
    content = table()
    return f"{head}{BEGIN}\n{content}\n{END}{tail}" if content else f"{head}{BEGIN}\n{END}{tail}"


def main(arguments: list[str]) -> None:
    if arguments == ["--table"]:
        print(table())
    elif arguments == ["--write"]:
        README.write_text(with_table(README.read_text("utf-8")), "utf-8")
    else:
        at = arguments.index("--") if "--" in arguments else len(arguments)
        names = arguments[:at] or sorted(
            path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")
        )
        for name in names:
            run(name, arguments[at + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
