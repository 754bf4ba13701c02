"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import gnomon
import pytest

NO_EXAMPLE = {"__version__"}  # data, not a thing to call
MODULES = sorted(
    {"gnomon"}
    | {
        m.name
        for m in pkgutil.walk_packages(gnomon.__path__, "gnomon.")
        if m.name != "gnomon._core"
    }
)


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings_run(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write files
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.failed == 0


@pytest.mark.parametrize("name", sorted(set(gnomon.__all__) - NO_EXAMPLE))
def test_every_public_name_has_an_example(name: str) -> None:
    doc = inspect.getdoc(getattr(gnomon, name)) or ""
    assert ">>> " in doc, f"gnomon.{name} has no example in its docstring"
