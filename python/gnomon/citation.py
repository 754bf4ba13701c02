"""How far an answer's claims are cited, and how far the citations hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

LABELS = ("supported", "unsupported", "unknown")


class CitationReport(TypedDict):
    """The figures of ``citation_report``; None where nothing was there to divide by."""

    completeness: float
    support_precision: float | None
    decidable_rate: float | None


def citation_report(claims: Iterable[Mapping[str, Any]]) -> CitationReport:
    """Completeness, support precision and decidable rate of the claims that require a citation.

        completeness      = required claims with a citation / required claims     (1.0 for 0 / 0)
        support_precision = supported labels / (supported + unsupported labels)   (None for 0 / 0)
        decidable_rate    = (supported + unsupported labels) / all labels         (None for 0 / 0)

    A claim is a mapping with "requires_citation" (truth value) and "citations": one label per
    citation, "supported", "unsupported" or "unknown"; None stands for no citation. A claim that
    requires none may lack "citations", and its labels do not count. Unknown labels lower the
    decidable rate, so they cannot vanish from the report.

    Raises KeyError for a missing key, ValueError for another label and TypeError for citations that
    are not a sequence of labels; each names the claim.

    >>> citation_report([
    ...     {"requires_citation": True, "citations": ["supported", "unknown"]},
    ...     {"requires_citation": True, "citations": []},
    ... ])
    {'completeness': 0.5, 'support_precision': 1.0, 'decidable_rate': 0.5}
    """
    required = cited = 0
    counts = dict.fromkeys(LABELS, 0)
    for number, claim in enumerate(claims):
        if "requires_citation" not in claim:
            raise KeyError(f"claims[{number}] lacks the key 'requires_citation'")
        is_required = bool(claim["requires_citation"])
        if is_required and "citations" not in claim:
            raise KeyError(f"claims[{number}] requires a citation and lacks the key 'citations'")
        if not is_required:
            continue
        required += 1
        if not claim["citations"]:  # an empty list, or None
            continue
        cited += 1
        for label in _checked_labels(claim["citations"], number):
            counts[label] += 1
    decidable = counts["supported"] + counts["unsupported"]
    n_labels = decidable + counts["unknown"]
    return {
        "completeness": cited / required if required else 1.0,
        "support_precision": counts["supported"] / decidable if decidable else None,
        "decidable_rate": decidable / n_labels if n_labels else None,
    }


def _checked_labels(labels: Any, number: int) -> Sequence[str]:
    place = f"claims[{number}]['citations']"
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Sequence):
        raise TypeError(f"{place} must be a list of labels, got {labels!r}")
    for label in labels:
        if label not in LABELS:
            raise ValueError(f"{place} holds {label!r}; a label is one of {', '.join(LABELS)}")
    return labels
