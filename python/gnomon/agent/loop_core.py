"""The bounded loop as a generator: it yields what is to be called, and never calls it itself.

One round: is it cancelled, is the goal reached, is there budget; ask the policy; check and reserve;
record the request; dispatch; record the outcome. A driver (`loop.py`) carries out the calls,
plainly or asynchronously.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from . import events as ev
from .budget import REPORTED, Exhausted, Reservation, checked_usage
from .frozen import EventError, FrozenDict
from .identity import derive_operation_id
from .loop_base import Calls, Ends, frozen, loggable
from .loop_options import Call, Outcome
from .loop_resume import Resume
from .problems import ValidationError
from .terminal import TERMINAL_REASONS


class AgentRun(Resume):
    """One run of the loop over one task."""

    # --- the loop ---------------------------------------------------------------------------------

    def steps(self) -> Calls:
        """The whole run; returns its outcome."""
        if self.log.events:
            ended = yield from self.resume()
            if ended is not None:
                return ended
        else:
            self._start()
        while True:
            if self.options.cancelled is not None and (yield Call(self.options.cancelled)):
                self.log.emit(ev.Cancelled(actor="caller"))
                return self.outcome("cancelled")
            if (yield Call(self.verify, self.state)):
                return self._succeeded()
            candidate = yield from self._ask()
            if isinstance(candidate, Exhausted):
                return self.exhausted(candidate)
            if candidate["kind"] == "answer":
                ended = self._answer(candidate)
            else:
                ended = yield from self._act(candidate)
            if ended is not None:
                return ended

    def _start(self) -> None:
        scopes = self.options.scopes
        self.log.emit(
            ev.TaskStarted(
                task_id=self.options.task_id,
                limits=FrozenDict(self.meter.limits()),
                tools=frozen(self.gateway.tool_names()),
                scopes=None if scopes is None else frozen(sorted(scopes)),
                max_risk=self.gateway.max_risk,
            )
        )

    def _succeeded(self) -> Outcome:
        if self.log.phase == "observing":  # a goal that was reached without an act has no event
            self.log.emit(ev.GoalVerified())
        return self.outcome("succeeded")

    # --- asking the policy ------------------------------------------------------------------------

    def _ask(self) -> Generator[Call, Any, dict[str, Any] | Exhausted]:
        """A candidate; the room for the call is held before it and its usage counted after it."""
        wanted = {name: 1 for name in REPORTED if self.meter.limit(name) is not None}
        if self.options.estimate is not None:
            estimate, _ = checked_usage((yield Call(self.options.estimate, self.state)))
            wanted |= {name: max(amount, wanted.get(name, 0)) for name, amount in estimate.items()}
        else:
            estimate = {}
        held = self.meter.reserve(steps=1, **wanted)
        if isinstance(held, Exhausted):
            return held
        self.log.emit(ev.ModelRequested(reserved=FrozenDict({"steps": 1, **estimate})))
        try:
            candidate = yield Call(self.policy, self.state)
        except BaseException:
            self._model_used(held, estimate, frozenset())
            raise
        kind = candidate.get("kind") if isinstance(candidate, dict) else None
        if not isinstance(kind, str) or kind not in ("answer", "tool"):
            self._model_used(held, estimate, frozenset())
            raise ValueError("policy returned an unknown action")
        used, invalid = checked_usage(candidate.get("usage"))
        self._model_used(held, {**estimate, **used}, invalid)
        refusal = self.meter.reserve()  # what the call used may be more than was held
        return refusal if isinstance(refusal, Exhausted) else candidate

    def _model_used(self, held: Reservation, used: dict[str, int], invalid: frozenset[str]) -> None:
        self.meter.settle(held, {"steps": 1, **used}, invalid)
        self.log.emit(ev.ModelCalled(usage=FrozenDict(used)))

    def _answer(self, candidate: dict[str, Any]) -> Outcome | None:
        text, cited = candidate.get("text"), candidate.get("citations", [])
        reason = candidate.get("reason", "answered")
        if not isinstance(text, str):
            raise ValueError("a policy's answer needs a text")
        if reason not in TERMINAL_REASONS:
            raise ValueError(f"an answer's reason must be one of {sorted(TERMINAL_REASONS)}")
        if not isinstance(cited, (list, tuple)) or not all(isinstance(one, str) for one in cited):
            raise ValueError("an answer's citations must be a list of evidence ids")
        unknown = sorted(set(cited) - self.evidence.keys())
        if unknown:
            problems = [
                {
                    "path": "/citations",
                    "rule": "unknown-citation",
                    "message": f"{name!r} is no evidence of this run",
                    "remedy": "cite ids of evidence that a tool returned",
                }
                for name in unknown
            ]
            return self._reject(candidate, "unknown_citations", problems)
        ids = list(dict.fromkeys(one for name in cited for one in self.evidence[name]))
        if reason == "answered" and not ids:
            reason = "insufficient_evidence"
        redact = self.gateway.redactor.text
        self.log.emit(ev.Answered(answer=redact(text), citations=frozen(ids), reason=reason))
        return self.outcome("answered", answer=text)

    def _reject(
        self, candidate: dict[str, Any], error: str, problems: list[dict[str, str]]
    ) -> Outcome | None:
        """Tell the policy what was wrong with its candidate; nothing was requested."""
        shown = self.gateway.redactor.value(problems)  # a message may repeat what the policy wrote
        self.log.emit(ev.ActionRejected(reason=error, problems=frozen(shown)))
        result = {"status": "failed", "executed": False, "error": error, "problems": problems}
        return self.note(candidate, result, failed=True)

    # --- acting -----------------------------------------------------------------------------------

    def _act(self, candidate: dict[str, Any]) -> Ends:
        name = candidate.get("name")
        arguments = self.gateway.normalized(name, candidate.get("arguments"))
        if arguments is not candidate.get("arguments"):
            candidate = {**candidate, "arguments": arguments}
        if self.options.guard is not None:
            blocked = yield Call(self.options.guard, self.state, candidate)
            if blocked:
                return self.fail("policy_blocked", self.gateway.redactor.text(str(blocked)))
        operation_id = candidate.get("operation_id")
        if operation_id is None:
            try:
                operation_id = self._derive(name, arguments)
            except ValidationError as error:
                problems = [problem.to_dict() for problem in error.problems]
                return self._reject(candidate, "invalid_arguments", problems)
        estimate, _ = checked_usage(candidate.get("estimate"))
        held = self.meter.reserve(**estimate, **self._room("result_bytes"))
        if isinstance(held, Exhausted):
            return self.exhausted(held)
        effect, risk = self.gateway.effect_and_risk(name)
        charged = {"writes": int(effect != "read"), "risk": risk}
        redacted = self.gateway.redactor_for(name, arguments).value(arguments)
        try:
            requested = ev.ToolRequested(
                operation_id=operation_id,
                tool=name if isinstance(name, str) else "",
                arguments=loggable(redacted),
                effect=effect,
                risk=risk,
                charged=FrozenDict(charged),
            )
        except EventError as error:
            self.meter.settle(held, {})
            raise ValueError(f"policy returned an unusable action: {error}") from None
        self.log.emit(requested)
        return (yield from self.dispatch(candidate, operation_id, charged, held))

    def _derive(self, name: Any, arguments: Any) -> str:
        if self.options.principal is None:
            raise ValueError(
                "the candidate has no operation_id; add one, or give run_agent a principal"
            )
        scope, tenant = self.options.business_scope, self.options.tenant or ""
        return derive_operation_id(self.options.principal, name, arguments, scope, tenant=tenant)

    def _room(self, name: str) -> dict[str, int]:
        return {name: 1} if self.meter.limit(name) is not None else {}
