"""How far an answer's claims are cited, and how far the citations hold.

    completeness      = required claims with a citation / required claims     (1.0 for 0 / 0)
    support_precision = supported labels / (supported + unsupported labels)   (None for 0 / 0)
    decidable_rate    = (supported + unsupported labels) / all labels         (None for 0 / 0)

Labels are counted over the required claims alone. "unknown" lowers the decidable rate, so that it
cannot vanish from the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LABELS = ("supported", "unsupported", "unknown")


def citation_report(claims: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The three figures for claims ``{"requires_citation": bool, "citations": [label, ...]}``.

    >>> citation_report([{"requires_citation": True, "citations": ["supported", "unknown"]}])
    {'completeness': 1.0, 'support_precision': 1.0, 'decidable_rate': 0.5}
    """
    required = cited = 0
    count = dict.fromkeys(LABELS, 0)
    for claim in claims:
        if not claim["requires_citation"]:
            continue
        required += 1
        if not claim["citations"]:
            continue
        cited += 1
        for label in claim["citations"]:
            count[label] += 1
    decidable = count["supported"] + count["unsupported"]
    labels = decidable + count["unknown"]
    return {
        "completeness": cited / required if required else 1.0,
        "support_precision": count["supported"] / decidable if decidable else None,
        "decidable_rate": decidable / labels if labels else None,
    }
