from __future__ import annotations

import os
import signal
from pathlib import Path

import gnomon
import hypothesis
import pytest
from emulated import device as device
from emulated import emulator as emulator

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # an adapter's peer would call home

# "ci" draws the same examples on every run, so a red run can be repeated; "soak" finds new ones.
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=200, deadline=None)
# A build with sanitizers runs several times slower.
hypothesis.settings.register_profile("sanitize", derandomize=True, max_examples=12, deadline=None)
hypothesis.settings.register_profile("soak", max_examples=20_000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("GNOMON_HYPOTHESIS", "ci"))

# A shell's background job ignores Ctrl-C, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Under sanitizers the first and the best level: the others share their sources with these.
SANITIZED = os.environ.get("GNOMON_HYPOTHESIS") == "sanitize"
LEVELS = sorted({gnomon.levels()[0], gnomon.levels()[-1]}) if SANITIZED else gnomon.levels()


# Session scope: a plain name, which hypothesis may use in all examples of a test.
@pytest.fixture(scope="session", params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    """The name of each CPU level that this machine can run, one after the other."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of judged collections and cases, which lies beside the checkout."""
    beside = Path(__file__).parents[1].parent / "shared"
    folder = Path(os.environ.get("GNOMON_SHARED", beside))
    if not folder.is_dir():
        pytest.skip(f"no test material at {folder}; set GNOMON_SHARED to its place")
    return folder
