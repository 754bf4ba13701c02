"""A DBOS step whose tool call goes through the ledger.

DBOS runs a step again whose output it does not have, so a tool that acted before the process died
acts again. Inside this step the second run finds the recorded answer. What DBOS recorded for the
workflow may be "needs_reconcile" after the ledger was reconciled: ask the ledger, with
``Bridge.call``, for the state of now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bridge import Bridge, missing


def ledger_step(
    bridge: Bridge, *, name: str = "gnomon_dispatch"
) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """A DBOS step ``(tool name, arguments) -> answer``; make it before ``DBOS.launch()``.

    Retries by DBOS stay off: the ledger's answer is never an exception that trying again would
    change. ``Bridge.business_scope`` should name the business case, or the workflow's own id where
    that is derived from one (``lambda name, arguments: DBOS.workflow_id``).
    """
    try:
        from dbos import DBOS
    except ImportError as error:
        raise missing("dbos", error) from None

    def dispatch(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return bridge.call(tool, arguments)

    step: Callable[[str, dict[str, Any]], dict[str, Any]] = DBOS.step(
        name=name, retries_allowed=False
    )(dispatch)
    return step


def ledger_async_step(
    bridge: Bridge, *, name: str = "gnomon_dispatch_async"
) -> Callable[[str, dict[str, Any]], Any]:
    """As ``ledger_step``, for asynchronous workflows."""
    try:
        from dbos import DBOS
    except ImportError as error:
        raise missing("dbos", error) from None

    async def dispatch(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await bridge.acall(tool, arguments)

    step: Callable[[str, dict[str, Any]], Any] = DBOS.step(name=name, retries_allowed=False)(
        dispatch
    )
    return step
