"""A thread that runs one tool call and may be left behind when its time is over."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from .effects import Raised, Returned, Run


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
        self._abandoned = False
        self._ended: Returned | Raised | None = None
        self._slot = run.slot
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._body,), name=f"gnomon-{run.tool.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread; RuntimeError where the system has none left, and nothing ran then."""
        self._thread.start()

    def _body(self) -> None:
        ended: Returned | Raised
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
