"""The tests of the promise can fail: each known way to break it makes its test red."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mutants


def test_every_mutant_is_noticed():
    script = Path(__file__).with_name("mutants.py")
    command = [sys.executable, script, "--without-control"]  # this suite is the control
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("red  ") == len(mutants.MUTANTS)
