"""Evidence items: what a retrieval tool says of each passage that it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .problems import Problem, ValidationError
from .schema import compile_schema

EVIDENCE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "source_id": {"type": "string", "minLength": 1, "maxLength": 1_000},
        "revision": {"type": "string", "minLength": 1, "maxLength": 1_000},
        "title": {"type": "string", "maxLength": 1_000},
        "excerpt": {"type": "string", "maxLength": 20_000},
        "retrieved_at": {"type": "string", "format": "date-time"},
        "acl_scope": {"type": "string", "minLength": 1, "maxLength": 1_000},
        "validated": {"type": "boolean"},
    },
    "required": ["source_id", "revision", "title", "excerpt", "retrieved_at", "acl_scope"],
}
_evidence = compile_schema(EVIDENCE_SCHEMA)


@dataclass(frozen=True)
class Evidence:
    """One piece of evidence.

    `source_id` and `revision` name an unchanging text, `acl_scope` who may read it, `retrieved_at`
    when it was read (RFC 3339), and `validated` whether somebody checked it.
    """

    source_id: str
    revision: str
    title: str
    excerpt: str
    retrieved_at: str
    acl_scope: str
    validated: bool = False

    def __post_init__(self) -> None:
        _evidence.validate(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The item as a JSON object."""
        return dict(self.__dict__)

    @classmethod
    def from_dict(cls, item: Any) -> Evidence:
        """Read an item; ValidationError says what is wrong with it."""
        if not isinstance(item, dict):
            problem = Problem("", "type", "must be an object", "send a JSON object")
            raise ValidationError(str(problem), [problem])
        return cls(**_evidence.validate(item).value)
