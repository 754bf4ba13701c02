"""A thread that runs one tool call and may be left behind when its time is over."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from .effects import NotStarted, Raised, Ran, Returned, Run
from .errors import NotExecuted


class Worker:
    """Runs the tool of one ``Run`` effect in a thread.

    Exactly one of two things happens, whichever comes first: the tool ends and ``notify`` is
    called, or ``abandon`` succeeds and the end is reported to ``run.late`` instead. A thread
    cannot be stopped, so an abandoned tool keeps its slot until it really ends.
    """

    def __init__(self, run: Run, notify: Callable[[], None]) -> None:
        self._run = run
        self._notify = notify
        self._lock = threading.Lock()
        self._abandoned = self._begun = self._forbidden = False
        self._ended: Returned | Raised | None = None
        self._slot = run.slot
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._body,), name=f"gnomon-{run.tool.name}", daemon=True
        )

    def start(self) -> Ran | None:
        """Start the thread; what came of it where that was refused or interrupted.

        An exception alone proves nothing: a signal handler may raise one, a RuntimeError too, after
        the thread has begun. So either the tool has begun, or from here on it never will.
        """
        try:
            self._thread.start()
        except BaseException as error:
            with self._lock:
                self._forbidden = not self._begun
            if not self._forbidden:
                return self.interrupted(error)
            if isinstance(error, RuntimeError):  # the system has no thread left
                return Raised(NotExecuted("no thread could be started", retryable=True))
            return NotStarted(error)
        return None

    def _body(self) -> None:
        ended: Returned | Raised
        with self._lock:
            if self._forbidden:
                return
            self._begun = True
        try:
            ended = Returned(self._run.tool.execute(**self._run.arguments))
        except BaseException as error:
            ended = Raised(error)
        with self._lock:
            self._ended = ended
            late = self._abandoned
        if not late:
            self._notify()
            return
        try:
            self._run.late(ended)
        finally:
            self._slot.release()

    def abandon(self) -> Returned | Raised | None:
        """Stop waiting; what the tool did, if it had ended before."""
        with self._lock:
            if self._ended is None:
                self._abandoned = True
            return self._ended

    def interrupted(self, error: BaseException) -> Raised:
        """The wait was interrupted; what the tool did, before or after this, is reported late."""
        ended = self.abandon()
        if ended is not None:
            self._run.late(ended)
        return Raised(error, abandoned=ended is None)
