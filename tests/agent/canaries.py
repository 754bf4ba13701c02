"""A secret in every form in which it could leave, and a watch over what the whole suite logs."""

from __future__ import annotations

import base64
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from gnomon.agent.sqlite_store import SqliteOperationStore

#: Every made-up secret of the suite holds this word, in one case or another.
WORD = re.compile("canary", re.IGNORECASE)
#: The secret itself; commands and rules may say the word.
SECRET = re.compile(r"canary[-/_][0-9a-z+-]*[0-9]", re.IGNORECASE)


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
    """Keeps what leaves gnomon and holds a canary: log records, spans, CLI output, ledger files."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []
        self.looks: Counter[str] = Counter()
        self.unwatched: Any = None  # how a ledger closes without the watch

    def look(self, where: str, text: str) -> None:
        self.looks[where] += 1
        if SECRET.search(text):
            self.found.append(f"{where}: {text}")

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter("%(name)s %(message)s").format(record) + repr(vars(record))
        text = re.sub(r"'(?:pathname|filename|module|funcName)': '[^']*'", "", text)
        if WORD.search(text):
            self.found.append(f"log: {text}")

    def spans(self, patch: pytest.MonkeyPatch) -> None:
        """Look at every span of the SDK when it ends."""
        try:
            from opentelemetry.sdk.trace import Span
        except ImportError:
            return
        end = Span.end

        def look(span: Any, *arguments: Any, **named: Any) -> None:
            end(span, *arguments, **named)
            self.look("span", span.to_json())

        patch.setattr(Span, "end", look)

    def cli(self, patch: pytest.MonkeyPatch) -> None:
        """Look at all that a command prints, reports included, under the tests' runner."""
        invoke = CliRunner.invoke

        def look(runner: CliRunner, *arguments: Any, **named: Any) -> Any:
            result = invoke(runner, *arguments, **named)
            self.look("cli", result.output)
            return result

        patch.setattr(CliRunner, "invoke", look)

    def ledgers(self, patch: pytest.MonkeyPatch) -> None:
        """Look into the file and the log of every ledger of digests before it is closed."""
        close = self.unwatched = SqliteOperationStore.close

        def look(store: SqliteOperationStore) -> None:
            if store.digest_only:
                for name in (store._path, f"{store._path}-wal"):
                    if os.path.exists(name):
                        self.look("ledger", Path(name).read_bytes().decode("latin-1"))
            close(store)

        patch.setattr(SqliteOperationStore, "close", look)


@pytest.fixture(scope="session", autouse=True)
def no_canary_leaves() -> Iterator[Watch]:
    """After the whole suite: no secret stood in a log, span, CLI output or ledger of digests."""
    watch = Watch()
    logging.getLogger("gnomon").addHandler(watch)
    with pytest.MonkeyPatch.context() as patch:
        watch.spans(patch)
        watch.cli(patch)
        watch.ledgers(patch)
        yield watch
    logging.getLogger("gnomon").removeHandler(watch)
    assert watch.found == []
