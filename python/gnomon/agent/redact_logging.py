"""Redaction where records leave: a filter for logging, a processor for structlog."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Any

from .redact import Redactor

_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class RedactingFilter(logging.Filter):
    """A logging filter that takes secrets out of a record: message, arguments, extras, traceback.

    Add it to handlers, not to loggers: a logger's filter does not see its children's records.

    >>> handler = logging.StreamHandler()
    >>> handler.addFilter(RedactingFilter(Redactor()))
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place; never drops one."""
        try:
            message = record.getMessage()
        except Exception:
            message = f"{record.msg!r} {record.args!r}"
        record.msg, record.args = self.redactor.text(message), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = self.redactor.traceback_text(record.exc_info[1])
            record.exc_info = None
        elif record.exc_text:
            record.exc_text = self.redactor.text(record.exc_text)
        if record.stack_info:
            record.stack_info = self.redactor.text(record.stack_info)
        for name, value in list(vars(record).items()):
            if name not in _RECORD_FIELDS:
                secret = self.redactor.is_secret(name)
                record.__dict__[name] = self.redactor.mask if secret else self.redactor.value(value)
        return True


def structlog_processor(
    redactor: Redactor,
) -> Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    """A structlog processor: put it behind the one that formats exceptions, before the renderer.

    Never format exceptions with their local variables (structlog's dict_tracebacks shows them).
    """

    def process(
        logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        error = event.get("exc_info")
        if isinstance(error, tuple):
            error = error[1]
        if isinstance(error, BaseException):
            event = {**event, "exception": redactor.traceback_text(error)}
            del event["exc_info"]
        redacted: dict[str, Any] = redactor.value(event)
        return redacted

    return process
