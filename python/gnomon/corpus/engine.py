"""Answers questions on one snapshot: which function takes which question, and what all share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .answers import CONFIDENCE, Answer, Item, Line, NoHit, Problem, Report
from .bounds import CursorError, cursor_of, digest, fitted
from .items import Presenter
from .model import Document, Span
from .query_compile import QueryError
from .questions import Call
from .ranking import EVEN
from .slots import Marker, Slots
from .snapshot import Snapshot
from .vectors import Float32Array, unit_rows

Embedder = Callable[[list[str]], Any]
_NOT_IN_KEY = ("cursor", "k", "max_tokens", "detail")


class UnknownTargetError(LookupError):
    """A document, section, passage or entity that the caller named and that is not here."""

    def __init__(self, what: str, name: str, instead: Iterable[str] = ()) -> None:
        super().__init__(f"there is no {what} {name[:200]!r}")
        self.no_hit = NoHit(
            f"unknown_{what}",
            (name[:200],),
            advice="; ".join(["use list or a search to find it", *instead])[:500],
        )


class Engine:
    """One snapshot as one reader sees it; safe from several threads.

    Its answers carry no times: those are stamped on by whoever has a clock.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        embedder: Embedder | None,
        learned: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.learned = learned  # type of task -> mode -> weight; "" is all types
        self.slots = Slots(snapshot)
        self.generation = snapshot.generation
        self._embedder = embedder
        self._vectors: dict[str, Any] = {}
        self._beside: dict[str, Any] = {}

    @property
    def has_dense(self) -> bool:
        """Whether a question can be asked of the dense index."""
        return not self.no_dense

    @property
    def no_dense(self) -> str:
        """Why it cannot; empty when it can."""
        if self.snapshot.dense is None:
            return "the corpus has no vectors"
        if self._embedder is None:
            made = self.snapshot.embedder
            return "no embedder was given to Corpus.open" + (
                f"; vectors are of {made}" if made else ""
            )
        given = getattr(self._embedder, "identity", self.snapshot.embedder)
        if self.snapshot.embedder and given != self.snapshot.embedder:
            return f"the vectors are of {self.snapshot.embedder}, the embedder is {given}"
        return ""

    @cached_property
    def by_file_name(self) -> dict[str, list[Document]]:
        """The documents by the last part of their paths."""
        found: dict[str, list[Document]] = {}
        for document in self.snapshot.documents():
            found.setdefault(document.path.rpartition("/")[2], []).append(document)
        return found

    def weights(self, task: str) -> Mapping[str, float]:
        """What each mode's ranking counts in a fusion; 1.0 each unless weights were given."""
        if self.learned is None:
            return EVEN
        return self.learned.get(task, self.learned[""])

    def vectors_of(self, slots: list[int]) -> Float32Array | None:
        """The vectors of passages, of length 1, or None when one has none."""
        dense = self.snapshot.dense
        if dense is None:
            return None
        state = dense._state
        places = [state.places.get(int(cid)) for cid in self.slots.cids(np.array(slots, np.int64))]
        if any(place is None for place in places):
            return None
        rows = np.stack([state.segments[p[0]].core.vectors[p[1]] for p in places if p is not None])
        return unit_rows(rows)

    def presenter(
        self,
        detail: str,
        marker: Marker | None = None,
        regex_spans: Mapping[str, Sequence[Span]] | None = None,
    ) -> Presenter:
        """What makes the items of one answer."""
        spans = {} if regex_spans is None else regex_spans  # not "or": it may be lazy and say 0
        return Presenter(self.snapshot, detail, marker, spans, self._beside)

    def vector(self, text: str) -> Any:
        """The embedding of a question."""
        known = self._vectors.get(text)
        if known is None:
            assert self._embedder is not None
            known = np.asarray(self._embedder([text]), dtype=np.float32)[0]
            if len(self._vectors) >= 64:
                self._vectors.clear()
            self._vectors[text] = known
        return known

    def key(self, tool: str, args: Mapping[str, Any]) -> str:
        """What a cursor is bound to: the question without its bounds, and who asks."""
        rest = {name: value for name, value in args.items() if name not in _NOT_IN_KEY}
        readers = self.snapshot.principals
        who = "\0".join(sorted(readers)) if readers is not None else "*"
        return digest(Call(tool, rest).key(), who.encode("utf-8", "surrogatepass"))

    def page(
        self,
        tool: str,
        args: Mapping[str, Any],
        report: Report,
        items: Iterable[Item],
        lines: Iterable[Line],
        n: int,
        offset: int,
        more: bool,
        bases: Iterable[str] = (),
    ) -> Answer:
        """A bounded answer of `n` items or lines that stand at `offset` of the whole list.

        `items` are made as long as they fit; `bases` are those of their confidences.
        """
        used = sorted(set(bases))
        report.confidence = tuple(f"{basis}: {CONFIDENCE[basis]}" for basis in used)
        return fitted(
            report,
            items,
            lines,
            n,
            args["max_tokens"],
            lambda count: cursor_of(self.generation, self.key(tool, args), offset + count),
            more,
        )

    def answer(self, call: Call) -> Answer:
        """The answer to a question; what is wrong with the question comes back in the report."""
        from .handlers import HANDLERS

        try:
            return HANDLERS[call.tool](self, call)
        except QueryError as error:
            return self._refused(call, Problem(error.code, str(error), error.remedy))
        except CursorError as error:
            return self._refused(call, Problem(error.code, str(error), "ask again without it"))
        except UnknownTargetError as error:
            return self._refused(call, None, error.no_hit)

    def _refused(self, call: Call, problem: Problem | None, no_hit: NoHit | None = None) -> Answer:
        query = call.args.get("query") or call.args.get("pattern") or ""
        report = Report(
            tool=call.tool,
            generation=self.generation,
            query=query[:200],
            problem=problem,
            no_hit=no_hit,
        )
        return self.page(call.tool, call.args, report, (), (), 0, 0, False)
