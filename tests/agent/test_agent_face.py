"""The names of gnomon.agent: all there, imported on first use, and apart from the search half."""

from __future__ import annotations

import subprocess
import sys

import gnomon.agent as agent
import pytest


def test_every_name_is_there() -> None:
    for name in agent.__all__:
        if name == "PostgresOperationStore":
            pytest.importorskip("psycopg")
        assert getattr(agent, name) is not None
    assert sorted(agent.__all__) == sorted(agent._HOME)  # the formatter puts constants first
    assert set(agent.__all__) <= set(dir(agent))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Toolbox'"):
        agent.Toolbox  # noqa: B018


def test_the_face_loads_nothing_before_a_name_is_used() -> None:
    code = "import sys, gnomon.agent; print(sorted(m for m in sys.modules if 'gnomon.agent' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['gnomon.agent']\n"


def test_the_search_half_does_not_load_the_agent_half() -> None:
    code = "import sys, gnomon; print([m for m in sys.modules if m.startswith('gnomon.agent')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
