"""`Corpus`: an index on disk that an agent can search, walk, read and question."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .answers import Answer
from .questions import Call, Questions

if TYPE_CHECKING:
    from gnomon.agent import Budget

    from .aio import AsyncCorpus
    from .session import Session

#: From texts to one vector each, [n, dim].
Embedder = Callable[[list[str]], Any]


class Corpus(Questions):
    """A corpus on disk, seen by one principal."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        principal: str | None = None,
        scopes: Iterable[str] | None = None,
        embedder: Embedder | None = None,
        *,
        clock: Callable[[], float] = time.time,
        cache_bytes: int = 64 << 20,
    ) -> Corpus:
        """Open for reading. `principal` owns sessions; `scopes` None enforces no access scope."""
        raise NotImplementedError

    def seen_by(self, principal: str | None, scopes: Iterable[str] | None) -> Corpus:
        """The same open corpus for another principal: shares everything but what each may see."""
        raise NotImplementedError

    def session(
        self,
        id: str | None = None,
        *,
        budget: Budget | None = None,
        per_tool: dict[str, int] | None = None,
        repeat_limit: int = 3,
        ttl: float = 7 * 86_400,
        store: str | os.PathLike[str] | None = None,
    ) -> Session:
        """A new session, or the stored one of this id."""
        raise NotImplementedError

    def aio(self) -> AsyncCorpus:
        """The async twin: the same methods as coroutines."""
        raise NotImplementedError

    def refresh(self) -> int:
        """Take up the newest generation; returns its number."""
        raise NotImplementedError

    def _ask(self, call: Call) -> Answer:
        raise NotImplementedError
