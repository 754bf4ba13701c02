"""The async twins of `Corpus` and `Session`: the same questions, awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from .answers import Answer
from .questions import Call, Questions

if TYPE_CHECKING:
    from .api import Corpus, Embedder
    from .session import Session

THREADS = 8


class AsyncQuestions(Questions[Coroutine[Any, Any, Answer]]):
    """Answers each question in a thread; most of the work holds no lock, so several overlap.

    A cancelled call lets its thread run to the end and drops the answer.
    """

    def __init__(self, asked: Corpus | Session) -> None:
        self._asked = asked
        self._limiter: anyio.CapacityLimiter | None = None

    async def _ask(self, call: Call) -> Answer:
        if self._limiter is None:  # it belongs to the event loop that runs now
            self._limiter = anyio.CapacityLimiter(THREADS)
        ask: Callable[[Call], Answer] = self._asked._ask
        return await anyio.to_thread.run_sync(
            ask, call, limiter=self._limiter, abandon_on_cancel=True
        )


class AsyncCorpus(AsyncQuestions):
    """`Corpus`, awaited: ``await corpus.hybrid_search("max_size")``.

    >>> import asyncio
    >>> from gnomon.corpus.coordinator import CorpusIndex, Documents
    >>> with_one = CorpusIndex.create("aio.corpus")
    >>> _ = with_one.update([Documents("docs", [("a.md", b"# A red apple")])])
    >>> async def ask():
    ...     corpus = await AsyncCorpus.open("aio.corpus")
    ...     answers = await asyncio.gather(corpus.grep("red"), corpus.hybrid_search("apple"))
    ...     return [answer.report.total for answer in answers]
    >>> asyncio.run(ask())
    [1, 1]
    >>> with_one.close()
    """

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        self.corpus = corpus

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        principal: str | None = None,
        scopes: Iterable[str] | None = None,
        embedder: Embedder | None = None,
        **options: Any,
    ) -> AsyncCorpus:
        """As `Corpus.open`, in a thread."""
        from .api import Corpus

        def opened() -> Corpus:
            return Corpus.open(path, principal, scopes, embedder, **options)

        return cls(await anyio.to_thread.run_sync(opened))

    async def session(self, id: str | None = None, **options: Any) -> AsyncSession:
        """As `Corpus.session`, in a thread."""
        session = await anyio.to_thread.run_sync(lambda: self.corpus.session(id, **options))
        return AsyncSession(session)

    async def refresh(self) -> int:
        """As `Corpus.refresh`, in a thread."""
        return await anyio.to_thread.run_sync(self.corpus.refresh)


class AsyncSession(AsyncQuestions):
    """`Session`, awaited. Its calls are numbered in the order in which they begin to run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.session = session
