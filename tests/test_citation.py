from __future__ import annotations

from typing import Any

import pytest
from gnomon import citation_report
from gnomon.reference import citation as reference
from hypothesis import given
from hypothesis import strategies as st

CLAIMS = st.lists(
    st.fixed_dictionaries(
        {
            "requires_citation": st.booleans(),
            "citations": st.lists(
                st.sampled_from(["supported", "unsupported", "unknown"]), max_size=4
            ),
        }
    ),
    max_size=8,
)


@given(CLAIMS)
def test_equals_the_reference(claims: list[dict[str, Any]]) -> None:
    assert citation_report(claims) == reference.citation_report(claims)


@given(CLAIMS)
def test_figures_are_rates(claims: list[dict[str, Any]]) -> None:
    report = citation_report(claims)
    assert list(report) == ["completeness", "support_precision", "decidable_rate"]
    assert 0.0 <= report["completeness"] <= 1.0
    rate, precision = report["decidable_rate"], report["support_precision"]
    assert rate is None or 0.0 <= rate <= 1.0
    assert (precision is None) == (not rate)
    assert precision is None or 0.0 <= precision <= 1.0


def claim(*labels: str, required: bool = True) -> dict[str, Any]:
    return {"requires_citation": required, "citations": list(labels)}


@pytest.mark.parametrize(
    ("claims", "figures"),
    [
        ([], (1.0, None, None)),
        ([claim(required=False)], (1.0, None, None)),
        ([claim("unsupported", required=False)], (1.0, None, None)),
        ([claim()], (0.0, None, None)),
        ([claim("unknown")], (1.0, None, 0.0)),
        ([claim("unsupported")], (1.0, 0.0, 1.0)),
        ([claim("supported"), claim()], (0.5, 1.0, 1.0)),
        ([claim("supported", "unsupported", "unknown", "unknown")], (1.0, 0.5, 0.5)),
    ],
)
def test_worked_by_hand(claims: list[dict[str, Any]], figures: tuple[float, ...]) -> None:
    assert tuple(citation_report(claims).values()) == figures


def test_claims_may_stream() -> None:
    claims = (claim("supported") for _ in range(3))
    assert citation_report(claims)["completeness"] == 1.0


def test_a_claim_that_requires_none_may_lack_citations() -> None:
    assert citation_report([{"requires_citation": False}])["completeness"] == 1.0


def test_another_label_is_named_with_its_claim() -> None:
    with pytest.raises(ValueError, match=r"claims\[1\].*'maybe'.*supported, unsupported, unknown"):
        citation_report([claim("supported"), claim("supported", "maybe")])


def test_claims_that_require_none_and_empty_citations_are_as_defined() -> None:
    """By the definition nothing of the former is read, and a false value stands for no citation."""
    free = claim("supported", "maybe", required=False)
    none = {"requires_citation": True, "citations": None}
    assert citation_report([free, none, claim("supported")]) == {
        "completeness": 0.5,
        "support_precision": 1.0,
        "decidable_rate": 1.0,
    }


def test_a_missing_key_is_named_with_its_claim() -> None:
    with pytest.raises(KeyError, match=r"claims\[1\] lacks the key 'requires_citation'"):
        citation_report([claim(), {"citations": []}])
    with pytest.raises(KeyError, match=r"claims\[0\] requires .* lacks the key 'citations'"):
        citation_report([{"requires_citation": True}])


@pytest.mark.parametrize("citations", ["supported", 3, {"supported"}])
def test_citations_are_a_list(citations: object) -> None:
    with pytest.raises(TypeError, match=r"claims\[0\]\['citations'\] must be a list of labels"):
        citation_report([{"requires_citation": True, "citations": citations}])
