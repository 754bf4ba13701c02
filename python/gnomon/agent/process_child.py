"""The process of one isolated tool call: a program of the standard library alone.

process_child.py RESULT_FD < request

The request is one line of JSON (module, name, path, arguments, lease_end). Each line after it is a
later end of the lease; the end of the input means that the owner is gone. In both cases, lease over
or owner gone, this process group must go too: a tool that survived them would act after the ledger
took its owner for dead. So a process that does nothing else watches over the one that runs the
tool. The outcome is one line of JSON on RESULT_FD.
"""

import importlib
import json
import mmap
import os
import select
import signal
import struct
import sys
import time
from typing import Any

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LOOK_SECONDS = 0.5


class Lease:
    """Until when the tool may run: shared by the process that learns of it and the tool's."""

    def __init__(self, end: float) -> None:
        self._shared = mmap.mmap(-1, 8)
        self.move(end)

    def move(self, end: float) -> None:
        """A later end."""
        self._shared[:] = struct.pack("d", end)

    def left(self) -> float:
        """Seconds left, by the owner's clock (see leases.py), which also runs in a sleep."""
        linux = sys.platform == "linux"
        now = time.clock_gettime(time.CLOCK_BOOTTIME) if linux else time.monotonic()
        end: float = struct.unpack("d", self._shared[:])[0]
        return end - now


def watch(tool: int, alive: int, owner: int, lease: Lease, told: bytes) -> None:
    """Wait for the end of the tool's process; end the whole group with its owner or its lease.

    Standard input ends with its writer. A child that the owner forked may hold a copy of that
    writer, so the owner's number is looked at as well.
    """
    while True:
        wait = min(_LOOK_SECONDS, max(0.0, lease.left()))
        ready, _, _ = select.select([0, alive], [], [], wait)
        part = os.read(0, 4096) if 0 in ready else None
        *lines, told = (told + (part or b"")).split(b"\n")
        if lines and lease.left() > 0:  # a lease that was over stays over
            lease.move(float(lines[-1]))
        if part == b"" or os.getppid() != owner or lease.left() <= 0:
            os.killpg(0, signal.SIGKILL)
        pid, status = os.waitpid(tool, os.WNOHANG)
        if pid and not select.select([alive], [], [], 0)[0]:
            os.killpg(0, signal.SIGKILL)  # what it left behind would hold the answer's pipe open
        if pid or alive in ready:  # nobody holds the other end any more
            status = status if pid else os.waitpid(tool, 0)[1]
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def die_with_the_watch() -> None:
    """Also where somebody kills the watching process."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def read_request() -> tuple[dict[str, Any], bytes]:
    """The first line on standard input, and what was read after it."""
    data = b""
    while b"\n" not in data:
        part = os.read(0, 1 << 16)
        if not part:
            sys.exit(3)
        data += part
    line, _, rest = data.partition(b"\n")
    return json.loads(line), rest


def _found(request: dict[str, Any]) -> Any:
    sys.path[:] = request["path"]
    found: Any = importlib.import_module(request["module"])
    for part in request["name"].split("."):
        found = getattr(found, part)
    return getattr(found, "execute", found)  # a decorated function's name means its Tool


def _says_not_executed(kind: type) -> bool:
    return (kind.__module__, kind.__qualname__) == ("gnomon.agent.errors", "NotExecuted")


def outcome_of(request: dict[str, Any], lease: Lease) -> dict[str, Any]:
    """What the call came to, as JSON values as far as the tool keeps to them."""
    try:
        execute = _found(request)
    except BaseException as error:
        return {"kind": "not_started", "error": f"{type(error).__qualname__}: {error}"}
    if lease.left() <= 0:
        return {"kind": "not_started", "error": "the lease was over"}
    try:
        value = execute(**request["arguments"])
    except BaseException as error:
        outcome: dict[str, Any] = {"kind": "raised", "text": str(error)}
        outcome["type"] = type(error).__qualname__
        if any(_says_not_executed(kind) for kind in type(error).__mro__):
            outcome["retryable"] = getattr(error, "retryable", None)
            outcome["retry_after"] = getattr(error, "retry_after", None)
            outcome["kind"] = "not_executed"
        return outcome
    return {"kind": "returned", "value": value}


def main() -> None:
    """Carry out the request."""
    result, owner = int(sys.argv[1]), os.getppid()
    request, told = read_request()
    lease = Lease(request["lease_end"])
    alive, held = os.pipe()
    tool = os.fork()
    if tool:
        os.close(held)
        os.close(result)
        watch(tool, alive, owner, lease, told)
    die_with_the_watch()
    os.close(alive)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    outcome = outcome_of(request, lease)
    try:
        text = json.dumps(outcome, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        text = json.dumps({"kind": "no_json", "error": type(error).__name__})
    sys.stdout.flush()
    with os.fdopen(result, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogatepass") + b"\n")
    os._exit(0)  # threads that the tool left behind do not hold the answer up


if __name__ == "__main__":
    main()
