"""The process of one isolated tool call: a program of the standard library alone.

process_child.py RESULT_FD < request

The request is one line of JSON (module, name, path, arguments), then silence: its end means that
the owner is gone, and then this process group must go too. A tool that survived its owner would act
after the ledger took that one for dead. So a process that does nothing else watches over the one
that runs the tool. The outcome is one line of JSON on RESULT_FD.
"""

import importlib
import json
import os
import select
import signal
import sys
from typing import Any

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LOOK_SECONDS = 0.5


def watch(tool: int, alive: int, owner: int) -> None:
    """Wait for the end of the tool's process; end the whole group once the owner is gone.

    Standard input ends with its writer. A child that the owner forked may hold a copy of that
    writer, so the owner's number is looked at as well.
    """
    while True:
        ready, _, _ = select.select([0, alive], [], [], _LOOK_SECONDS)
        gone = os.getppid() != owner or (0 in ready and not os.read(0, 4096))
        if gone:
            os.killpg(0, signal.SIGKILL)
        if alive in ready:  # nobody holds the other end any more
            os._exit(os.waitstatus_to_exitcode(os.waitpid(tool, 0)[1]) & 0xFF)


def die_with_the_watch() -> None:
    """Also where somebody kills the watching process."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def read_request() -> dict[str, Any]:
    """The line on standard input."""
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            sys.exit(3)
        data += part
    request: dict[str, Any] = json.loads(data)
    return request


def _found(request: dict[str, Any]) -> Any:
    sys.path[:] = request["path"]
    found: Any = importlib.import_module(request["module"])
    for part in request["name"].split("."):
        found = getattr(found, part)
    return getattr(found, "execute", found)  # a decorated function's name means its Tool


def _says_not_executed(kind: type) -> bool:
    return (kind.__module__, kind.__qualname__) == ("gnomon.agent.errors", "NotExecuted")


def outcome_of(request: dict[str, Any]) -> dict[str, Any]:
    """What the call came to, as JSON values as far as the tool keeps to them."""
    try:
        execute = _found(request)
    except BaseException as error:
        return {"kind": "not_started", "error": f"{type(error).__qualname__}: {error}"}
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
    request = read_request()
    alive, held = os.pipe()
    tool = os.fork()
    if tool:
        os.close(held)
        os.close(result)
        watch(tool, alive, owner)
    die_with_the_watch()
    os.close(alive)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    outcome = outcome_of(request)
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
