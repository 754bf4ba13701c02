"""A thread that runs one tool call and may be left behind when its time is over."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from .effects import NotStarted, Raised, Ran, Returned, Run, TimedOut
from .errors import NotExecuted


class Worker:
    """Runs the tool of one ``Run`` effect in a thread.

    Exactly one of two things happens, whichever comes first: the tool ends and ``notify`` is
    called, or it is left behind and its end is reported to ``run.late`` instead. A thread cannot be
    stopped, so a tool that was left behind keeps its slot until it really ends.

    ``start`` and the wait for ``notify`` belong in one ``try`` whose handler is ``interrupted``: an
    exception alone proves nothing about a thread.
    """

    def __init__(self, run: Run, notify: Callable[[], None]) -> None:
        self._run = run
        self._notify = notify
        self._lock = threading.Lock()
        self._begun = self._forbidden = False
        self._ended: Returned | Raised | NotStarted | None = None
        self._slot = run.slot
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._body,), name=f"gnomon-{run.tool.name}", daemon=True
        )

    def start(self) -> Ran | None:
        """Start the thread; what came of it where the system has no thread left.

        A signal handler may raise RuntimeError too, after the thread has begun. So either the tool
        has begun, or from here on it never will.
        """
        try:
            self._thread.start()
        except RuntimeError:
            if not self._forbid():
                raise
            return Raised(NotExecuted("no thread could be started", retryable=True))
        return None

    def _forbid(self) -> bool:
        """Whether the tool has not begun, and then it never will."""
        with self._lock:
            self._forbidden = not self._begun
            return self._forbidden

    def _body(self) -> None:
        with self._lock:
            if self._forbidden:
                return
            self._begun = True
        ended: Returned | Raised | NotStarted
        try:
            if self._run.in_time():
                ended = Returned(self._run.tool.execute(**self._run.arguments))
            else:
                ended = NotStarted(None)
        except BaseException as error:
            ended = Raised(error)
        with self._lock:
            self._ended = ended
            late = self._run.running.abandoned
        if not late:
            self._notify()
            return
        try:
            self._run.late(ended)
        finally:
            self._slot.release()

    def stop_waiting(self) -> Ran:
        """What the tool did, if it has ended; else it is left behind."""
        with self._lock:
            if self._ended is not None:
                return self._ended
            if not self._run.running.abandoned:
                self._slot = self._run.leave()
            return TimedOut()

    def interrupted(self, error: BaseException) -> Ran:
        """The wait was interrupted; what the tool did, before or after this, is reported late."""
        if self._forbid():
            return NotStarted(error)
        ended = self.stop_waiting()
        if not isinstance(ended, TimedOut):
            self._run.late(ended)
        return Raised(error, abandoned=isinstance(ended, TimedOut))
