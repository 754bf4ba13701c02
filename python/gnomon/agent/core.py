"""What the synchronous and the asynchronous runtime share: registry, checks, claims, leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from .approval import Approvals
from .attempts import Attempts
from .call import Prepared, seconds_of
from .contract import Tool
from .dispatch import Call, Dispatch, Steps
from .errors import ReentrantDispatch, StoreClosed, ToolRefused
from .identity import check_name
from .jsonvalue import digest
from .memory_store import MemoryOperationStore
from .observe import Observer
from .operations import OperationStore
from .outcome import Outcome, open_outcome
from .records import Claim, NewApproval, Operation, OperationRequest
from .redact import Redactor
from .registry import Registry
from .retry import RetryPolicy
from .settings import Settings
from .slots import Slots

#: Ids of the operations whose tools this thread or task is inside of.
inside: ContextVar[tuple[str, ...]] = ContextVar("gnomon_inside", default=())


class RuntimeCore:
    """State and checks of one runtime. The drivers add how to wait and how to call."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        max_risk: int,
        store: OperationStore | None,
        settings: Settings,
        *,
        asynchronous: bool,
    ) -> None:
        if type(max_risk) is not int:
            raise ValueError(f"max_risk must be an int, got {max_risk!r}")
        self.max_risk = max_risk
        self.settings = settings
        self.store: OperationStore = MemoryOperationStore() if store is None else store
        self.redactor = settings.redactor if settings.redactor is not None else Redactor()
        #: Whether the ledger keeps digests only, and so no secret.
        self.hides = (
            settings.store_arguments == "digest"
            or getattr(self.store, "digest_only", False) is True
        )
        self.registry = Registry(
            tools,
            self.redactor,
            settings.injected,
            hides_results=self.hides,
            asynchronous=asynchronous,
        )
        self.observer = Observer(self.redactor.text, settings.logger, settings.tracer)
        self.attempts = Attempts(
            self.store, self.observer, settings.lease_seconds, settings.heartbeat
        )
        self.slots = Slots(settings.max_concurrency)
        self._closed = False

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name, as they were given."""
        return self.registry.tools

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy."""
        return self.settings.retry

    @property
    def approvals(self) -> Approvals:
        """The approver's side of the ledger."""
        return Approvals(
            self.store,
            self.settings.approvals,
            self.observer,
            self.registry.redact_arguments,
            self.check_stored,
        )

    def __repr__(self) -> str:
        names = sorted(map(str, self.tools))
        return f"{type(self).__name__}(tools={names}, max_risk={self.max_risk})"

    # --- checks, in the contract's order
    # ------------------------------------------------------------

    def prepare(self, call: Call) -> Prepared:
        """All checks that need no ledger. ValueError or PermissionError refuses the call."""
        if self._closed:
            raise StoreClosed("the runtime was closed; make a new one")
        entry = self.registry.find(call.name)
        tool = entry.tool
        above = tool.risk > self.max_risk
        if above and not tool.approval:
            raise ToolRefused("tool exceeds delegated risk")
        arguments, canonical = tool.contract.validate(call.arguments)
        stored = canonical if self.settings.store_arguments == "full" else None
        request = self._request(
            call, canonical, tool.contract.digest, tool.effect, tool.risk, stored
        )
        return Prepared(
            entry,
            request,
            arguments,
            canonical,
            entry.injected(arguments, call, self.settings.injected),
            self.approval_digest(request) if above else None,
            self._resource(tool, request, arguments),
        )

    @staticmethod
    def _resource(
        tool: Tool, request: OperationRequest, arguments: Mapping[str, Any]
    ) -> str | None:
        """The name of what this call must have for itself while it runs."""
        if tool.resource_key is None or tool.effect == "read":
            return None
        resource = tool.contract.resource(arguments)
        return None if resource is None else f"{request.tenant}\0{resource}"

    def bare_request(self, call: Call) -> OperationRequest | None:
        """The call as far as it identifies an operation, or None; for refused calls only."""
        try:
            name = check_name("name", call.name)
            return self._request(call, self.registry.identify(name, call.arguments))
        except ValueError:
            return None

    def _request(
        self,
        call: Call,
        canonical: bytes,
        contract_digest: str = "",
        effect: str = "write",
        risk: int = 0,
        stored: bytes | None = None,
    ) -> OperationRequest:
        scope = check_name("business_scope", call.business_scope, empty=True)
        redactor = self._redactor_of(call)
        check: Callable[..., str] = check_name
        if self.hides or redactor is not None:
            check = partial(self.check_stored, redactor=redactor)
        return OperationRequest(
            check("operation_id", call.operation_id),
            check("tenant", call.tenant, empty=True),
            check("principal", call.principal, empty=True),
            call.name,
            contract_digest,
            digest(canonical),
            stored,
            scope and (redactor or self.redactor).text(scope),
            effect,
            risk,
        )

    def _redactor_of(self, call: Call) -> Redactor | None:
        """What knows the secrets of this call; None where its tool and its ledger have none."""
        tool = self.tools.get(call.name) if isinstance(call.name, str) else None
        if tool is None or not (self.hides or tool.redact_paths):
            return None
        return self.registry.find(call.name).redactor.for_call(call.arguments)

    def shown_id(self, call: Call) -> str:
        """The operation id of a refused call, as a log may show it."""
        return (self._redactor_of(call) or self.redactor).text(call.operation_id)

    def check_stored(
        self, what: str, value: Any, *, empty: bool = False, redactor: Redactor | None = None
    ) -> str:
        """A name, which logs show and the ledger keeps; ValueError where it holds a secret.

        ``redactor`` knows the secrets of the call. A ledger of digests keeps nothing that looks
        like a credential either. Refused, because masks would make two names one.
        """
        name = check_name(what, value, empty=empty)
        if redactor is None and self.hides:
            redactor = self.redactor
        if redactor is not None and name and redactor.text(name) != name:
            raise ValueError(
                f"{what} holds a secret or looks like a credential, and names are logged and kept; "
                "use derive_operation_id for ids, and names that may be seen"
            )
        return name

    def refuse_reentry(self, operation_id: str) -> None:
        """Raise where the tool of this very operation dispatches it again."""
        if operation_id in inside.get():
            raise ReentrantDispatch(
                f"operation {operation_id!r} was dispatched by its own tool; "
                "give the inner action an operation id of its own"
            )

    # --- what one dispatch asks for
    # -----------------------------------------------------------------

    def steps(
        self,
        name: str,
        arguments: Any,
        operation_id: str,
        *,
        principal: str | None = None,
        tenant: str | None = None,
        **options: Any,
    ) -> Steps:
        """The steps of one dispatch; see ToolRuntime.dispatch for the arguments."""
        seconds_of("wait", options.get("wait"))
        timeout = options.get("timeout")
        if timeout is not None and not callable(timeout):
            seconds_of("timeout", timeout)
        call = Call(
            name,
            arguments,
            operation_id,
            self.settings.principal if principal is None else principal,
            self.settings.tenant if tenant is None else tenant,
            **options,
        )
        return Dispatch(self, call).steps()

    def approval_digest(self, request: OperationRequest) -> str:
        """What an approval of this request is bound to, under the policy of now."""
        return self.settings.approvals.request_digest(request)

    def new_approval(self, request: OperationRequest, request_digest: str) -> NewApproval:
        """A new request for approval."""
        return self.settings.approvals.new_approval(request, request_digest)

    def claim(
        self,
        request: OperationRequest,
        approval_digest: str | None = None,
        retry_attempt: int | None = None,
    ) -> Claim:
        """The claim for the next attempt."""
        return Claim(
            request,
            self.attempts.owner,
            self.settings.lease_seconds,
            approval_digest,
            retry_attempt,
            durable=request.effect != "read",
        )

    def not_recorded(self, row: Operation, outcome: Outcome) -> Outcome:
        """The answer while an outcome waits for the ledger: nobody else can see it yet."""
        self.observer.emit(
            "operation.not_recorded", operation_id=row.operation_id, status=outcome.status.value
        )
        return open_outcome(row.operation_id, "not_recorded", outcome.error)
