"""Stored sessions for the web page: which there are, and each replayed call by call."""

from __future__ import annotations

import builtins
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec

from .answers import Answer
from .bounds import digest
from .questions import Call
from .session_store import SessionStore

if TYPE_CHECKING:
    from .api import Corpus

CALLS_MOST = 200


class StoredSessions:
    """The sessions of the corpus's principal in the store at `path`; nobody else's are found."""

    def __init__(self, corpus: Corpus, path: str | os.PathLike[str]) -> None:
        self.corpus, self.path = corpus, os.fspath(path)
        self._store = SessionStore(self.path)

    def list(self) -> list[dict[str, Any]]:
        """Each session's id, its beginning (seconds since 1970) and the number of its calls."""
        rows = self._store.sessions(self.corpus.principal or "", time.time())
        return [
            {
                "id": row.id,
                "created": row.created,
                "calls": sum(1 for _ in self._store.events(row.id)),
            }
            for row in rows
        ]

    def replay(self, id: str) -> builtins.list[dict[str, Any]]:
        """The calls of a session with the items that were shown.

        `same` is whether the corpus as it is now finds the same passages; None for a call that has
        no items to compare. Raises KeyError for a session that the principal does not have.
        """
        self._store.session(id, self.corpus.principal or "", time.time())
        calls = []
        for event in self._store.events(id):
            if not event.response:
                continue  # a change of a workspace: nothing was asked
            answer = msgspec.json.decode(event.response, type=Answer)
            shown, same = [item.chunk_id for item in answer.items], None
            if shown and digest(event.response) == event.digest:
                again = self.corpus.timeless(Call(event.tool, event.args))
                # A session keeps some room of an answer to itself: it may show fewer.
                same = [item.chunk_id for item in again.items][: len(shown)] == shown
            calls.append(
                {
                    "tool": event.tool.removeprefix("tool."),
                    "args": event.args,
                    "generation": event.generation,
                    "same": same,
                    "items": msgspec.to_builtins(answer.items),
                }
            )
            if len(calls) >= CALLS_MOST:
                break
        return calls
