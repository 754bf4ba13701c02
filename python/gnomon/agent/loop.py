"""`run_agent`, the bounded loop: the policy proposes, the runtime executes, all is recorded."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .budget import Budget, BudgetMeter
from .loop_base import Calls
from .loop_core import AgentRun
from .loop_log import EventLog, JsonlLog
from .loop_options import Call, Options, Outcome

__all__ = ["EventLog", "JsonlLog", "run_agent", "run_agent_async"]


def run_agent(
    policy: Callable[[dict[str, Any]], Any],
    runtime: Any,
    initial_state: Mapping[str, Any],
    verify: Callable[[dict[str, Any]], Any],
    max_steps: int,
    *,
    budget: Budget | BudgetMeter | None = None,
    log: EventLog | None = None,
    principal: str | None = None,
    tenant: str | None = None,
    business_scope: str = "",
    scopes: Collection[str] | None = None,
    guard: Callable[[dict[str, Any], dict[str, Any]], str | None] | None = None,
    estimate: Callable[[dict[str, Any]], Mapping[str, int]] | None = None,
    cancelled: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.time,
    task_id: str = "",
    errors_in_a_row_max: int | None = None,
) -> Outcome:
    """Ask, act and look until the goal is reached, the policy answers, or something ends the run.

    Parameters
    ----------
    policy : callable
        ``policy(state)`` gives ``{"kind": "answer", "text", "citations"?, "reason"?}`` or
        ``{"kind": "tool", "name", "arguments", "operation_id"?, "estimate"?}``, either with
        ``"usage": {"tokens", "cost_micros"}``. Without an operation_id it is derived from
        principal, tool, arguments and ``business_scope``, never from a call's number, so that
        proposing the same action again is the same operation. What was wrong with a candidate
        comes back in ``state["last_result"]``.
    runtime : ToolRuntime or another object with ``dispatch(name, arguments, operation_id)``
    initial_state : mapping
        Copied deeply; the caller's is never changed.
    verify : callable
        ``verify(state)`` says whether the goal is reached; asked before every step and once more
        after the last.
    max_steps : int
        Rounds at most, 0 included; a budget's own ``steps`` holds as well.
    budget : Budget or BudgetMeter, optional
        A meter is that of the run which started this one: both must have room.
    log : EventLog, optional
        Where the task's events go. One with events in it is gone on with: settled operations keep
        their results, open ones are never started again, a finished task gives its outcome again.
        Secrets are redacted in it. It must not outlive the runtime's ledger.
    scopes : collection of str, optional
        The caller's authorization: evidence of another ``acl_scope`` ends the run.
    guard : callable, optional
        ``guard(state, candidate)`` gives a reason to block the candidate, or None.
    estimate : callable, optional
        ``estimate(state)`` gives the tokens and cost that are held while the policy is asked.
    cancelled : callable, optional
        Asked before every step.
    clock : callable
        Epoch seconds.
    errors_in_a_row_max : int, optional
        Ends a run that fails so often without a success between.

    Returns
    -------
    dict
        ``status``: "succeeded", "answered" (with ``answer``), "needs_reconcile" (stopped at the
        first outcome that nobody knows), "budget_exhausted" (with ``exhausted``, the first
        dimension without room), "failed", "awaiting_approval" (with ``approval_id``) or
        "cancelled". ``events``: candidate and result of each round. ``state``. ``reason``: one of
        the eight terminal reasons. ``task``: the state of `reduce_task`. ``unsettled``:
        operations whose effect is unknown. ``usage``, ``log``, and ``trace`` for the gate.

    Raises ValueError for a candidate or tool result that is malformed, TypeError or ValueError for
    wrong arguments, and whatever policy and verify raise. Errors of a dispatch are outcomes, not
    exceptions.

    >>> from gnomon.agent import Tool, ToolRuntime
    >>> schema = {"type": "object", "properties": {}}
    >>> find = Tool("find", schema, 0, lambda: {"status": "succeeded", "evidence": ["r7"]})
    >>> def policy(state):
    ...     if "last_result" in state:
    ...         return {"kind": "answer", "text": "seven", "citations": ["r7"]}
    ...     return {"kind": "tool", "name": "find", "arguments": {}, "operation_id": "op1"}
    >>> with ToolRuntime({"find": find}, max_risk=0) as runtime:
    ...     outcome = run_agent(policy, runtime, {}, lambda state: False, 3)
    >>> outcome["status"], outcome["reason"], len(outcome["events"])
    ('answered', 'answered', 1)
    """
    options = Options(
        budget,
        log,
        principal,
        tenant,
        business_scope,
        scopes,
        guard,
        estimate,
        cancelled,
        clock,
        task_id,
        errors_in_a_row_max,
    )
    return _drive(AgentRun(policy, runtime, initial_state, verify, max_steps, options).steps())


async def run_agent_async(
    policy: Callable[[dict[str, Any]], Any],
    runtime: Any,
    initial_state: Mapping[str, Any],
    verify: Callable[[dict[str, Any]], Any],
    max_steps: int,
    **options: Any,
) -> Outcome:
    """`run_agent` where the runtime is asynchronous, or policy, verify and the hooks may be.

    The log is written, and the ledger looked at when a task is gone on with, without awaiting.
    """
    run = AgentRun(policy, runtime, initial_state, verify, max_steps, Options(**options))
    return await _drive_async(run.steps())


def _drive(steps: Calls) -> Outcome:
    try:
        call: Call = next(steps)
        while True:
            try:
                answer = call.function(*call.args)
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as done:
        outcome: Outcome = done.value
        return outcome


async def _drive_async(steps: Calls) -> Outcome:
    try:
        call: Call = next(steps)
        while True:
            try:
                answer = call.function(*call.args)
                if inspect.isawaitable(answer):
                    answer = await answer
            except BaseException as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as done:
        outcome: Outcome = done.value
        return outcome
