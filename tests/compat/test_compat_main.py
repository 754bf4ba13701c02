"""`python -m gnomon.compat`, and that its lines are true."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import gnomon.compat
import pytest
from gnomon.compat.__main__ import PEERS, installed


def test_the_command_shows_each_line() -> None:
    command = [sys.executable, "-m", "gnomon.compat"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for peer in PEERS:
        assert f"  before  {peer.before}\n  after   {peer.after}\n" in shown
        version = installed(peer.distribution)
        state = "not installed" if version is None else f"installed: {version}"
        assert f"{peer.distribution} ({state}" in shown


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.distribution)
def test_the_lines_run(peer: gnomon.compat.__main__.Peer) -> None:
    if installed(peer.distribution) is None:
        if peer.needed:
            with pytest.raises(ImportError, match=r"pip install 'gnomon\[[a-z-]+\]'"):
                exec(peer.after)
            pytest.skip(f"{peer.distribution} is not installed")
        exec(peer.after)
        pytest.skip(f"{peer.distribution} is not installed")
    exec(peer.before)
    exec(peer.after)


def test_every_module_is_listed_and_says_what_differs() -> None:
    names = {m.name for m in pkgutil.iter_modules(gnomon.compat.__path__) if m.name[0] != "_"}
    listed = {
        peer.after.split("gnomon.compat")[1].replace(" import ", ".").split(".")[1]
        for peer in PEERS
    }
    assert names == listed
    for name in names:
        try:
            module = importlib.import_module(f"gnomon.compat.{name}")
        except ImportError:
            continue
        assert "What differs from" in (module.__doc__ or "")
