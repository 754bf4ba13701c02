"""A function that isolated tools run in a process of its own; light, so that it starts at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


def act(folder: str, what: str, operation_id: str = "") -> Any:
    """Does what it is told to; everything it needs comes with the call."""
    place = Path(folder)
    (place / "pid").write_text(str(os.getpid()))
    if what == "print":
        print("noise")
    if what.startswith("refuse"):
        from gnomon.agent.errors import NotExecuted

        retryable: Any = "yes" if what == "refuse wrongly" else True
        raise NotExecuted("busy", retryable=retryable, retry_after=1.5)
    with open(place / "effects", "a") as effects:
        effects.write(f"{operation_id}\n")
    if what == "raise":
        raise TimeoutError("response was lost")
    if what == "exit":
        os._exit(7)
    if what == "not json":
        return {"status": "succeeded", "set": {1}}
    if what == "nan":
        return {"status": "succeeded", "x": float("nan")}
    if what == "thread":
        threading.Thread(target=time.sleep, args=(60,)).start()
    if what == "grandchild":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        (place / "grandchild").write_text(str(child.pid))
    if what in ("hang", "grandchild"):
        time.sleep(60)
    return {"status": "succeeded", "pid": os.getpid(), "ä": ["text", 1, None]}
