"""The trace gate against the documents' own rules, on any value, at any size."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent.gate import GatePolicy, TraceFinding, trace_passes, validate, validate_trace
from gnomon.agent.gate_load import read_text
from gnomon.agent.gate_rules import RULES, rules_text
from hypothesis import example, given
from hypothesis import strategies as st
from trace_oracle import judgeable, messages
from traces import changed, codes, good, junk, traces

# --- the documents' rules -------------------------------------------------------------------------


@given(traces)
@example(good())
@example(changed("/policy/max_tokens", True))
@example(changed("/policy/max_steps", "1"))
@example(changed("/steps/0/tool", []))
@example(changed("/steps/0/evidence/0/scope", {"a": 1}))
@example(changed("/steps/0/tokens", 10**12))
def test_same_messages_as_the_document(trace: Any) -> None:
    if judgeable(trace) and "Infinity" not in json.dumps(trace):
        assert validate(trace) == messages(trace)
    elif isinstance(trace, dict):
        validate(trace)


@given(traces)
def test_v1_errors_are_the_documents_messages_and_nothing_else(trace: Any) -> None:
    errors = [one.message for one in validate_trace(trace, profile="v1") if one.severity == "error"]
    assert errors == validate(trace)


@given(traces | junk, st.sampled_from(["auto", "v1", "v2"]))
@example(None, "v2")
@example(5, "v1")
@example([], "v2")
@example("trace", "v1")
def test_every_value_gets_a_verdict(trace: Any, profile: str) -> None:
    before = repr(trace)
    found = validate_trace(trace, GatePolicy(profile=profile, canaries=("x",)))
    assert all(
        one.code in RULES and one.severity in ("error", "unverifiable", "warning") for one in found
    )
    assert repr(trace) == before
    assert found == validate_trace(trace, GatePolicy(profile=profile, canaries=("x",)))


class Hostile:
    """No JSON value: a trace that a program made may hold anything."""

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize("profile", ["v1", "v2"])
@pytest.mark.parametrize(
    "value", [Hostile(), [Hostile()], (Hostile(),)], ids=["it", "list", "tuple"]
)
def test_objects_that_are_no_json_get_a_verdict(profile: str, value: Any) -> None:
    for place in ("profile", "policy", "steps", "result"):
        validate_trace(good() | {place: value}, profile=profile)
    keys = ("tool", "tokens", "effect", "status", "operation_id", "approval_id", "risk", "evidence")
    for key in keys:
        trace = good()
        trace["steps"][0][key] = value
        validate_trace(trace, profile=profile)
    for key in ("id", "scope", "source_id", "retrieved_at", "excerpt"):
        trace = good()
        trace["steps"][0]["evidence"][0][key] = value
        validate_trace(trace, profile=profile)


@given(traces, st.randoms(use_true_random=False))
def test_order_of_keys_changes_nothing(trace: Any, random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            pairs = [(key, shuffled(item)) for key, item in value.items()]
            random.shuffle(pairs)
            return dict(pairs)
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    if "{" not in repr(validate(trace)):  # a message shows an object with its order
        assert validate(shuffled(trace)) == validate(trace)


def test_a_good_trace_has_no_finding() -> None:
    assert validate(good()) == []
    assert validate_trace(good()) == []


# --- cases T1 to T10 ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 5, True, 1.5, "", "text", {}, {"id": "r1"}])
def test_t1_evidence_that_is_no_list_is_one_finding(value: Any) -> None:
    trace = changed("/steps/1/evidence", value)
    assert validate(trace) == ["steps[1] has malformed evidence"]
    [finding] = validate_trace(trace)
    assert (finding.code, finding.path) == ("G301", "/steps/1/evidence")


@pytest.mark.parametrize("value", [[], {}, ["answered"], None, True, 0, "Answered", math.nan])
def test_t2_stop_reason_of_any_type_is_a_finding(value: Any) -> None:
    assert validate(changed("/result/stop_reason", value)) == ["result.stop_reason is invalid"]


@pytest.mark.parametrize("others", [0, 10**9, math.inf, 1.5])
def test_t3_nan_tokens_never_pass(others: Any) -> None:
    trace = changed("/steps/0/tokens", math.nan)
    trace["steps"][1]["tokens"] = others
    found = validate(trace)
    assert "steps[0].tokens must be non-negative" in found
    assert ("token budget exceeded" in found) == (others > 100)


def test_t4_integers_too_large_for_a_float() -> None:
    trace = changed("/steps/0/tokens", 10**400)
    trace["steps"][1]["tokens"] = 0.5
    assert validate(trace) == ["token budget exceeded"]
    trace["policy"]["max_tokens"] = 10**401
    assert validate(trace) == []


def test_t4_floats_whose_sum_overflows() -> None:
    trace = changed("/steps/0/tokens", sys.float_info.max)
    trace["steps"][1]["tokens"] = sys.float_info.max
    assert validate(trace) == ["token budget exceeded"]


def test_t5_the_sum_is_not_rounded() -> None:
    trace = changed("/policy/max_tokens", 10**16)
    trace["policy"]["max_steps"] = 20
    trace["steps"] = [{"tool": "search", "tokens": value} for value in [1e16] + [1.0] * 9]
    trace["result"] = {"stop_reason": "budget_exhausted"}
    assert messages(trace) == []  # the document's sum loses the nine
    assert validate(trace) == ["token budget exceeded"]


def test_t6_missing_tokens_are_unverifiable() -> None:
    trace = changed("/steps/0/tokens", ...)
    assert validate(trace) == []
    [finding] = validate_trace(trace)
    assert (finding.code, finding.severity) == ("G404", "unverifiable")
    assert trace_passes([finding])  # the document counts 0, so v1 keeps its verdict
    assert not trace_passes([finding], GatePolicy(strict=True))
    strict = GatePolicy(rules={"tokens-missing": "error"})
    assert not trace_passes(validate_trace(trace, strict), strict)
    assert "G404" in [
        one.code for one in validate_trace(trace, profile="v2") if one.severity == "error"
    ]


@pytest.mark.parametrize("path", ["/steps/0/evidence/0/scope", "/steps/0/tool"])
def test_t7_citing_unauthorized_evidence_is_a_citation_finding_too(path: str) -> None:
    found = validate_trace(changed(path, "secret"))
    assert [one.code for one in found if one.severity == "error"] == [
        "G303" if "scope" in path else "G201"
    ]
    [citation] = [one for one in found if one.code == "G504"]
    assert citation.path == "/result/citation_ids"
    assert "'r1'" in citation.message
    trace = changed(path, "secret")
    trace["steps"][1]["evidence"].append({"id": "r1", "scope": "public"})
    assert "G504" not in codes(trace)  # the same evidence came by an allowed way as well


def test_t8_one_id_for_two_things() -> None:
    for key, value in (("scope", "team"), ("excerpt", "other"), ("revision", "2")):
        trace = good()
        trace["steps"][0]["evidence"][0].update(excerpt="text", revision="1")
        again = {"id": "r1", "scope": "public", "excerpt": "text", "revision": "1", key: value}
        trace["steps"][1]["evidence"].append(again)
        assert validate(trace) == []
        assert codes(trace) == ["G304"]
        again.update(trace["steps"][0]["evidence"][0])
        assert codes(trace) == []


@pytest.mark.parametrize("evidence_id", [" ", "r1 ", "\u0065\u0301"])
def test_t8_ids_that_look_like_others(evidence_id: str) -> None:
    trace = changed("/steps/1/evidence/0/id", evidence_id)
    assert (validate(trace), codes(trace)) == ([], ["G305"])


def test_t9_answered_over_budget_is_a_contradiction() -> None:
    trace = changed("/policy/max_tokens", 50)
    assert codes(trace) == ["G403", "G602"]
    assert validate(trace) == ["token budget exceeded"]


def test_t10_reasons_that_the_trace_does_not_bear_out() -> None:
    def with_reason(reason: str, citations: list[str], **result: Any) -> dict[str, Any]:
        return changed("/result", {"stop_reason": reason, "citation_ids": citations, **result})

    assert codes(with_reason("budget_exhausted", [])) == ["G603"]
    assert codes(changed("/policy/max_steps", 2, with_reason("budget_exhausted", []))) == []
    assert codes(changed("/policy/max_tokens", 60, with_reason("budget_exhausted", []))) == []
    shown = {"dimension": "writes", "limit": 1, "used": 1, "requested": 1}
    assert codes(with_reason("budget_exhausted", [], exhausted=shown)) == []
    assert codes(with_reason("budget_exhausted", [], exhausted={**shown, "used": 0})) == ["G603"]
    assert codes(with_reason("authorization_denied", [])) == ["G604"]
    assert codes(with_reason("authorization_denied", [], denied=[{"tool": "delete"}])) == []
    for reason in ("clarification_required", "insufficient_evidence", "policy_blocked"):
        assert codes(with_reason(reason, ["r1"])) == ["G605"]
        assert codes(with_reason(reason, [])) == []
    v1 = validate_trace(with_reason("budget_exhausted", []))
    assert [one.severity for one in v1] == ["warning"]


# --- profile v2, policies, canaries ---------------------------------------------------------------


def good_v2() -> dict[str, Any]:
    trace = good()
    trace["profile"] = "v2"
    trace["policy"] |= {"limits": {"writes": 1, "cost_micros": 10, "seconds": 5, "risk": 3}}
    trace["policy"]["max_risk"] = 2
    for number, step in enumerate(trace["steps"]):
        step |= {"operation_id": f"op{number}", "status": "succeeded", "effect": "read"}
        step |= {"risk": 1, "cost_micros": 4}
        for item in step["evidence"]:
            item |= {"source_id": "d", "revision": "1", "acl_scope": "public", "retrieved_at": 1.0}
    trace["steps"][1]["effect"] = "write"
    trace["result"] |= {"seconds": 4.5, "tokens": 10}
    return trace


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("/policy/max_token", 5, "G104"),
        ("/profile", "v3", "G106"),
        ("/policy/tools_declared", False, "G202"),
        ("/policy/scopes_declared", False, "G307"),
        ("/steps/0/evidence/0/revision", ..., "G306"),
        ("/steps/0/evidence/0/retrieved_at", None, "G306"),
        ("/policy/limits", 5, "G405"),
        ("/policy/limits/writes", "1", "G405"),
        ("/policy/limits/cost_micros", math.nan, "G405"),
        ("/steps/0/cost_micros", -1, "G405"),
        ("/steps/0/risk", True, "G405"),
        ("/policy/limits/cost_micros", 7, "G406"),
        ("/result/seconds", 5.001, "G407"),
        ("/steps/0/effect", "destructive", "G408"),
        ("/policy/limits/risk", 1, "G409"),
        ("/result/tokens", 41, "G403"),
        ("/steps/0/evidence/0/validated", False, "G505"),
        ("/steps/1/operation_id", ..., "G701"),
        ("/steps/1/operation_id", "op0", "G702"),
        ("/steps/0/evidence/0/validated", False, "G703"),
        ("/steps/0/risk", 3, "G704"),
        ("/steps/1/status", "needs_reconcile", "G705"),
        ("/result/stop_reason", "dependency_failed", "G607"),
    ],
)
def test_v2_rule_breaks(path: str, value: Any, code: str) -> None:
    assert codes(good_v2()) == []
    trace = changed(path, value, good_v2())
    assert code in codes(trace, profile="v2")
    assert messages(trace) == validate(trace)


def test_v2_conflict_needs_two_sides() -> None:
    trace = changed("/result", {"stop_reason": "conflicting_evidence"}, good_v2())
    assert codes(trace) == []
    assert codes(changed("/steps/1/evidence", [], trace)) == ["G606"]


def test_v2_replays_are_no_second_execution() -> None:
    trace = good_v2()
    trace["steps"].append({**trace["steps"][1], "replayed": True, "evidence": [], "cost_micros": 0})
    assert codes(trace) == []
    trace["steps"][2]["replayed"] = "yes"  # only true is true
    assert {"G702", "G408"} <= set(codes(trace))


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("/policy", [], "G101"),
        ("/steps", {}, "G101"),
        ("/result", None, "G101"),
        ("/steps/0", 5, "G101"),
        ("/policy/max_steps", 0, "G102"),
        ("/policy/max_tokens", True, "G102"),
        ("/policy/allowed_tools", "search", "G103"),
        ("/policy/allowed_source_scopes", [""], "G103"),
        ("/steps/0/tool", {"a": []}, "G201"),
        ("/steps/0/evidence/0", "r1", "G301"),
        ("/steps/0/evidence/0/id", 7, "G302"),
        ("/steps/0/evidence/0/scope", ["public"], "G303"),
        ("/policy/max_steps", 1, "G401"),
        ("/steps/0/tokens", True, "G402"),
        ("/policy/max_tokens", 59, "G403"),
        ("/result/citation_ids", "r1", "G501"),
        ("/result/citation_ids", ["r3"], "G502"),
        ("/result/citation_ids", [], "G503"),
        ("/result/stop_reason", "done", "G601"),
    ],
)
def test_v1_rule_breaks(path: str, value: Any, code: str) -> None:
    trace = changed(path, value)
    errors = [one for one in validate_trace(trace) if one.severity == "error"]
    assert code in [one.code for one in errors]
    assert [one.message for one in errors] == messages(trace)


def test_strict_json_is_a_rule() -> None:
    [finding] = read_text(b'{"policy": {"max_steps": 1, "max_steps": 9}}').findings
    assert finding.code == "G105"
    assert "'max_steps'" in finding.message


def test_every_rule_has_a_test_and_a_text() -> None:
    here = Path(__file__).read_text("utf-8")
    assert [code for code in RULES if code not in here] == []
    text = rules_text()
    assert all(
        f"{rule.id} {rule.name}" in text and rule.asks and rule.remedy for rule in RULES.values()
    )


def test_policy_takes_the_place_of_the_traces_own() -> None:
    policy = GatePolicy.from_dict(
        {"policy": {"allowed_tools": ["search"]}, "rules": {"G201": "warning"}}
    )
    [finding] = validate_trace(good(), policy)
    assert (finding.code, finding.severity) == ("G201", "warning")
    assert trace_passes([finding], policy)
    assert codes(good(), policy=GatePolicy(rules={"tool-allowed": "off"})) == []


@pytest.mark.parametrize(
    "raw",
    [
        [],
        {"polciy": {}},
        {"profile": "v3"},
        {"profile": []},
        {"policy": []},
        {"rules": {"G999": "off"}},
        {"rules": {"G201": "loud"}},
        {"rules": {"G201": []}},
        {"rules": []},
        {"strict": 1},
        {"canaries": "x"},
        {"canaries": [""]},
    ],
)
def test_policy_files_with_mistakes_are_refused(raw: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        GatePolicy.from_dict(raw)


def test_canaries_are_found_anywhere_and_not_repeated() -> None:
    policy = GatePolicy(canaries=("sk-canary-1",))
    for path, value in (
        ("/steps/0/tool", "sk-canary-1"),
        ("/steps/0/note", {"deep": [{"key: sk-canary-1": 1}]}),
        ("/result/answer", "the key is sk-canary-1."),
    ):
        found = validate_trace(changed(path, value), policy)
        assert "G801" in [one.code for one in found]
        assert "sk-canary-1" not in repr(found)
        assert not trace_passes(found, policy)
    assert validate_trace(good(), policy) == []


# --- size and depth -------------------------------------------------------------------------------


def test_100k_evidence_items_and_10k_scopes_in_half_a_second() -> None:
    def build(n: int) -> dict[str, Any]:
        trace = good()
        trace["policy"]["allowed_source_scopes"] = [f"s{number}" for number in range(n // 10)]
        items = [{"id": f"r{number}", "scope": f"s{number % (n // 10)}"} for number in range(n)]
        trace["steps"][0]["evidence"] = items
        trace["steps"] = trace["steps"][:1]
        trace["result"]["citation_ids"] = [f"r{number}" for number in range(n)]
        return trace

    def best(n: int) -> float:
        trace, spans = build(n), []
        for _ in range(3):
            start = time.process_time()
            assert validate_trace(trace) == []
            spans.append(time.process_time() - start)
        return min(spans)

    small, large = best(25_000), best(100_000)
    assert large < 0.5, large
    assert large < 12 * small, (small, large)  # 4 if linear, 16 if quadratic


def test_many_citations_of_unchecked_evidence_take_linear_time() -> None:
    def seconds(count: int) -> float:
        trace = good_v2()
        item = trace["steps"][0]["evidence"][0] | {"validated": False}
        ids = [f"e{number}" for number in range(count)]
        trace["steps"][0]["evidence"] = [item | {"id": name} for name in ids]
        trace["result"]["citation_ids"] = ids
        begin = time.process_time()
        validate_trace(trace)
        return time.process_time() - begin

    assert min(seconds(16_000) for _ in range(2)) < 8 * min(seconds(4_000) for _ in range(3))


def test_v2_an_attempt_that_did_not_execute_is_no_execution() -> None:
    trace = good_v2()
    step = trace["steps"][0]
    trace["policy"]["max_steps"] = 9
    trace["steps"] = [step | {"status": "not_executed"}, step]
    assert "G702" not in codes(trace)
    trace["steps"] = [step, step]
    assert "G702" in codes(trace)


def test_deep_and_circular_values_get_a_verdict() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    for value in (deep, ring):
        for path in ("/steps/0/tool", "/steps/0/evidence/0/scope", "/result/stop_reason", "/extra"):
            found = validate_trace(changed_shallow(path, value), GatePolicy(canaries=("x",)))
            assert all(isinstance(one, TraceFinding) for one in found)
    while deep:  # 3.10 frees nested lists by recursion when it is deep in a call already
        deep = deep.pop()


def changed_shallow(path: str, value: Any) -> dict[str, Any]:
    trace = changed(path, 0)
    *way, last = path.strip("/").split("/")
    place: Any = trace
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return trace
