"""Errors that carry a secret where texts and arguments do not show it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from gnomon.agent import RedactedError, Redactor

SECRET = "errand-canary-5521"


class Response:
    """What a client library hangs on its errors."""

    def __repr__(self) -> str:
        return f"Response(headers={{'x': '{SECRET}'}})"


class ReprError(Exception):
    """Its text is clean, and what a log prints with %r is not."""

    def __init__(self) -> None:
        super().__init__("fine")
        self.kept = [SECRET]

    def __repr__(self) -> str:
        return f"ReprError({SECRET})"


class SlotError(Exception):
    __slots__ = ("sent",)

    def __init__(self, sent: str) -> None:
        self.sent = sent

    def __str__(self) -> str:
        return f"could not send {self.sent}"


def carried() -> BaseException:
    error = RuntimeError("status 503")
    error.response, error.request = Response(), {"auth": SECRET}  # type: ignore[attr-defined]
    return error


def long_chain() -> BaseException:
    error: BaseException = ValueError(SECRET)
    for number in range(250):
        outer = RuntimeError(number)
        outer.__cause__ = error
        error = outer
    return error


def error_as_argument() -> BaseException:
    return RuntimeError("retries are over", ValueError(f"refused {SECRET}"))


ERRORS: list[Callable[[], BaseException]] = [
    carried,
    long_chain,
    error_as_argument,
    lambda: ValueError(Response()),
    lambda: SlotError(SECRET),
    lambda: SystemExit(f"no login for {SECRET}"),
    lambda: ImportError("no module", name=SECRET, path=f"/{SECRET}"),
    lambda: SyntaxError("bad line", ("file", 1, 1, f"login({SECRET!r})")),
    lambda: UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, f"near {SECRET}"),
]


def everything_of(error: BaseException) -> str:
    parts, todo = ["".join(traceback.format_exception(error))], [error]
    seen: set[int] = set()
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        parts += [str(item), repr(item), repr(item.args), repr(vars(item))]
        for name in ("code", "name", "path", "text", "object", "reason", "sent"):
            parts.append(repr(getattr(item, name, None)))
        inner = [item.__cause__, item.__context__, *item.args]
        todo += [one for one in inner if isinstance(one, BaseException)]
    return "\n".join(parts)


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_r2_a_secret_anywhere_in_an_error_is_taken_out(number: int) -> None:
    error = ERRORS[number]()
    assert SECRET in everything_of(error)
    assert Redactor(values=[SECRET]).scrub(error) is error
    assert SECRET not in everything_of(error)


def test_r2_an_error_whose_repr_keeps_a_secret_is_replaced() -> None:
    replaced = Redactor(values=[SECRET]).scrub(ReprError())
    assert isinstance(replaced, RedactedError)
    assert str(replaced) == "ReprError: fine"
    assert SECRET not in everything_of(replaced)


def test_r2_what_holds_no_secret_keeps_its_identity() -> None:
    class Plain:
        pass

    thing: Any = Plain()
    error = ValueError(thing, {"a": 1}, 5)
    error.thing = thing  # type: ignore[attr-defined]
    arguments = error.args
    assert Redactor(values=[SECRET]).scrub(error) is error
    assert error.args is arguments
    assert error.thing is thing  # type: ignore[attr-defined]
