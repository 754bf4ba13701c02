"""One call of a tool on an engine: its bounds, the plain questions it asks, the page it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .answers import Answer, Confidence, Edge, Item
from .arguments import K_MOST
from .bounds import cursor_of, offset_of
from .items import Hit, Presenter
from .questions import Call, Questions
from .tool_pages import Listed, page

if TYPE_CHECKING:
    from .engine import Engine

DETAIL = "text"
CANDIDATES = 60  # passages beyond the first that one answer may look at
_WIDE = 100_000


class Inside(Questions[Answer]):
    """Plain questions to the same engine, which no session counts; their lists begin at `start`."""

    def __init__(self, engine: Engine, start: int = 0) -> None:
        self.engine, self.start = engine, start

    def _ask(self, call: Call) -> Answer:
        from .handlers import HANDLERS

        if self.start:
            key = self.engine.key(call.tool, call.args)
            cursor = cursor_of(self.engine.generation, key, self.start)
            call = Call(call.tool, {**call.args, "cursor": cursor})
        return HANDLERS[call.tool](self.engine, call)


class Work:
    """One call of a tool."""

    def __init__(self, engine: Engine, call: Call) -> None:
        self.engine, self.call, self.args = engine, call, call.args
        key = engine.key(call.tool, call.args)
        self.offset = offset_of(call.args["cursor"], engine.generation, key)
        self.ask, self.onward = Inside(engine), Inside(engine, self.offset)
        self.wanted = min(self.offset + CANDIDATES, K_MOST)
        self.bounds: dict[str, Any] = {"detail": DETAIL, "max_tokens": _WIDE}

    def shown(self, listed: Listed) -> Answer:
        """As much of a list as fits."""
        return page(self.engine, self.call, listed, self.offset)

    def gathered(self, ask: Callable[[str], Answer]) -> Answer:
        """A plain question's first answer, and more of its pages while this one may look at them.

        `ask` takes the cursor.
        """
        answer = ask("")
        while len(answer.items) < self.offset + CANDIDATES and answer.report.cursor:
            more = ask(answer.report.cursor)
            answer.items.extend(more.items)
            answer.report.cursor = more.report.cursor
        return answer

    def items_of(self, chunk_ids: Iterable[str], why: str, source: str) -> list[Item]:
        """Passages that were not found but belong to one that was: marked, with the step."""
        presenter = Presenter(self.engine.snapshot, DETAIL)
        made = []
        for chunk_id in chunk_ids:
            chunk = self.engine.snapshot.chunk(chunk_id)
            edge = Edge(source, why, f"chunk:{chunk_id}")
            hit = Hit(chunk, None, Confidence(1.0, "identity"), "context", edge)
            made.append(presenter.item(hit))
        return made

    def around(self, item: Item) -> list[str]:
        """The passages behind an item in its document, then those before it."""
        snapshot = self.engine.snapshot
        chunk = snapshot.chunk(item.chunk_id)
        every = [one.id for one in snapshot.chunks_of(chunk.doc_id)]
        return [*every[chunk.ordinal + 1 :], *reversed(every[: chunk.ordinal])]


def listed_of(answer: Answer, start: int = 0) -> Listed:
    """What a plain question found from `start` on, as the list of a tool."""
    return Listed(answer.report, list(answer.items), start=start)
