r"""`Corpus`: an index on disk that an agent can search, walk, read and question.

>>> from gnomon.corpus.coordinator import CorpusIndex, Documents
>>> index = CorpusIndex.create("api.corpus")
>>> text = b"# Setup\n\nSet `max_size`.\n\n# Errors\n\nToo large: raise max\\_size.\n"
>>> _ = index.update([Documents("docs", [("a.md", text)])])
>>> corpus = Corpus.open("api.corpus")
>>> answer = corpus.hybrid_search("max_size")
>>> answer.report.total, sorted(text[slice(*item.matches[0])] for item in answer)
(2, [b'max\\_size', b'max_size'])
>>> corpus.verify_hypothesis("max_size", "large").report.counts["both"]
1
>>> corpus.hybrid_search("max_sise").report.no_hit.nearest[0].instead
('max_size',)
>>> index.close()
"""

from __future__ import annotations

import datetime
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from .answers import Answer
from .cache import AnswerCache
from .embedders import require_same
from .engine import Engine
from .questions import Call, Questions
from .snapshot import Snapshot

if TYPE_CHECKING:
    from gnomon.agent import Budget

    from .aio import AsyncCorpus
    from .learned import LearnedWeights
    from .session import Session

#: From texts to one vector each, [n, dim].
Embedder = Callable[[list[str]], Any]
_ENGINES_MOST = 64
SESSIONS = "sessions.sqlite"


class _Shared:
    """What all readers of one open corpus share: engines by scope, and the cache."""

    def __init__(
        self,
        snapshot: Snapshot,
        embedder: Embedder | None,
        cache_bytes: int,
        learned: LearnedWeights | None = None,
    ) -> None:
        self.snapshot = snapshot  # without an access scope
        self.embedder = embedder
        # A copy: outcomes that are noted later must not change the answers of this corpus.
        self.learned = None if learned is None else learned.every()
        self.cache = AnswerCache(cache_bytes)
        self._engines: dict[frozenset[str] | None, Engine] = {}
        self._lock = threading.Lock()

    def engine(self, scopes: frozenset[str] | None) -> Engine:
        """The engine of what these scopes may see."""
        with self._lock:
            found = self._engines.get(scopes)
            if found is None:
                found = Engine(self.snapshot.permitted(scopes), self.embedder, self.learned)
                while len(self._engines) >= _ENGINES_MOST:
                    self._engines.pop(next(iter(self._engines)))
                self._engines[scopes] = found
            return found

    def refresh(self) -> int:
        """Takes up the newest generation."""
        newest = self.snapshot.refresh()
        with self._lock:
            if newest is not self.snapshot:
                self.snapshot = newest
                self._engines = {}
            return newest.generation


class Corpus(Questions[Answer]):
    """A corpus on disk, seen by one principal; open it with :meth:`open`.

    Safe from several threads. An open corpus stays on its generation until :meth:`refresh`; the
    same call on the same generation gives the same bytes (``answer.to_json(times=False)``), whether
    it comes from the cache or not.
    """

    def __init__(
        self,
        shared: _Shared,
        principal: str | None,
        scopes: frozenset[str] | None,
        clock: Callable[[], float],
    ) -> None:
        self._shared = shared
        self._clock = clock
        self.principal = principal
        self.scopes = scopes

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
        learned: LearnedWeights | None = None,
    ) -> Corpus:
        """Opens the newest generation for reading.

        Parameters
        ----------
        path
            The index's directory.
        principal
            Who asks: sessions belong to a principal, and no other finds them.
        scopes
            Access scopes of the principal. A document is visible when its `acl` names one of them;
            one that declares none is hidden. None enforces nothing. All that an answer says
            (scores, totals, suggestions, entities, errors) is then what an index of the visible
            documents alone would say. A server passes its own; nothing in a call can change them.
        embedder
            From texts to vectors, the one that the corpus was built with; without it (or without
            vectors) dense questions become sparse ones, and the report says so.
        clock
            Seconds since 1970, for `retrieved_at` and the budgets of sessions.
        cache_bytes
            How much the cache of answers may hold; 0 for none.
        learned
            `gnomon.corpus.learned.LearnedWeights`: what each index's ranking counts in a fusion,
            by the `task` of a question, as the outcomes are now. Without it they count the same.

        Raises
        ------
        FileNotFoundError
            No corpus at `path`.
        gnomon.CorruptIndex
            A damaged one.
        TypeError
            `scopes` that is one text.
        ValueError
            An `embedder` with an identity (see `gnomon.corpus.embedders`) that is not that of the
            corpus's vectors.
        """
        return cls.of(
            Snapshot.open(path),
            principal,
            scopes,
            embedder,
            clock=clock,
            cache_bytes=cache_bytes,
            learned=learned,
        )

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        principal: str | None = None,
        scopes: Iterable[str] | None = None,
        embedder: Embedder | None = None,
        *,
        clock: Callable[[], float] = time.time,
        cache_bytes: int = 64 << 20,
        learned: LearnedWeights | None = None,
    ) -> Corpus:
        """The same over a snapshot that is open already, without an access scope of its own."""
        require_same(snapshot.embedder, embedder)
        shared = _Shared(snapshot, embedder, cache_bytes, learned)
        return cls(shared, principal, _scopes(scopes), clock)

    def seen_by(self, principal: str | None, scopes: Iterable[str] | None) -> Corpus:
        """The same open corpus for another principal; engines and cache are shared by scope."""
        return Corpus(self._shared, principal, _scopes(scopes), self._clock)

    @property
    def generation(self) -> int:
        """The generation that is read."""
        return self._shared.snapshot.generation

    @property
    def snapshot(self) -> Snapshot:
        """What the principal may see, for programs; see `gnomon.corpus.snapshot`."""
        return self._shared.engine(self.scopes).snapshot

    @property
    def cache(self) -> AnswerCache:
        """The cache, with how often it was hit."""
        return self._shared.cache

    def refresh(self) -> int:
        """Takes up the newest generation, for all who share this corpus; returns its number."""
        return self._shared.refresh()

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
        """A new session, or with `id` the stored one.

        Parameters
        ----------
        id
            Of a session of this principal; the other arguments but `store` are then those that it
            began with.
        budget
            `gnomon.agent.Budget`: `steps` are calls, `tokens` those of the answers, `seconds` the
            time since the session began.
        per_tool
            The most calls of single tools.
        repeat_limit
            How often a call may be repeated before it ends with ``budget_exhausted``.
        ttl
            Seconds after which the session is gone.
        store
            The SQLite file of sessions, or ":memory:"; by default ``sessions.sqlite`` in the index.

        Raises
        ------
        KeyError
            The principal has no such session, or it has expired.
        """
        from .session import Session

        place = os.path.join(self._shared.snapshot.path, SESSIONS) if store is None else store
        return Session.open(
            self, os.fspath(place), id, budget, per_tool or {}, repeat_limit, ttl, self._clock
        )

    def aio(self) -> AsyncCorpus:
        """The async twin: the same questions as coroutines, which overlap."""
        from .aio import AsyncCorpus

        return AsyncCorpus(self)

    def _ask(self, call: Call) -> Answer:
        began = self._clock()
        return stamped(self.timeless(call), began, self._clock())

    def timeless(self, call: Call) -> Answer:
        """The answer without times, from the cache if it is there. Not to be changed."""
        engine = self._shared.engine(self.scopes)
        key = (engine.generation, self.scopes, call.key())
        found = self._shared.cache.get(key)
        if found is None:
            found = engine.answer(call)
            self._shared.cache.put(key, found, len(msgspec.json.encode(found)))
        return found


def stamped(answer: Answer, began: float, ended: float) -> Answer:
    """A copy with the time of the call and how long it took."""
    moment = datetime.datetime.fromtimestamp(began, datetime.timezone.utc)
    text = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    ms = round(max(ended - began, 0.0) * 1000, 1)
    report = replace(answer.report, budget=replace(answer.report.budget, ms=ms))
    items = [replace(item, retrieved_at=text) for item in answer.items]
    return Answer(report, items, answer.lines)


def _scopes(scopes: Iterable[str] | None) -> frozenset[str] | None:
    if scopes is None:
        return None
    if isinstance(scopes, (str, bytes)):
        raise TypeError(f"scopes is one text; pass a list of scopes: [{scopes!r}]")
    return frozenset(scopes)
