"""The event log of a task: written before and after each act, read back to resume.

Any object with `append(dict)` that iterates over what was appended will do, a plain list included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from .events import Event, event_from_dict
from .frozen import EventError, FrozenList, thaw
from .jsontext import loads_strict
from .jsonvalue import Bounds
from .reducer import State, reduce_task, replay

LINE_BYTES_MAX = 16 * 2**20


class EventLog(Protocol):
    """Where the events of one task are kept, in order."""

    def append(self, event: dict[str, Any], /) -> None:
        """Keep one more event; returns when it is as durable as the log promises."""
        ...

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """All events so far."""
        ...


class JsonlLog:
    """Events in a file, one JSON object per line, each synced to the disk before `append` returns.

    A last line without its end is what a crash left of an append that did not return: it is cut
    off. Anything else that is no event raises EventError. One task has one file and one writer.
    """

    durable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._events = self._read()
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _read(self) -> list[dict[str, Any]]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        whole, newline, torn = data.rpartition(b"\n")
        if torn:
            os.truncate(self.path, len(whole) + len(newline))
        lines = whole.split(b"\n") if newline else []
        return [self._event(line, number) for number, line in enumerate(lines, 1)]

    def _event(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            event: dict[str, Any] = loads_strict(
                line, Bounds(max_bytes=LINE_BYTES_MAX, max_depth=80)
            )
            event_from_dict(event)
        except ValueError as error:
            raise EventError(f"{self.path}:{number} is no event: {error}") from None
        return event

    def append(self, event: dict[str, Any], /) -> None:
        """Write one line and sync it."""
        text = json.dumps(event, sort_keys=True, separators=(",", ":"), allow_nan=False)
        data = text.encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fdatasync(self._file)
        self._events.append(event)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(list(self._events))

    def close(self) -> None:
        """Close the file; the log can be opened again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> JsonlLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LogWriter:
    """Numbers events, checks each against the task's state, and only then appends it."""

    def __init__(self, log: EventLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self.events: list[Event] = []
        for raw in log:
            self.events.append(event_from_dict(raw))
        self._ids = [event.event_id for event in self.events if event.event_id is not None]
        self._state: State = replay(self.events)
        self._state.pop("event_ids", None)

    @property
    def phase(self) -> str:
        """Phase of the task."""
        return str(self._state["phase"])

    @property
    def state(self) -> State:
        """The state that a replay of the log gives."""
        ids = {"event_ids": FrozenList(self._ids)} if self._ids else {}
        return {**self._state, **ids}

    def emit(self, event: Event) -> None:
        """Append one event; EventError, and no change, where the task's state forbids it."""
        event_id = f"e{len(self.events) + 1}"
        event = replace(event, event_id=event_id, at=self._clock())
        # Without its id: a fresh one cannot be a repeat, and the state need not be searched for it.
        state = reduce_task(self._state, replace(event, event_id=None))
        self._log.append(thaw(event.to_dict()))
        self._state = state
        self._ids.append(event_id)
        self.events.append(event)
