"""JSON values: strict text, plain copies, one canonical form (cases J1 to J3, V3, V4)."""

from __future__ import annotations

import json
import math
import struct
import threading
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import hypothesis.strategies as st
import pytest
import rfc8785
from gnomon.agent.canonical_text import canonical_text, number_text
from gnomon.agent.jsoncopy import plain_copy
from gnomon.agent.jsonvalue import (
    DEFAULT_BOUNDS,
    EXACT_BOUNDS,
    INTEGER_MAX,
    Bounds,
    canonicalize,
    digest,
    loads_canonical,
    loads_strict,
)
from gnomon.agent.problems import ValidationError
from hypothesis import example, given

text_of_any_plane = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.one_of(
    st.integers(-INTEGER_MAX, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e-3, 1e-3),
    st.integers(-100, 100).map(float),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, text_of_any_plane),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(text_of_any_plane, inner, max_size=4)
    ),
    max_leaves=12,
)


def rule_of(value: Any, bounds: Bounds = DEFAULT_BOUNDS) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        canonicalize(value, bounds)
    (problem,) = caught.value.problems
    return problem.path, problem.rule


def text_rule(text: Any, bounds: Bounds = DEFAULT_BOUNDS) -> str:
    with pytest.raises(ValidationError) as caught:
        loads_strict(text, bounds)
    (problem,) = caught.value.problems
    return problem.rule


# --- canonical text -------------------------------------------------------------------------------


@given(json_values)
@example({"\U0001f600": 1, "דּ": 2, "€": 3, "\r": 4, "1": 5})
@example([1e20, 1e21, -0.0, 5e-324, 1.7976931348623157e308, 1e-7, 1e-6, 4.5, 2e-3, 1e16, 1e15])
def test_canonical_text_is_that_of_rfc8785(value: Any) -> None:
    canonical = canonicalize(value)
    assert canonical.data == rfc8785.dumps(value)
    assert canonical_text(canonical.value).encode() == canonical.data
    assert canonical.digest == digest(canonical.data)


@given(json_values)
def test_the_value_is_what_the_text_reads_back_as(value: Any) -> None:
    copy, data = canonicalize(value)
    back = loads_canonical(data)
    assert back == copy
    assert repr(canonicalize(back).value) == repr(loads_canonical(canonicalize(back).data))
    assert canonicalize(copy) == (copy, data)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_printed_as_ecmascript_does(number: float) -> None:
    assert number_text(number).encode() == rfc8785.dumps(number)
    assert float(number_text(number)) == number


# RFC 8785, appendix B.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF4F, "999999999999999900000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555557, "333333333.33333343"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
        (0x43143FF3C1CB0959, "1424953923781206.2"),
    ],
)
def test_rfc8785_appendix_b(bits: int, text: str) -> None:
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert canonicalize(number).data == text.encode()


def test_an_integral_float_and_its_integer_are_one_value() -> None:
    assert canonicalize({"n": 5.0}) == canonicalize({"n": 5})
    assert type(canonicalize(5.0).value) is int
    assert type(canonicalize(1e20).value) is float
    assert canonicalize(-0.0) == (0, b"0")


def test_exact_integers_keep_every_digit_and_collide_with_no_float() -> None:
    data = {canonicalize(n, EXACT_BOUNDS).data for n in (2**53, 2**53 + 1, 2**60 + 24, 10**22)}
    assert data == {
        b"9007199254740992",
        b"9007199254740993",
        str(2**60 + 24).encode(),
        b"1" + b"0" * 22,
    }
    assert canonicalize(2.0**60, EXACT_BOUNDS).data == str(2**60).encode()
    for number in (1e21, 1e22, -1e22, 1.5e300):
        same = {canonicalize(n, EXACT_BOUNDS).digest for n in (number, int(number), [number][0])}
        assert len(same) == 1
        assert canonicalize([number], EXACT_BOUNDS).value == [int(number)]
    assert canonicalize(1e22).data == b"1e+22"  # where 10**22 is refused, as RFC 8785 says
    assert rule_of(10**22) == ("", "integer-range")
    assert rule_of(1 << 5_000, EXACT_BOUNDS) == ("", "integer-range")


# --- V3, V4: numbers outside the domain -----------------------------------------------------------


@pytest.mark.parametrize(
    "number", [2**53, 2**53 + 1, -(2**53), 2**63, 2**64, 10**400, 12345678901234567890]
)
def test_v3_huge_integers_are_refused_by_path(number: int) -> None:
    assert rule_of({"a": [1, number]}) == ("/a/1", "integer-range")
    with pytest.raises(ValidationError, match="send it as a string"):
        canonicalize({"id": number})
    if number.bit_length() < 10_000:
        assert text_rule(json.dumps({"id": number})) == "integer-range"


def test_v3_the_last_safe_integers_pass() -> None:
    value = [INTEGER_MAX, -INTEGER_MAX]
    assert canonicalize(value).value == value
    assert loads_strict(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["9" * 5_000, "-" + "9" * 5_000, '{"a": ' + "9" * 5_000 + "}"])
def test_v3_five_thousand_digits_in_text(text: str) -> None:
    assert text_rule(text) == "integer-range"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_v4_nan_and_infinity_are_no_json(number: float) -> None:
    assert rule_of({"x": {"y": number}}) == ("/x/y", "not-finite")
    assert text_rule(json.dumps([number])) == "not-finite"


@pytest.mark.parametrize("text", ["1e999", "[-1E400]", '{"a": 1e99999}'])
def test_v4_overflow_is_not_infinity(text: str) -> None:
    assert text_rule(text) == "not-finite"


# --- J1 to J3: text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"amount": 5, "amount": 500}',
        '{"a": [{"b": {"k": 1, "j": 2, "k": 3}}]}',
        '{"\\u0061": 1, "a": 2}',
    ],
)
def test_j1_a_key_that_occurs_twice(text: str) -> None:
    assert text_rule(text) == "duplicate-key"


def test_j1_the_same_key_in_two_objects_is_no_duplicate() -> None:
    assert loads_strict('[{"a": 1}, {"a": {"a": 2}}]') == [{"a": 1}, {"a": {"a": 2}}]


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[" * 65 + "]" * 65, '{"a":' * 100_000, '["\\"[[[", ' + "[" * 64 + "]" * 65],
)
def test_j2_depth_in_text_is_bounded(text: str) -> None:
    assert text_rule(text) == "depth"


def test_j2_depth_in_values_is_bounded() -> None:
    deep: Any = 1
    for _ in range(65):
        deep = [deep]
    assert rule_of(deep) == ("/0" * 64, "depth")
    assert canonicalize(deep[0]).value == deep[0]
    for _ in range(100_000):
        deep = {"a": deep}
    assert rule_of(deep)[1] == "depth"
    itself: list[Any] = []
    itself.append(itself)
    assert rule_of(itself)[1] == "depth"
    while deep != 1:  # take it apart: CPython frees it by recursion
        deep = next(iter(deep.values() if isinstance(deep, dict) else deep))


def test_j2_the_permitted_depth_fits_a_small_thread() -> None:
    deep: Any = 1
    for _ in range(256):
        deep = [deep]
    bounds = Bounds(max_depth=256)
    found: list[Any] = []
    old = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(canonicalize(deep, bounds).data))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert found == [b"[" * 256 + b"1" + b"]" * 256]
    with pytest.raises(ValueError, match="max_depth must be at most 256"):
        Bounds(max_depth=257)


def test_j2_brackets_inside_strings_do_not_count() -> None:
    assert loads_strict('["' + "[" * 1_000 + '\\"{{"]') == ["[" * 1_000 + '"{{']


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("01", "json-text"),
        ("1 2", "json-text"),
        ("[1,]", "json-text"),
        ('{"a":1,}', "json-text"),
        ("", "json-text"),
        ("'a'", "json-text"),
        ("[1", "json-text"),
        ('"\x01"', "json-text"),
        ('"' + '\\"' * 100, "json-text"),
        ("+1", "json-text"),
        (".5", "json-text"),
        ("\ufeff1", "encoding"),
        (b"\xef\xbb\xbf1", "encoding"),
        ("[1]".encode("utf-16"), "encoding"),
        (b'"\xff"', "encoding"),
        (b'"\xed\xa0\x80"', "encoding"),
        ('"\ud800"', "surrogate"),
        ('["\\ud800"]', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
    ],
)
def test_j3_broken_text(text: Any, rule: str) -> None:
    assert text_rule(text) == rule


def test_j3_text_that_is_fine() -> None:
    assert loads_strict("-0") == 0
    assert loads_strict(' {"a": [1e2, -1.5E-3, "\\ud83d\\ude00", null]} ') == {
        "a": [100.0, -0.0015, "😀", None]
    }
    assert loads_strict(bytearray(b"true")) is True
    with pytest.raises(TypeError, match="text must be str or bytes"):
        loads_strict(5)  # type: ignore[arg-type]


def test_j3_size_is_bounded_in_bytes() -> None:
    small = Bounds(max_bytes=10)
    assert text_rule('"' + "é" * 5 + '"', small) == "size"
    assert loads_strict('"' + "é" * 4 + '"', small) == "é" * 4
    assert rule_of("x" * 20, small) == ("", "size")
    assert rule_of(list(range(20)), Bounds(max_items=10)) == ("", "items")


def test_j3_an_unterminated_string_of_quotes_is_read_once() -> None:
    """A reader that starts again at every quote needs minutes for this."""
    text = "[" * 65 + '"' + '\\"' * 400_000
    assert text_rule(text) in {"depth", "json-text"}


@given(st.one_of(st.text(), st.binary(), json_values.map(lambda v: json.dumps(v))))
def test_loads_strict_answers_or_refuses(text: Any) -> None:
    try:
        value = loads_strict(text)
    except ValidationError:
        return
    assert value == json.loads(text)
    canonicalize(value)


# --- plain copies ---------------------------------------------------------------------------------


class Colour(str, Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(str):
    def __str__(self) -> str:
        return "lie"


class Liar(dict):
    """Shows one content by its methods and has another."""

    def items(self) -> Any:
        return [("admin", True)]

    def __iter__(self) -> Iterator[str]:
        return iter(["admin"])

    def keys(self) -> Any:
        return ["admin"]


class Half(float):
    def __repr__(self) -> str:
        return "1e9"


def types_of(value: Any) -> Any:
    if isinstance(value, dict):
        return dict, [(type(k), types_of(v)) for k, v in value.items()]
    if isinstance(value, list):
        return list, [types_of(item) for item in value]
    return type(value)


def test_subclasses_become_plain_by_their_real_content() -> None:
    pair = namedtuple("pair", "x y")
    value = OrderedDict(
        {
            Word("key"): Word("word"),
            "enum": [Colour.RED, Level.HIGH],
            "liar": Liar(n=1),
            "tuple": (1, pair(2, 3)),
            "half": Half(0.5),
        }
    )
    copy = canonicalize(value).value
    assert copy == {
        "key": "word",
        "enum": ["red", 3],
        "liar": {"n": 1},
        "tuple": [1, [2, 3]],
        "half": 0.5,
    }
    assert types_of(copy) == types_of(json.loads(json.dumps(copy)))


def test_a_copy_shares_nothing_with_the_caller() -> None:
    inner: list[Any] = [1]
    value = {"a": inner, "b": inner}
    copy = canonicalize(value).value
    inner.append(2)
    assert copy == {"a": [1], "b": [1]}
    assert copy["a"] is not copy["b"]


@pytest.mark.parametrize(
    ("value", "path", "rule"),
    [
        ({1: 2}, "", "key-type"),
        ({"a": [{None: 1}]}, "/a/0", "key-type"),
        ({True: 1}, "", "key-type"),
        ({"a": b"x"}, "/a", "value-type"),
        ({"a": {1}}, "/a", "value-type"),
        ([Decimal(1)], "/0", "value-type"),
        ([object()], "/0", "value-type"),
        ([UserDict()], "/0", "value-type"),
        ({"~/": {"k": "\ud800"}}, "/~0~1/k", "surrogate"),
        ({"k": {"\udc00": 1}}, "/k", "surrogate"),
    ],
)
def test_what_is_no_json_value(value: Any, path: str, rule: str) -> None:
    assert rule_of(value) == (path, rule)


def test_nul_and_control_characters_stay() -> None:
    assert canonicalize("a\0\x1f\x7f").data == b'"a\\u0000\\u001f\x7f"'


def test_a_shared_part_counts_each_time() -> None:
    """Ten levels of ten references to the level below are 10^10 values in a few hundred bytes."""
    value: Any = 1
    for _ in range(10):
        value = [value] * 10
    assert rule_of(value)[1] == "items"


def test_errors_show_no_value() -> None:
    secret = "hunter2"
    for value in ([secret, math.nan], {"a": {secret: object()}["hunter2"]}, [secret, 2**60]):
        with pytest.raises(ValidationError) as caught:
            canonicalize(value)
        assert secret not in str(caught.value)
        assert "object at" not in json.dumps(caught.value.to_dict())


def test_flags_of_a_copy() -> None:
    assert plain_copy([1.5, 2, "5.0"]).has_integral_float is False
    assert plain_copy([[5.0]]).has_integral_float is True


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_bytes", 0), ("max_depth", True), ("max_items", 1.5), ("max_integer", 2**53)],
)
def test_bounds_are_checked(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        Bounds(**{field: value})
