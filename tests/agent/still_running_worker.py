"""A process whose tool runs into its timeout and runs on; what the other process may say meanwhile.

still_running_worker.py FOLDER LEASE KIND PLACE...

It dispatches "op-1", whose tool waits for the file FOLDER/act before it acts, writes the answer of
the dispatch to FOLDER/answer, and stays until the tool has ended.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from crash_worker import SCHEMA, Place
from gnomon.agent import Limits, Tool, ToolRuntime
from gnomon.agent.testing import EffectCounter


def main(folder: Path, lease: float, kind: str, place: list[str]) -> None:
    def write(project: str) -> dict[str, Any]:
        while not (folder / "act").exists():
            time.sleep(0.01)
        EffectCounter(folder / "effects").add("op-1")
        return {"status": "succeeded", "by": "the first"}

    tool = Tool("write", SCHEMA, 1, write, limits=Limits(timeout_ms=30))
    with Place(kind, place, folder, 0).open_store() as store:
        with ToolRuntime({"write": tool}, 1, store, lease_seconds=lease) as runtime:
            answer = runtime.dispatch("write", {"project": "alpha"}, "op-1")
        # The runtime is closed; its tool is not.
        (folder / "answer.tmp").write_text(json.dumps(answer))
        (folder / "answer.tmp").rename(folder / "answer")
        while store.get("op-1").status.value == "needs_reconcile":
            time.sleep(0.01)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:])
