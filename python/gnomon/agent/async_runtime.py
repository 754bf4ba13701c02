"""The asynchronous runtime: the same steps as ToolRuntime, carried out without blocking the
loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from .approval import ApprovalDecision
from .contract import Tool
from .control import Control
from .core import inside
from .dispatch import Dispatched, Steps, Timeout
from .effects import Do, Effect, Enter, NotStarted, Raised, Ran, Returned, Run, Sleep, TimedOut
from .operations import OperationStore
from .process import ProcessCall
from .records import Operation, OperationRequest
from .registry import is_async
from .runtime import no_slot
from .settings import Settings
from .slots import Slot
from .worker import Worker

T = TypeVar("T")


class AsyncToolRuntime:
    """ToolRuntime for asyncio and trio: same arguments, same answers, same ledger.

    Tools may be ``async def`` functions or plain ones; a plain tool runs in a thread of its own. A
    cancelled dispatch records ``needs_reconcile`` before the cancellation goes on; an ``async``
    tool whose time is over is cancelled at its next await, a plain one is left to end and reported
    late.

    Examples
    --------
    >>> import asyncio
    >>> from gnomon.agent import Tool
    >>> async def ping(host):
    ...     return {"status": "succeeded", "host": host}
    >>> text = {"type": "string"}
    >>> schema = {"type": "object", "properties": {"host": text}, "required": ["host"]}
    >>> async def main():
    ...     tools = {"ping": Tool("ping", schema, 0, ping)}
    ...     async with AsyncToolRuntime(tools, max_risk=0) as runtime:
    ...         return await runtime.dispatch("ping", {"host": "a"}, "op-1")
    >>> asyncio.run(main())
    {'host': 'a', 'status': 'succeeded'}
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        max_risk: int,
        store: OperationStore | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        if settings is not None and options:
            raise ValueError(f"give settings or {sorted(options)}, not both")
        settings = settings if settings is not None else Settings(**options)
        self._core = Control(tools, max_risk, store, settings, asynchronous=True)
        self._pool: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return repr(self._core).replace("Control", type(self).__name__, 1)

    async def __aenter__(self) -> AsyncToolRuntime:
        if self._core.settings.recover:
            await self.recover()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def core(self) -> Control:
        """The blocking half: its methods touch the ledger from the calling thread."""
        return self._core

    async def dispatch(
        self,
        name: str,
        arguments: Any,
        operation_id: str,
        *,
        principal: str | None = None,
        tenant: str | None = None,
        business_scope: str = "",
        injected: Mapping[str, Any] | None = None,
        wait: float = 0.0,
        admit: Callable[[OperationRequest], None] | None = None,
        timeout: Timeout = None,
    ) -> dict[str, Any]:
        """See ToolRuntime.dispatch."""
        done = await self.dispatch_detail(
            name,
            arguments,
            operation_id,
            principal=principal,
            tenant=tenant,
            business_scope=business_scope,
            injected=injected,
            wait=wait,
            admit=admit,
            timeout=timeout,
        )
        return done.result

    async def dispatch_detail(
        self, name: str, arguments: Any, operation_id: str, **options: Any
    ) -> Dispatched:
        """See ToolRuntime.dispatch_detail."""
        with self._core.observer.span(name, operation_id) as span:
            done = await self._drive(self._core.steps(name, arguments, operation_id, **options))
            span.outcome(done.status.value, done.executed, done.attempts)
            return done

    async def cancel(self, operation_id: str, **options: Any) -> dict[str, Any]:
        """See ToolRuntime.cancel."""
        return await self._ledger(partial(self._core.cancel, operation_id, **options))

    async def reconcile(self, operation_id: str, outcome: Any, **options: Any) -> Operation:
        """See ToolRuntime.reconcile."""
        return await self._ledger(partial(self._core.reconcile, operation_id, outcome, **options))

    async def recover(self) -> list[Operation]:
        """See ToolRuntime.recover."""
        return await self._ledger(self._core.recover)

    async def resolve(
        self,
        operation_id: str,
        outcome: Any,
        evidence: Mapping[str, Any],
        actor: str,
        attempt: int | None = None,
    ) -> Operation:
        """See ToolRuntime.resolve."""
        return await self._ledger(
            partial(self._core.resolve, operation_id, outcome, evidence, actor, attempt)
        )

    async def approve(self, approval_id: str, by: str) -> ApprovalDecision:
        """See Approvals.approve."""
        return await self._ledger(partial(self._core.approvals.approve, approval_id, by))

    async def deny(self, approval_id: str, by: str) -> ApprovalDecision:
        """See Approvals.deny."""
        return await self._ledger(partial(self._core.approvals.deny, approval_id, by))

    async def aclose(self) -> None:
        """See ToolRuntime.close."""
        await self._ledger(self._core.close)
        # A tool may still run: its outcome is recorded through a pool that is made for it then.
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    async def _ledger(self, call: Callable[[], T]) -> T:
        if not self._core.store.blocking:
            return call()
        ended, cancelled = await self._to_its_end(call)
        if cancelled is not None:
            raise cancelled
        return ended.result()

    async def _to_its_end(self, call: Callable[[], T]) -> tuple[Future[T], BaseException | None]:
        """Call the ledger to its end, and give back the cancellation that came meanwhile.

        A half-known transaction helps nobody. A shielded scope is not enough: asyncio's own
        ``task.cancel()`` goes through it.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(8, thread_name_prefix="gnomon-ledger")
        ended = anyio.Event()
        notify = _from_any_thread(ended)
        future = self._pool.submit(call)
        future.add_done_callback(lambda _: notify())
        cancelled: BaseException | None = None
        with anyio.CancelScope(shield=True):
            while not ended.is_set():
                try:
                    await ended.wait()
                except anyio.get_cancelled_exc_class() as error:
                    cancelled = error
        return future, cancelled

    async def _drive(self, steps: Steps) -> Dispatched:
        held: BaseException | None = None  # a cancellation that waits for the ledger's answer
        try:
            effect = next(steps)
            while True:
                try:
                    answer: Any
                    if isinstance(effect, Do):
                        if self._core.store.blocking:
                            call = partial(effect.call, *effect.args)
                            ended, cancelled = await self._to_its_end(call)
                            held = held or cancelled
                            answer = ended.result()
                        else:
                            answer = effect.call(*effect.args)
                    elif held is None:
                        answer = await self._carry_out(effect)
                    elif isinstance(effect, Run):
                        answer = NotStarted(held)
                    else:
                        raise held
                except BaseException as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as done:
            if held is not None:
                raise held from None
            answered: Dispatched = done.value
            return answered
        except BaseException as error:
            if held is not None and error is not held:
                raise held from error
            raise

    async def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Run):
            return await self._call(effect)
        if isinstance(effect, Enter):
            return await self._enter(effect.tool, effect.resource)
        if isinstance(effect, Sleep):
            await anyio.sleep(effect.seconds)
            return None
        raise TypeError(f"the dispatch core asked for {effect!r}, which no driver knows")

    async def _call(self, run: Run) -> Ran:
        mark = inside.set((*inside.get(), run.operation_id))
        try:
            if run.tool.isolation == "process":
                return await _call_in_process(run)
            if not is_async(run.tool.execute):
                return await _call_in_thread(run)
            if not run.in_time():
                return NotStarted(None)
            ran: Ran = TimedOut()
            with anyio.move_on_after(run.timeout):
                ran = Returned(await run.tool.execute(**run.arguments))
            return ran
        except BaseException as error:
            return Raised(error, abandoned=run.running.abandoned)
        finally:
            inside.reset(mark)

    async def _enter(self, tool: Tool, resource: str | None) -> Slot:
        slots = self._core.slots
        slot = slots.enter(tool.name, tool.max_concurrency, resource)
        if slot is not None:
            return slot
        seconds = 0.0 if inside.get() else self._core.settings.slot_seconds
        served = anyio.Event()
        notify = _from_any_thread(served)
        waiter = slots.wait(tool.name, tool.max_concurrency, notify, resource)
        try:
            with anyio.move_on_after(seconds):
                await served.wait()
        except BaseException:
            slot = slots.leave_line(waiter)
            if slot is not None:
                slot.release()
            raise
        slot = slots.leave_line(waiter)
        if slot is None:
            raise no_slot(tool, seconds)
        return slot


def _from_any_thread(event: anyio.Event) -> Callable[[], None]:
    """A function that sets the event from this thread or another one."""
    token, home = anyio.lowlevel.current_token(), threading.get_ident()

    def notify() -> None:
        if threading.get_ident() == home:
            event.set()
            return
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            anyio.from_thread.run_sync(event.set, token=token)

    return notify


async def _call_in_process(run: Run) -> Ran:
    """A thread waits for the process; a cancellation kills it, and what it did is unknown."""
    call = ProcessCall(run)
    try:
        place = anyio.CapacityLimiter(1)  # slots limit tools; the pool's own limit is not for them
        ran: Ran = await anyio.to_thread.run_sync(call.run, abandon_on_cancel=True, limiter=place)
    except BaseException as error:
        return call.interrupted(error)
    return ran


async def _call_in_thread(run: Run) -> Ran:
    ended = anyio.Event()
    worker = Worker(run, _from_any_thread(ended))
    try:
        refused = worker.start()
        if refused is not None:
            return refused
        with anyio.move_on_after(run.timeout):
            await ended.wait()
        return worker.stop_waiting()
    except BaseException as error:
        return worker.interrupted(error)
