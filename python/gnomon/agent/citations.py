"""Are an answer's claims cited, do the citations hold, and was the gold evidence found and cited?

``citation_report`` gives the three figures of the search half's function of the same name, bit for
bit, and adds what those three cannot show: one row per claim, every label counted, and the labels
of claims that need no citation. ``evidence_coverage`` asks, question by question, whether all, any
or which part of the gold sources was retrieved and was cited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

LABELS = ("supported", "unsupported", "unknown")


class ClaimRow(TypedDict):
    """One claim: its labels counted, and what they say together."""

    index: int
    id: str | None
    required: bool
    supported: int
    unsupported: int
    unknown: int
    verdict: str


class CitationReport(TypedDict):
    """Three figures over the required claims, then the counts and rows they were made of."""

    completeness: float
    support_precision: float | None
    decidable_rate: float | None
    labels: dict[str, int]
    optional_labels: dict[str, int]
    verdicts: dict[str, int]
    claims: list[ClaimRow]


VERDICTS = ("supported", "unsupported", "mixed", "unknown", "uncited", "not_required")


def citation_report(claims: Iterable[Mapping[str, Any]]) -> CitationReport:
    """Completeness, support precision and decidable rate, with the rows that explain them.

        completeness      = required claims with a citation / required claims     (1.0 for 0 / 0)
        support_precision = supported labels / (supported + unsupported labels)   (None for 0 / 0)
        decidable_rate    = (supported + unsupported labels) / all labels         (None for 0 / 0)

    A claim is a mapping with "requires_citation" (a bool), "citations" (one label per citation:
    "supported", "unsupported", "unknown", or a mapping that holds the label under "label"), and
    optionally "id"; None stands for no citation. The figures and ``labels`` count required claims
    only; ``optional_labels`` counts the others, so that a wrong citation nobody asked for is seen.

    ``verdict`` of a row: "supported" (some label supports, none speaks against), "unsupported",
    "mixed" (both), "unknown" (no label could be decided), "uncited" (a citation is required and
    there is none), "not_required" (none is required and there is none). A row with a supporting and
    an unknown label is "supported" and still counts its unknown.

    Raises KeyError for a missing key, ValueError for another label, TypeError for a
    "requires_citation" that is no bool or citations that are no list; each names the claim. That is
    stricter than ``gnomon.citation_report``, which takes any truth value and reads the labels of
    required claims only; where both answer, the figures are equal.

    >>> report = citation_report([
    ...     {"requires_citation": True, "citations": ["supported", "unknown"]},
    ...     {"requires_citation": True, "citations": []},
    ... ])
    >>> report["completeness"], report["support_precision"], report["decidable_rate"]
    (0.5, 1.0, 0.5)
    >>> [row["verdict"] for row in report["claims"]], report["labels"]["unknown"]
    (['supported', 'uncited'], 1)
    """
    rows = [_claim_row(claim, number) for number, claim in enumerate(claims)]
    required = [row for row in rows if row["required"]]
    cited = [row for row in required if row["verdict"] != "uncited"]
    labels = _label_counts(required)
    decidable = labels["supported"] + labels["unsupported"]
    n_labels = decidable + labels["unknown"]
    verdicts = dict.fromkeys(VERDICTS, 0)
    for row in rows:
        verdicts[row["verdict"]] += 1
    return {
        "completeness": len(cited) / len(required) if required else 1.0,
        "support_precision": labels["supported"] / decidable if decidable else None,
        "decidable_rate": decidable / n_labels if n_labels else None,
        "labels": labels,
        "optional_labels": _label_counts([row for row in rows if not row["required"]]),
        "verdicts": verdicts,
        "claims": rows,
    }


def _claim_row(claim: Mapping[str, Any], number: int) -> ClaimRow:
    place = f"claims[{number}]"
    if "requires_citation" not in claim:
        raise KeyError(f"{place} lacks the key 'requires_citation'")
    required = claim["requires_citation"]
    if not isinstance(required, bool):
        raise TypeError(f"{place}['requires_citation'] must be true or false, got {required!r}")
    if required and "citations" not in claim:
        raise KeyError(f"{place} requires a citation and lacks the key 'citations'")
    counts = dict.fromkeys(LABELS, 0)
    for label in _labels(claim.get("citations", ()), f"{place}['citations']"):
        counts[label] += 1
    name = claim.get("id")
    return {
        "index": number,
        "id": None if name is None else str(name),
        "required": required,
        "supported": counts["supported"],
        "unsupported": counts["unsupported"],
        "unknown": counts["unknown"],
        "verdict": _verdict(required, counts),
    }


def _labels(citations: Any, place: str) -> list[str]:
    if citations is None:
        return []
    if isinstance(citations, (str, bytes)) or not isinstance(citations, Sequence):
        raise TypeError(f"{place} must be a list of labels, got {citations!r}")
    labels: list[str] = []
    for citation in citations:
        label = citation.get("label") if isinstance(citation, Mapping) else citation
        if not isinstance(label, str) or label not in LABELS:
            raise ValueError(f"{place} holds {label!r}; a label is one of {', '.join(LABELS)}")
        labels.append(label)
    return labels


def _verdict(required: bool, counts: Mapping[str, int]) -> str:
    if not any(counts.values()):
        return "uncited" if required else "not_required"
    if counts["supported"] and counts["unsupported"]:
        return "mixed"
    return next(label for label in LABELS if counts[label])


def _label_counts(rows: Iterable[ClaimRow]) -> dict[str, int]:
    counts = dict.fromkeys(LABELS, 0)
    for row in rows:
        counts["supported"] += row["supported"]
        counts["unsupported"] += row["unsupported"]
        counts["unknown"] += row["unknown"]
    return counts


class Coverage(TypedDict):
    """How much of one question's gold evidence a set of sources covers."""

    all: bool
    any: bool
    fraction: float
    missing: list[str]


class QuestionRow(TypedDict):
    """One question; the two coverages are None where it names no gold source."""

    id: str
    gold: int
    retrieved: Coverage | None
    cited: Coverage | None
    cited_not_retrieved: list[str]


class StageSummary(TypedDict):
    """Means over the questions that have gold sources; None where there are none."""

    all: float | None
    any: float | None
    fraction: float | None


class CoverageReport(TypedDict):
    """Coverage of retrieval and of citation, and how many questions could not be judged."""

    questions: int
    without_gold: int
    retrieved: StageSummary
    cited: StageSummary
    rows: list[QuestionRow]


def evidence_coverage(questions: Iterable[Mapping[str, Any]]) -> CoverageReport:
    """Gold evidence coverage for questions whose answer needs one or several sources.

    A question has "id", "gold", "retrieved" and "cited", the last three lists of source ids. A gold
    entry may itself be a list: alternatives, any one of which supplies that hop. Order and repeats
    do not matter. A multi-hop answer is covered when ``all`` is true; ``any`` and ``fraction`` show
    how far a partial one came; ``missing`` names the hops (alternatives joined with " | ").
    ``cited_not_retrieved`` lists cited ids that no retrieval returned: made up, or remembered.

    A question with an empty gold list has no coverage: it is counted in ``without_gold`` and enters
    no mean, rather than scoring 0 or 1. Fractions are quotients of counts; a mean is the sum in
    question order divided by the number of judged questions.

    Raises KeyError for a missing key, TypeError for another type, ValueError for a repeated
    question id, an empty id or an empty list of alternatives.

    >>> report = evidence_coverage([{
    ...     "id": "q1", "gold": ["a", "b"], "retrieved": ["b", "c", "a"], "cited": ["a"],
    ... }])
    >>> report["retrieved"]["all"], report["cited"]["fraction"], report["rows"][0]["cited"]
    (1.0, 0.5, {'all': False, 'any': True, 'fraction': 0.5, 'missing': ['b']})
    """
    rows: list[QuestionRow] = []
    seen: set[str] = set()
    for number, question in enumerate(questions):
        row = _question_row(question, f"questions[{number}]")
        if row["id"] in seen:
            raise ValueError(f"questions[{number}] repeats the id {row['id']!r}; ids are unique")
        seen.add(row["id"])
        rows.append(row)
    return {
        "questions": len(rows),
        "without_gold": len([row for row in rows if row["gold"] == 0]),
        "retrieved": _stage([row["retrieved"] for row in rows]),
        "cited": _stage([row["cited"] for row in rows]),
        "rows": rows,
    }


def _question_row(question: Mapping[str, Any], place: str) -> QuestionRow:
    for key in ("id", "gold", "retrieved", "cited"):
        if key not in question:
            raise KeyError(f"{place} lacks the key {key!r}")
    name = question["id"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"{place}['id'] must be a non-empty string, got {name!r}")
    hops = _hops(question["gold"], f"{place}['gold']")
    retrieved = _sources(question["retrieved"], f"{place}['retrieved']")
    cited = _sources(question["cited"], f"{place}['cited']")
    return {
        "id": name,
        "gold": len(hops),
        "retrieved": _coverage(hops, retrieved),
        "cited": _coverage(hops, cited),
        "cited_not_retrieved": sorted(cited - retrieved),
    }


def _hops(gold: Any, place: str) -> list[frozenset[str]]:
    """The distinct hops, in an order that does not depend on the list's."""
    if isinstance(gold, (str, bytes)) or not isinstance(gold, (Sequence, set, frozenset)):
        raise TypeError(f"{place} must be a list of source ids, got {gold!r}")
    hops = {
        frozenset(_sources([entry] if isinstance(entry, str) else entry, f"{place}[{number}]"))
        for number, entry in enumerate(gold)
    }
    if frozenset() in hops:
        raise ValueError(f"{place} holds an empty list of alternatives; name a source or drop it")
    return sorted(hops, key=sorted)


def _sources(ids: Any, place: str) -> set[str]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, (Sequence, set, frozenset)):
        raise TypeError(f"{place} must be a list of source ids, got {ids!r}")
    for source in ids:
        if not isinstance(source, str):
            raise TypeError(f"{place} holds {source!r}; a source id is a string")
        if not source:
            raise ValueError(f"{place} holds an empty source id")
    return set(ids)


def _coverage(hops: list[frozenset[str]], sources: set[str]) -> Coverage | None:
    if not hops:
        return None
    missing = [" | ".join(sorted(hop)) for hop in hops if not hop & sources]
    covered = len(hops) - len(missing)
    return {
        "all": not missing,
        "any": covered > 0,
        "fraction": covered / len(hops),
        "missing": missing,
    }


def _stage(coverages: list[Coverage | None]) -> StageSummary:
    judged = [coverage for coverage in coverages if coverage is not None]
    if not judged:
        return {"all": None, "any": None, "fraction": None}
    n = len(judged)
    fractions = 0.0
    for coverage in judged:
        fractions += coverage["fraction"]
    return {
        "all": len([c for c in judged if c["all"]]) / n,
        "any": len([c for c in judged if c["any"]]) / n,
        "fraction": fractions / n,
    }
