"""Secrets stay inside: texts, values, exceptions, log records (cases R1 to R4)."""

from __future__ import annotations

import base64
import copy
import io
import json
import logging
import time
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import hypothesis.strategies as st
import pytest
from gnomon.agent import RedactingFilter, Redactor
from gnomon.agent.redact import MASK, RedactedError
from gnomon.agent.redact_logging import structlog_processor
from hypothesis import given

CANARY = "cAnArY/5f1+d0 é~7"
FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "inside": lambda s: f"503 for <{s}>!",
    "json": json.dumps,
    "json unicode": lambda s: json.dumps({"k": [s]}, ensure_ascii=False),
    "json in json": lambda s: json.dumps({"k": json.dumps(s)}),
    "repr": repr,
    "url": quote,
    "url strict": lambda s: quote(s, safe=""),
    "form": quote_plus,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 url": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64 inside 0": lambda s: base64.b64encode(b"abc" + s.encode() + b"tail").decode(),
    "base64 inside 1": lambda s: base64.b64encode(b"user:" + s.encode() + b"x").decode(),
    "base64 inside 2": lambda s: base64.urlsafe_b64encode(b"user" + s.encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
}


PIECES = [
    *("password=", "token: ", '"', "'", "\\", " ", ", ", "&", "?key=", "=", ":", "Bearer ", "sk-"),
    *("Authorization: ", "Basic ", "://u:p@h/", "abc123DEF456", "[", "]", "{", "}", "\n", CANARY),
    *("Cookie: ", "eyJabcdefgh.eyJabc.x", "-----BEGIN PRIVATE KEY-----", "%3D", MASK),
]


def traces(secret: str) -> list[str]:
    """What must not be found in anything that leaves: the secret as such and its usual forms."""
    data = secret.encode()
    return [secret, quote(secret, safe=""), base64.b64encode(data).decode()[:-4], data.hex()]


def holds(text: Any, secret: str = CANARY) -> bool:
    return any(trace in str(text) for trace in traces(secret))


# --- declared values and fields -------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_r1_a_declared_value_is_found_in_every_form(form: str) -> None:
    redactor = Redactor(values=[CANARY], patterns=False)
    text = FORMS[form](CANARY)
    assert MASK in redactor.text(f"before {text} after")
    assert not holds(redactor.text(text))
    assert redactor.text("nothing of it here") == "nothing of it here"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=20),
    st.sampled_from(sorted(FORMS)),
    st.text("ab =/+", max_size=5),
)
def test_r1_any_declared_value_in_any_form(secret: str, form: str, around: str) -> None:
    redactor = Redactor(values=[secret], patterns=False)
    text = redactor.text(around + FORMS[form](secret) + around)
    assert MASK in text
    without_mask = text.replace(MASK, "\0")
    assert not any(trace in without_mask for trace in traces(secret) if len(trace) > 5)


def test_fields_by_pointer_and_by_name() -> None:
    redactor = Redactor(["/card/number", "/users/*/pin", "/list/1", "Nick-Name", "/a~1b/~0"])
    value = {
        "card": {"number": "4111", "type": "v"},
        "users": [{"pin": 1, "id": 2}, {"pin": [3, 4]}],
        "number": "7",
        "list": ["a", "b", "c"],
        "deep": [{"NICKNAME": "x", "nick_name": {"y": 1}}],
        "a/b": {"~": 1, "z": 2},
    }
    before = copy.deepcopy(value)
    assert redactor.value(value) == {
        "card": {"number": MASK, "type": "v"},
        "users": [{"pin": MASK, "id": 2}, {"pin": MASK}],
        "number": "7",
        "list": ["a", MASK, "c"],
        "deep": [{"NICKNAME": MASK, "nick_name": MASK}],
        "a/b": {"~": MASK, "z": 2},
    }
    assert value == before


def test_what_stands_in_a_secret_field_is_known_everywhere_else() -> None:
    redactor = Redactor(["/headers/X-Session", "parts"])
    arguments = {
        "headers": {"X-Session": CANARY},
        "parts": [CANARY[:8], CANARY[8:]],
        "note": f"uses {CANARY}",
    }
    known = redactor.for_call(arguments)
    assert set(redactor.secrets_in(arguments)) == {CANARY, CANARY[:8], CANARY[8:]}
    assert not holds(known.value(arguments))
    for form in FORMS.values():
        assert not holds(known.text(form(CANARY)))
    # As a key, as a number, in bytes.
    assert known.value({CANARY: 1, "raw": CANARY.encode()}) == {MASK: 1, "raw": MASK}
    assert not holds(repr(known))
    assert redactor.text(CANARY) == CANARY


def test_short_values_are_masked_in_their_place_only() -> None:
    known = Redactor(["pin"]).for_call({"pin": 12})
    assert known.value({"pin": 12, "n": 12, "text": "12 of 1212"}) == {
        "pin": MASK,
        "n": MASK,
        "text": "12 of 1212",
    }
    assert known.text("12") == MASK


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    redactor = Redactor(values=[CANARY])
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert not holds(once)


# --- what shows that it is a secret ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer sk-a1b2c3d4e5", "Authorization: Bearer [redacted]"),
        ("{'Authorization': 'Basic dXNlcjpwdw=='}", "{'Authorization': 'Basic [redacted]'}"),
        ("got bearer abcdef123456 back", "got bearer [redacted] back"),
        ("key sk-proj-abcd1234EFGH used", "key [redacted] used"),
        ("sk_live_a1b2c3d4e5", "[redacted]"),
        ("ghp_0123456789abcdefABCD", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("xoxb-123456789012-abc", "[redacted]"),
        ("a eyJhbGciOi.eyJzdWIi.c2ln b", "a [redacted] b"),
        ("503 for https://x.y/z?key=abc&page=2", "503 for https://x.y/z?key=[redacted]&page=2"),
        ("https://x/?a=1&X-Amz-Signature=ab12#f", "https://x/?a=1&X-Amz-Signature=[redacted]#f"),
        ("postgres://me:pw@host/db", "postgres://[redacted]@host/db"),
        ("api_key=abc, n=1", "api_key=[redacted], n=1"),
        ("X-Api-Key: abc", "X-Api-Key: [redacted]"),
        ('{"password": "a \\" b", "n": 1}', '{"password": "[redacted]", "n": 1}'),
        ("{'client_secret': 'a b'}", "{'client_secret': '[redacted]'}"),
        ('{"x": "{\\"token\\": \\"a b\\"}"}', '{"x": "{\\"token\\": \\"[redacted]\\"}"}'),
        ("access_token%3Dabc123", "access_token%3D[redacted]"),
        ("Cookie: a=b; c=d\nHost: x", "Cookie: [redacted]\nHost: x"),
        (
            'Authorization: Digest username="u", response="ab12"\nA: b',
            "Authorization: [redacted]\nA: b",
        ),
        ("password=" + "x" * 20_000 + " end", "password=[redacted] end"),
        ("sk-" + "a1" * 5_000, "[redacted]"),
        ("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMII", "[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", "[redacted]"),
    ],
)
def test_r1_credentials_that_show_what_they_are(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean
    assert Redactor(patterns=False).text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100, tokens: 5",
        "token budget exceeded",
        "the basic idea is this",
        "ask-me-anything-please",
        "key: value, keyboard=qwerty",
        "https://x.y/z?monkey=1&page=2",
        "C:\\path:7 and a@b.c",
        "risk-assessment",
        "basic authentication failed for this bearer",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "name",
    ["password", "Api-Key", "API_KEY", "accessToken", "Authorization", "clientSecret", "db.pwd"],
)
def test_telling_names(name: str) -> None:
    assert Redactor().value({name: {"a": 1}, "n": [{name: 5}]}) == {name: MASK, "n": [{name: MASK}]}


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "-" * 300_000,
        "password" * 100_000,
        'token":"' * 100_000,
        "eyJa" * 200_000,
        "Bearer " * 100_000,
        "://a" * 200_000,
        "-----BEGIN PRIVATE KEY-----" * 20_000,
        "?key=" * 150_000,
        "sk-" * 200_000,
        "eyJaaaaaaa-" * 90_000,
        "eyJaaaaaaa." * 90_000,
        "-----BEGIN PRIVATE KEY-----x" * 20_000,
        'password="' + "\\a" * 400_000,
        "authorization: " * 60_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    start = time.monotonic()
    Redactor(values=[CANARY]).text(text)
    assert time.monotonic() - start < 8.0


def test_values_of_any_kind_and_depth() -> None:
    class Odd:
        def __str__(self) -> str:
            return f"odd token={CANARY}"

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError(CANARY)

    itself: list[Any] = []
    itself.append(itself)
    redactor = Redactor(values=[CANARY])
    found = redactor.value({"odd": Odd(), "broken": Broken(), "self": itself, "set": {CANARY}})
    assert not holds(found)
    assert found["broken"] == "<Broken>"
    assert found["set"] == [MASK]
    wide: Any = CANARY
    for _ in range(12):
        wide = [wide] * 10
    assert not holds(json.dumps(redactor.value(wide)))


def test_fields_are_checked() -> None:
    for fields in ([""], [5]):
        with pytest.raises(ValueError, match="fields must be"):
            Redactor(fields)  # type: ignore[arg-type]


# --- R2: exceptions -------------------------------------------------------------------------------


def acted(secret: str, password: str) -> None:
    headers = {"Authorization": f"Bearer {secret}"}
    try:
        raise ConnectionError(f"503 for https://x/?key={secret}", headers)
    except ConnectionError as error:
        error.request = {"auth": [secret]}  # type: ignore[attr-defined]
        raise TimeoutError(f"no answer, sent {headers}") from error


def caught() -> BaseException:
    try:
        acted(CANARY, CANARY)
    except TimeoutError as error:
        return error
    raise AssertionError


def everything_of(error: BaseException) -> str:
    """What loggers may print of an exception: texts, attributes, causes, and frames' locals."""
    parts = ["".join(traceback.format_exception(error))]
    seen: list[BaseException | None] = [error, error.__cause__, error.__context__]
    for item in filter(None, seen):
        parts += [repr(item), str(vars(item)), str(item.args)]
        frame_locals = [
            frame.f_locals
            for frame, _ in traceback.walk_tb(item.__traceback__)
            if frame.f_code is acted.__code__
        ]
        parts.append(repr(frame_locals))
    return "\n".join(parts)


def test_r2_an_exception_is_scrubbed_with_its_cause_attributes_and_locals() -> None:
    assert holds(everything_of(caught()))
    error = caught()
    known = Redactor().for_call({"password": CANARY})
    assert known.scrub(error) is error
    assert isinstance(error, TimeoutError)
    assert isinstance(error.__cause__, ConnectionError)
    assert not holds(everything_of(error))
    assert "no answer" in str(error)
    assert "503 for https://x/" in str(error.__cause__)


def test_r2_texts_of_exceptions() -> None:
    known = Redactor(values=[CANARY])
    text = known.exception_text(caught())
    assert text.startswith("TimeoutError: no answer")
    assert "caused by ConnectionError: " in text
    assert not holds(text)
    assert not holds(known.traceback_text(caught()))
    assert "in acted" in known.traceback_text(caught())


class StubbornError(Exception):
    def __str__(self) -> str:
        return f"kept {CANARY}"


def test_r2_an_exception_that_cannot_be_changed_is_replaced() -> None:
    known = Redactor(values=[CANARY])
    replaced = known.scrub(StubbornError(1))
    assert isinstance(replaced, RedactedError)
    assert str(replaced) == "StubbornError: kept [redacted]"
    outer = RuntimeError("outer")
    outer.__cause__ = StubbornError()
    assert not holds("".join(traceback.format_exception(known.scrub(outer))))


def test_r2_exceptions_of_the_system() -> None:
    known = Redactor(values=[CANARY])
    missing = FileNotFoundError(2, "No such file", f"/srv/{CANARY}")
    assert known.scrub(missing) is missing
    assert not holds(str(missing))
    assert missing.errno == 2
    assert not holds(known.scrub(KeyError(CANARY)))
    assert not holds(known.scrub(ValueError({"k": [CANARY]}, CANARY.encode())))
    noted = ValueError("plain")
    noted.__dict__["__notes__"] = [f"while sending {CANARY}"]
    known.scrub(noted)
    assert not holds(vars(noted))
    plain = ValueError("plain", 5, ("a",))
    argument = plain.args[2]
    assert known.scrub(plain).args[2] is argument


def test_r2_a_cycle_of_causes_ends() -> None:
    first, second = ValueError(CANARY), ValueError(CANARY)
    first.__cause__, second.__cause__ = second, first
    assert not holds(Redactor(values=[CANARY]).exception_text(first))


# --- R3: logs -------------------------------------------------------------------------------------


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s | %(ctx)s | %(password)s"))
    handler.addFilter(RedactingFilter(Redactor(values=[CANARY])))
    logger = logging.Logger("gnomon.test.redact")
    logger.addHandler(handler)
    return logger, stream


def test_r3_a_log_record_in_all_its_parts(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    extra = {"ctx": {"k": [CANARY], CANARY: 1}, "password": "pw"}
    try:
        acted(CANARY, CANARY)
    except TimeoutError:
        logger.exception("sent %s to %r", CANARY, {"x": CANARY}, extra=extra, stack_info=True)
    logger.warning("no %s for %d", CANARY, extra=extra)
    logger.warning("plain", extra={"ctx": 1, "password": None})
    text = stream.getvalue()
    assert not holds(text)
    assert "sent [redacted] to {'x': '[redacted]'}" in text
    assert "TimeoutError: no answer" in text
    assert "| [redacted]" in text
    assert "plain | 1 | [redacted]" in text


def test_r3_a_record_shared_by_two_handlers_stays_readable() -> None:
    record = logging.makeLogRecord({"msg": "a %s", "args": (CANARY,), "levelno": 20})
    redacting = RedactingFilter(Redactor(values=[CANARY]))
    assert redacting.filter(record) is True
    assert redacting.filter(record) is True
    assert record.getMessage() == "a [redacted]"


def test_r3_a_structlog_event() -> None:
    process = structlog_processor(Redactor(values=[CANARY]))
    event = {"event": f"sent {CANARY}", "headers": {"Authorization": "x"}, "exc_info": caught()}
    found = process(None, "error", event)
    assert not holds(found)
    assert found["headers"] == {"Authorization": MASK}
    assert "in acted" in found["exception"]
    assert "exc_info" not in found
    error = caught()
    triple = process(None, "error", {"exc_info": (type(error), error, error.__traceback__)})
    assert not holds(triple)


# --- R4: spans ------------------------------------------------------------------------------------


def test_r4_a_scrubbed_exception_is_clean_in_a_span() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    processors = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter = export.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(processors.SimpleSpanProcessor(exporter))
    known = Redactor(values=[CANARY])
    with pytest.raises(TimeoutError), provider.get_tracer("t").start_as_current_span("call"):
        raise known.scrub(caught())
    (span,) = exporter.get_finished_spans()
    assert span.events[0].name == "exception"
    assert not holds(span.to_json())
