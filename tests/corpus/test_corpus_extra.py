"""Without the extra the other tests of this folder are left out, and this one says so."""

from __future__ import annotations

import pytest


def test_the_extra_is_installed(missing_packages: list[str]) -> None:
    if missing_packages:
        pytest.skip(f"pip install 'gnomon[corpus]': no {', '.join(missing_packages)}")
    from gnomon.corpus import process_document

    assert process_document(b"# A", "s", path="a.md").document.title == "A"
