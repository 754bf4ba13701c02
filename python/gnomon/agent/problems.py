"""What is wrong, as data: a model or an operator can act on it without parsing a sentence.

A problem never repeats the offending value. Arguments may hold secrets, and problems go to logs and
back to a model; they name the place, the rule, and what to send instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PROBLEMS_MAX = 20
TEXT_MAX = 2_000


@dataclass(frozen=True)
class Problem:
    """One broken rule.

    `path` is a JSON Pointer (RFC 6901) into the value, "" for the whole value; `rule` a stable word
    (a JSON Schema keyword, or one of this package: "integer-range", "not-finite", "surrogate",
    "depth", "size", "items", "key-type", "value-type", "duplicate-key", "json-text", ...);
    `message` says what is wrong and `remedy` what to do next.

    >>> Problem("/top_k", "maximum", "is more than 8", "send 8 or less").to_dict()["rule"]
    'maximum'
    """

    path: str
    rule: str
    message: str
    remedy: str

    def to_dict(self) -> dict[str, str]:
        """The four fields as a JSON object."""
        return {
            "path": self.path,
            "rule": self.rule,
            "message": self.message,
            "remedy": self.remedy,
        }

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.message}; {self.remedy}"


class _ProblemError(ValueError):
    """A ValueError that carries its problems as data."""

    def __init__(self, message: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(shortened(message))
        self.problems: tuple[Problem, ...] = tuple(problems)

    def to_dict(self) -> dict[str, object]:
        """What a model is told: the kind of error and its problems, no value of the caller."""
        return {
            "error": type(self).__name__,
            "message": str(self),
            "problems": [problem.to_dict() for problem in self.problems],
        }


class ValidationError(_ProblemError):
    """A value breaks its contract; `problems` says where and how (at most 20)."""


class SchemaError(_ProblemError):
    """A contract itself is unusable: it is refused when the tool is registered."""


def shortened(text: str, limit: int = TEXT_MAX) -> str:
    """`text`, or its beginning and how much was left out: a hostile key must not fill a log."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit} characters left out)"


def pointer(tokens: Iterable[str | int]) -> str:
    """The JSON Pointer of a path of keys and positions.

    >>> pointer(["a/b", 0, "~"])
    '/a~1b/0/~0'
    """
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
