"""Every required test of the JSON-Schema-Test-Suite, under JSON Schema's own rules.

A schema may be refused at registration, which is a safe answer; a wrong verdict never is.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from gnomon.agent.problems import SchemaError
from gnomon.agent.schema import compile_schema
from gnomon.agent.schema_keywords import DRAFT_7, DRAFT_2020_12

PASS_SHARE_MIN = 0.95
TESTS = {"draft2020-12": 1_299, "draft7": 927}
DIALECT = {"draft2020-12": DRAFT_2020_12, "draft7": DRAFT_7}
# Why a schema may be refused: nothing outside the document is fetched, no keyword is ignored, and
# no dialect is guessed.
REASONS = {"remote-ref", "unknown-keyword", "$schema"}


@pytest.mark.parametrize("draft", TESTS)
def test_s6_no_required_test_gets_a_wrong_verdict(
    draft: str, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared / "data" / "json-schema-test-suite" / "tests" / draft
    if not folder.is_dir():
        pytest.skip(f"no test suite at {folder}")
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong = []
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            tests = group["tests"]
            try:
                compiled = compile_schema(
                    group["schema"],
                    rules="json-schema",
                    integers="json-schema",
                    dialect=DIALECT[draft],
                )
            except SchemaError as error:
                counts["refused"] += len(tests)
                refused[error.problems[0].rule] += len(tests)
                continue
            for test in tests:
                is_right = compiled.is_valid(test["data"]) is test["valid"]
                counts["passed" if is_right else "wrong"] += 1
                if not is_right:
                    wrong.append((path.name, group["description"], test["description"]))
    with capsys.disabled():
        print(f"\n{draft}: {dict(counts)}, refused for {dict(refused)}")
    assert wrong == []
    assert sum(counts.values()) == TESTS[draft]
    assert refused.keys() <= REASONS
    assert counts["passed"] >= PASS_SHARE_MIN * TESTS[draft]
