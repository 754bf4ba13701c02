"""Traces to judge: a good one, changes of it, and a strategy for any."""

from __future__ import annotations

import copy
import math
from typing import Any

from gnomon.agent.gate import validate_trace
from hypothesis import strategies as st
from trace_oracle import REASONS


def good() -> dict[str, Any]:
    """A trace that passes in profile v1 without any finding."""
    return {
        "policy": {
            "max_steps": 3,
            "max_tokens": 100,
            "allowed_tools": ["search", "read"],
            "allowed_source_scopes": ["public", "team"],
        },
        "steps": [
            {"tool": "search", "tokens": 40, "evidence": [{"id": "r1", "scope": "public"}]},
            {"tool": "read", "tokens": 20, "evidence": [{"id": "r2", "scope": "team"}]},
        ],
        "result": {"stop_reason": "answered", "citation_ids": ["r1"]},
    }


def changed(path: str, value: Any, trace: dict[str, Any] | None = None) -> dict[str, Any]:
    """`good()` with one place changed; the path is a JSON pointer, `...` removes the place."""
    trace = copy.deepcopy(trace or good())
    *way, last = path.strip("/").split("/")
    place: Any = trace
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    key: Any = int(last) if isinstance(place, list) else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return trace


def codes(trace: Any, **more: Any) -> list[str]:
    return [finding.code for finding in validate_trace(trace, **more)]


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 200)
    | st.floats()
    | st.sampled_from(["", " ", "search", "public", "r1", "answered", "x"])
    | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def _or_junk(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, strategy, junk)


def _object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional={name: _or_junk(one) for name, one in fields.items()})


names = st.lists(st.sampled_from(["search", "read", "public", "team"]), max_size=4)
ids = st.sampled_from(["r1", "r2", "r3"])
tokens = st.integers(0, 60) | st.integers(0, 240).map(lambda n: n / 4) | st.just(math.inf)
evidence = _object(id=ids, scope=st.sampled_from(["public", "team", "secret"]))
steps = _object(
    tool=st.sampled_from(["search", "read", "delete"]),
    tokens=tokens,
    evidence=st.lists(_or_junk(evidence), max_size=3),
)
traces = _object(
    policy=_object(
        max_steps=st.integers(-1, 4),
        max_tokens=st.integers(-1, 200),
        allowed_tools=names,
        allowed_source_scopes=names,
    ),
    steps=st.lists(_or_junk(steps), max_size=4),
    result=_object(stop_reason=st.sampled_from(REASONS), citation_ids=st.lists(ids, max_size=3)),
)
