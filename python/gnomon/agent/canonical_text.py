"""The RFC 8785 text of plain JSON values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

#: The same text for values without a number or a key that json prints or sorts another way.
fast_text = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    sort_keys=True,
    separators=(",", ":"),
).encode
_quote = json.encoder.encode_basestring


def canonical_text(value: Any) -> str:
    """The RFC 8785 text of a plain value, for the values json.dumps would print another way."""
    if type(value) is str:
        return _quote(value)
    if type(value) is float:
        return number_text(value)
    if type(value) is dict:
        # RFC 8785 3.2.3: keys in the order of their UTF-16 code units.
        items = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
        return "{" + ",".join(f"{_quote(k)}:{canonical_text(v)}" for k, v in items) + "}"
    if type(value) is list:
        return "[" + ",".join(map(canonical_text, value)) + "]"
    return fast_text(value)


def number_text(value: float) -> str:
    """A finite float as ECMAScript prints it (Number::toString, the rule of RFC 8785).

    >>> number_text(1e21), number_text(1e20), number_text(1e-7), number_text(0.000001)
    ('1e+21', '100000000000000000000', '1e-7', '0.000001')
    """
    sign, parts, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, parts)).rstrip("0")
    if not digits:
        return "0"
    point = len(parts) + int(exponent)
    if 0 < point <= 21:
        whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
        text = f"{whole}.{fraction}" if fraction else whole
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        text = f"{mantissa}e{point - 1:+d}"
    return "-" + text if sign else text
