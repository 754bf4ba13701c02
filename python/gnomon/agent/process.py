"""Tools in a process of their own, which can be killed where a thread cannot.

The process runs `process_child.py`: arguments and result are JSON over pipes, nothing is pickled
and nothing forked. It dies with its owner, so that a lease that is over means that nothing acts.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .effects import NotStarted, Raised, Ran, Returned, Run, TimedOut
from .errors import NotExecuted, ToolProcessError
from .jsontext import loads_strict
from .outcome import RESULT_BOUNDS
from .signature import place_of

_CHILD = Path(__file__).with_name("process_child.py")


class ProcessCall:
    """One call of an isolated tool; ``run`` waits for it, and another thread may interrupt it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._forbidden = self._killed = False

    def run(self) -> Ran:
        """Start the process and wait for its end; never longer than the call's time."""
        try:
            request = self._request()
        except (TypeError, ValueError, RecursionError) as error:
            text = f"arguments of an isolated tool must be JSON: {type(error).__name__}"
            return Raised(NotExecuted(text, retryable=False))
        read, write = os.pipe()
        try:
            try:
                refused = self._start(write)
            finally:
                os.close(write)
            return refused or self._answer(request, read)
        finally:
            os.close(read)

    def interrupted(self, error: BaseException) -> Ran:
        """Kill the process because the wait for it ended; what came of it where it never began."""
        with self._lock:
            self._forbidden = True
            process = self._process
        if process is None:
            return NotStarted(error)
        self._kill(process)
        return Raised(error)

    def _request(self) -> bytes:
        module, name = place_of(self._run.tool.execute)
        request: Mapping[str, Any] = {
            "module": module,
            "name": name,
            "path": sys.path,
            "arguments": dict(self._run.arguments),
        }
        return json.dumps(request, allow_nan=False).encode() + b"\n"

    def _start(self, write: int) -> Ran | None:
        with self._lock:
            if self._forbidden:
                return NotStarted(None)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, _CHILD, str(write)],
                    stdin=subprocess.PIPE,
                    pass_fds=(write,),
                    start_new_session=True,
                )
            except OSError as error:  # no memory, no process: the tool was never reached
                text = f"no process could be started: {type(error).__name__}"
                return Raised(NotExecuted(text, retryable=True))
        return None

    def _answer(self, request: bytes, read: int) -> Ran:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):  # it died at once; its exit tells
                process.stdin.write(request)
                process.stdin.flush()
            data = _read(read, self._run.timeout)
        except BaseException as error:
            self._kill(process)
            return Raised(error)
        if data is not None and not data.endswith(b"\n"):
            _await_exit(process.pid)  # its pipe is closed, so it ends by itself: how?
        self._kill(process)  # its time is over, or it has answered: what it left behind goes too
        if data is None:
            return TimedOut(abandoned=False)
        return _ran(data, process.returncode)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """End the process and its group, and wait: after this nothing of it acts."""
        with self._lock:
            if self._killed:
                return
            self._killed = True  # once: the number may belong to another process afterwards
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()


def _read(read: int, timeout: float | None) -> bytes | None:
    """All that is written until the other end is closed or a line is whole; None: time is over."""
    deadline = None if timeout is None else time.monotonic() + timeout
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(read, selectors.EVENT_READ)
        while not data.endswith(b"\n"):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and (left <= 0 or not selector.select(left)):
                return None
            if left is None:
                selector.select()
            part = os.read(read, 1 << 16)
            if not part:
                break
            data += part
            if len(data) > RESULT_BOUNDS.max_bytes:
                break
    return bytes(data)


def _await_exit(pid: int, seconds: float = 1.0) -> None:
    """Wait for the process, which stays there to be waited for: its number is not given anew."""
    end = time.monotonic() + seconds
    how = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, pid, how) is None and time.monotonic() < end:
        time.sleep(0.002)


def _ran(data: bytes, returncode: int) -> Ran:
    try:
        outcome = loads_strict(data, RESULT_BOUNDS) if data.endswith(b"\n") else None
    except ValueError:
        outcome = {"kind": "no_json"}
    if not isinstance(outcome, dict):
        return Raised(ToolProcessError(f"the tool's process ended ({returncode}) without a result"))
    kind = outcome.get("kind")
    if kind == "returned":
        return Returned(outcome.get("value"))
    if kind == "no_json":
        return Returned(None)  # no result of a tool
    text = f"{outcome.get('type', '')}: {outcome.get('text', outcome.get('error', ''))}"
    if kind == "not_started":
        return Raised(NotExecuted(f"the function was not reached {text}", retryable=True))
    if kind == "not_executed":
        try:
            after = outcome.get("retry_after")
            return Raised(
                NotExecuted(
                    str(outcome.get("text")), retryable=outcome["retryable"], retry_after=after
                )
            )
        except (TypeError, ValueError, KeyError) as error:
            return Raised(error)
    return Raised(ToolProcessError(text))
