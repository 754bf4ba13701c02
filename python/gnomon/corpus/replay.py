"""Asks everything that a session asked again, and compares the answers byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from .questions import Call
from .session import _DROP, _KEEP, Session
from .session_store import Event, SessionStore, StoredSession

if TYPE_CHECKING:
    from .api import Corpus


class Replayed(msgspec.Struct, frozen=True):
    """One call: `same` says whether the answer, without times, has the recorded bytes.

    `generation` is that of the recorded answer; on another one the answer may well differ.
    """

    call: int
    tool: str
    generation: int
    same: bool


def replay(corpus: Corpus, session: Session) -> list[Replayed]:
    """Replays a session on the corpus as it is now; writes nothing to the session."""
    return list(_replayed(corpus, session))


def _replayed(corpus: Corpus, session: Session) -> Iterator[Replayed]:
    times = _Times()
    row = session._row
    store = SessionStore(":memory:")
    store.add_session(StoredSession(row.id, row.tenant, row.created, row.expires, row.options))
    times.now = row.created
    again = Session(corpus, store, row, times)
    for event in session.events():
        times.now = event.began
        yield _one(again, event)
    store.close()


def _one(again: Session, event: Event) -> Replayed:
    if event.tool == _KEEP:
        again.keep(event.args["ids"], event.args["name"])
        return Replayed(event.seq, event.tool, event.generation, True)
    if event.tool == _DROP:
        again.drop(event.args["ids"], event.args["name"])
        return Replayed(event.seq, event.tool, event.generation, True)
    answer = again._ask(Call(event.tool, event.args))
    same = answer.to_json(times=False) == event.response
    return Replayed(event.seq, event.tool, event.generation, same)


class _Times:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
