"""A secret in every form in which it could leave, and a watch over what the whole suite logs."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

#: Every made-up secret of the suite holds this word, in one case or another.
WORD = re.compile("canary", re.IGNORECASE)


def forms(secret: str) -> set[bytes]:
    """The secret as it is, quoted for a URL, in hex, and in base64 at each of three offsets."""
    raw = secret.encode()
    found = {raw, quote(secret, safe="").encode(), raw.hex().encode(), raw.hex().upper().encode()}
    for offset in range(3):
        # Only the characters that depend on the secret alone, whatever stands around it.
        coded = base64.b64encode(b"x" * offset + raw)
        first, last = (0, 2, 3)[offset], len(coded) - (0 if (offset + len(raw)) % 3 == 0 else 4)
        found |= {coded[first:last], coded[first:last].translate(bytes.maketrans(b"+/", b"-_"))}
    return found


def leaks(secret: str, text: str | bytes) -> list[bytes]:
    """The forms of the secret that stand in the text."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return sorted(form for form in forms(secret) if form in data)


class Watch(logging.Handler):
    """Keeps every record of gnomon's loggers that holds a canary, formatted as a program would."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter("%(name)s %(message)s").format(record) + repr(vars(record))
        if WORD.search(re.sub(r"'(?:pathname|filename|module|funcName)': '[^']*'", "", text)):
            self.found.append(text)


@pytest.fixture(scope="session", autouse=True)
def no_canary_in_any_log() -> Iterator[None]:
    """After the whole suite: no made-up secret stands in a record of gnomon's loggers."""
    watch = Watch()
    logging.getLogger("gnomon").addHandler(watch)
    yield
    logging.getLogger("gnomon").removeHandler(watch)
    assert watch.found == []
