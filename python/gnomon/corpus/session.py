"""A session: what an agent has asked and seen, what it may still spend, and where it stands.

The state is a fold over rows that are only ever added, so a session that is opened again is where
it was, and :func:`replay` can ask everything again and compare bytes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from gnomon.agent import Budget, BudgetMeter
from gnomon.agent.budget import Exhausted

from .answers import Answer, Item, Novelty, Problem, Report
from .arguments import TOKENS_LEAST
from .bounds import digest, measured, tokens_of
from .questions import Call, Questions
from .session_store import Event, SessionStore, StoredSession

if TYPE_CHECKING:
    from .aio import AsyncSession
    from .api import Corpus

#: The reason of `gnomon.agent` for a run that has used up what it was given.
BUDGET_EXHAUSTED = "budget_exhausted"
EXPIRED = "session_expired"
_OWN_TOKENS = 80  # what a session adds to a report
_KEEP, _DROP = "workspace.keep", "workspace.drop"
_WHOLE_TEXT = ("read", "grep", "outline", "list", "stats")


class _State:
    """What the rows of a session add up to."""

    def __init__(self) -> None:
        self.calls = 0
        self.tokens = 0
        self.next_seq = 1
        self.by_tool: dict[str, int] = {}
        self.chunks: set[str] = set()
        self.entities: set[str] = set()
        self.texts: set[str] = set()  # of passages, with the text that was shown
        self.asked: dict[str, int] = {}  # question -> the call that asked it first
        self.repeats: dict[str, int] = {}
        self.workspaces: dict[str, dict[str, None]] = {}


class Session(Questions[Answer]):
    """A principal's session on a corpus; made by `Corpus.session`. Safe from several threads.

    Asking the same again gives a pointer to the call that has the answer (`report.repeat_of`).
    A passage that was shown before has ``item.new`` off. When the budget is used up, answers hold
    nothing but a problem of the code ``budget_exhausted``.
    """

    def __init__(
        self,
        corpus: Corpus,
        store: SessionStore,
        row: StoredSession,
        clock: Callable[[], float],
    ) -> None:
        self.corpus = corpus
        self.id = row.id
        self.created = row.created
        self.expires = row.expires
        self._store = store
        self._row = row
        self._clock = clock
        self._lock = threading.RLock()
        self._budget = Budget(**row.options["budget"])
        self._per_tool: dict[str, int] = row.options["per_tool"]
        self._repeat_limit: int = row.options["repeat_limit"]
        self._state = _State()
        self._now = row.created  # stands still during a call, so that a replay decides alike
        self._meter = BudgetMeter(self._budget, lambda: self._now, started_at=row.created)
        for event in store.events(row.id):
            self._take(event)

    @classmethod
    def open(
        cls,
        corpus: Corpus,
        path: str,
        id: str | None,
        budget: Budget | None,
        per_tool: dict[str, int],
        repeat_limit: int,
        ttl: float,
        clock: Callable[[], float],
    ) -> Session:
        """See `Corpus.session`."""
        store = SessionStore(path)
        tenant = corpus.principal or ""
        now = clock()
        if id is not None:
            return cls(corpus, store, store.session(id, tenant, now), clock)
        options = {
            "budget": (budget or Budget()).limits(),
            "per_tool": per_tool,
            "repeat_limit": repeat_limit,
        }
        row = StoredSession(secrets.token_hex(8), tenant, now, now + ttl, options)
        store.purge(now)  # a store that nobody tends would keep what has expired for ever
        store.add_session(row)
        return cls(corpus, store, row, clock)

    def aio(self) -> AsyncSession:
        """The async twin."""
        from .aio import AsyncSession

        return AsyncSession(self)

    # What it has seen

    @property
    def seen(self) -> frozenset[str]:
        """Ids of the passages that were shown."""
        return frozenset(self._state.chunks)

    @property
    def entities(self) -> frozenset[str]:
        """Entities that were shown."""
        return frozenset(self._state.entities)

    def events(self) -> list[Event]:
        """Every call so far, with its answer."""
        return list(self._store.events(self.id))

    def workspace(self, name: str = "main") -> list[str]:
        """The passages of a workspace, in the order in which they came."""
        return list(self._state.workspaces.get(name, {}))

    def keep(self, chunk_ids: Iterable[str], workspace: str = "main") -> int:
        """Adds passages to a workspace; questions with ``scope="workspace:NAME"`` stay inside it.

        Ids that the principal cannot see are left out. Returns how many there are now. Raises
        KeyError when the session has expired.
        """
        known = [each for each in chunk_ids if self.corpus.snapshot.has_chunk(each)]
        with self._lock:
            self._note(_KEEP, {"name": workspace, "ids": known})
            return len(self._state.workspaces[workspace])

    def drop(self, chunk_ids: Iterable[str], workspace: str = "main") -> int:
        """Takes passages out of a workspace; returns how many are left."""
        with self._lock:
            self._note(_DROP, {"name": workspace, "ids": list(chunk_ids)})
            return len(self._state.workspaces[workspace])

    def pull(self, query: str, k: int = 50, workspace: str = "main", **options: Any) -> Answer:
        """Searches, and keeps what was found in a workspace."""
        answer = self.hybrid_search(query, k=k, detail="ids", **options)
        self.keep([item.chunk_id for item in answer.items], workspace)
        return answer

    # Asking

    def _ask(self, call: Call) -> Answer:
        with self._lock:
            began = self._now = self._clock()
            answer = self._answered(call)
            return self._logged(call, answer, began)

    def _answered(self, call: Call) -> Answer:
        """The answer without times."""
        if self._now >= self.expires:
            return self._stopped(call, EXPIRED, "the session has expired")
        allowed = self._per_tool.get(call.tool)
        if allowed is not None and self._state.by_tool.get(call.tool, 0) >= allowed:
            return self._stopped(
                call, BUDGET_EXHAUSTED, f"{call.tool}: all {allowed} calls are used"
            )
        refused = self._meter.reserve(steps=1, tokens=TOKENS_LEAST)
        if isinstance(refused, Exhausted):
            return self._stopped(
                call,
                BUDGET_EXHAUSTED,
                f"{refused.dimension}: {refused.used:g} of {refused.limit:g} are used",
            )
        self._meter.settle(refused, {})
        resolved = self._resolved(call)
        if isinstance(resolved, Problem):
            return self._stopped(call, resolved.code, resolved.message)
        key = self._key(resolved, self.corpus.generation)
        first = self._state.asked.get(key)
        if first is None:
            return self._decorated(self.corpus.timeless(self._narrowed(resolved)), call.tool)
        if self._state.repeats.get(key, 0) >= self._repeat_limit:
            return self._stopped(
                call, BUDGET_EXHAUSTED, f"this was asked {self._repeat_limit + 1} times before"
            )
        return self._pointer(call, first)

    def _resolved(self, call: Call) -> Call | Problem:
        """The call with a workspace's passages in the place of its name."""
        scope = call.args.get("scope")
        if not (isinstance(scope, str) and scope.startswith("workspace:")):
            return call
        name = scope.removeprefix("workspace:")
        if name not in self._state.workspaces:
            known = ", ".join(sorted(self._state.workspaces)) or "none"
            return Problem("bad_scope", f"there is no workspace {name[:100]!r}; there are: {known}")
        ids = sorted(self._state.workspaces[name])
        return Call(call.tool, {**call.args, "scope": ids})

    def _narrowed(self, call: Call) -> Call:
        """The call with room left for what the session adds, and within the tokens left."""
        most = call.args["max_tokens"]
        left = self._left("tokens")
        if left is not None:
            most = min(most, left)
        return Call(call.tool, {**call.args, "max_tokens": most - _OWN_TOKENS})

    def _key(self, call: Call, generation: int) -> str:
        """What makes two calls the same question: also what may be seen, and when."""
        rest = {name: value for name, value in call.args.items() if name != "max_tokens"}
        scopes = self.corpus.scopes
        who = "*" if scopes is None else "\0".join(sorted(scopes))
        return digest(Call(call.tool, rest).key(), str(generation).encode(), who.encode())

    def _left(self, dimension: str) -> int | None:
        limit = getattr(self._budget, dimension)
        used = {"tokens": self._state.tokens, "steps": self._state.calls}[dimension]
        return None if limit is None else int(limit - used)

    def _decorated(self, answer: Answer, tool: str) -> Answer:
        """The answer with what the session knows: what is new, and what was shown already."""
        state = self._state
        items: list[Item] = []
        new_chunks: set[str] = set()
        new_entities: set[str] = set()
        dropped = 0
        for item in answer.items:
            new = item.chunk_id not in state.chunks
            new_entities.update(each.id for each in item.entities if each.id not in state.entities)
            if new:
                new_chunks.add(item.chunk_id)
            same = tool not in _WHOLE_TEXT and item.excerpt and _text_key(item) in state.texts
            if same:
                dropped += 1
                item = _pointed(item)
            items.append(replace(item, new=new))
        share = sum(item.new for item in items) / len(items) if items else 0.0
        novelty = Novelty(len(new_chunks), len(new_entities), round(share, 3), dropped)
        return Answer(replace(answer.report, novelty=novelty), items, answer.lines)

    def _pointer(self, call: Call, first: int) -> Answer:
        """As short as can be: the answer is in the call that asked this first."""
        report = Report(call.tool, self.corpus.generation, repeat_of=first)
        return Answer(report)

    def _stopped(self, call: Call, code: str, message: str) -> Answer:
        report = Report(call.tool, self.corpus.generation, problem=Problem(code, message))
        if code == BUDGET_EXHAUSTED:
            report.budget = replace(report.budget, stop=BUDGET_EXHAUSTED)
        return Answer(report)

    # Rows

    def _logged(self, call: Call, answer: Answer, began: float) -> Answer:
        """Adds the row and gives the answer with times."""
        from .api import stamped

        seq = self._state.next_seq
        report = answer.report
        if report.problem is not None and report.problem.code == EXPIRED:
            return stamped(answer, began, self._clock())  # its rows may be gone already
        counted = report.problem is None or report.problem.code != BUDGET_EXHAUSTED
        steps = self._left("steps")
        use = report.budget
        if counted:
            tokens = self._left("tokens")
            use = replace(use, calls_left=None if steps is None else steps - 1, tokens_left=tokens)
        answer = Answer(
            replace(
                report, call=seq, session=self.id if report.repeat_of is None else "", budget=use
            ),
            answer.items,
            answer.lines,
        )
        if report.repeat_of is None:
            answer = measured(answer, call.args["max_tokens"])
        response = answer.to_json(times=False)
        ended = self._clock()
        event = Event(
            seq,
            began,
            ended,
            self.corpus.generation,
            call.tool,
            call.args,
            digest(response),
            response,
        )
        self._store.append(self.id, event)
        self._take(event, answer)
        answer = stamped(answer, began, ended)
        seconds = self._meter.remaining_seconds
        if seconds is not None:
            answer.report.budget = replace(answer.report.budget, ms_left=round(seconds * 1000, 1))
        return answer

    def _note(self, tool: str, args: dict[str, Any]) -> None:
        now = self._clock()
        if now >= self.expires:
            raise KeyError(f"there is no session {self.id!r}, or it has expired")
        event = Event(
            self._state.next_seq, now, now, self.corpus.generation, tool, args, digest(b""), b""
        )
        self._store.append(self.id, event)
        self._take(event)

    def _take(self, event: Event, answer: Answer | None = None) -> None:
        """Adds a row to the state."""
        state = self._state
        state.next_seq = event.seq + 1
        if event.tool in (_KEEP, _DROP):
            ids = state.workspaces.setdefault(event.args["name"], {})
            for each in event.args["ids"]:
                if event.tool == _KEEP:
                    ids[each] = None
                else:
                    ids.pop(each, None)
            return
        if answer is None:
            answer = msgspec.json.decode(event.response, type=Answer)
        problem = answer.report.problem
        if problem is not None and problem.code in (BUDGET_EXHAUSTED, EXPIRED):
            return
        tokens = answer.report.budget.tokens or tokens_of(event.response)
        state.calls += 1
        state.tokens += tokens
        state.by_tool[event.tool] = state.by_tool.get(event.tool, 0) + 1
        self._meter.charge({"steps": 1, "tokens": tokens})
        resolved = self._resolved(Call(event.tool, event.args))
        if isinstance(resolved, Call):
            key = self._key(resolved, event.generation)
            if answer.report.repeat_of is not None:
                state.repeats[key] = state.repeats.get(key, 0) + 1
            elif problem is None:
                state.asked.setdefault(key, event.seq)
        for item in answer.items:
            state.chunks.add(item.chunk_id)
            state.entities.update(each.id for each in item.entities)
            if item.excerpt:
                state.texts.add(_text_key(item))


def _pointed(item: Item) -> Item:
    """An item whose text the session has: where it is, and why it is here."""
    score = None if item.score is None else replace(item.score, parts=())
    return replace(
        item, excerpt="", marks=(), entities=(), related=(), score=score, revision="", doc_id=""
    )


def _text_key(item: Item) -> str:
    return digest(item.chunk_id.encode(), item.excerpt.encode("utf-8", "surrogatepass"))
