"""One connection to the ledger's file, and how its file is made and looked at."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from . import store_sql as sql
from .errors import StoreUnavailable
from .file_lock import network_file_system
from .store_sql import Parameters, Row


class Connection:
    """A connection that knows the statements in SQLite's own spelling; it is a Transaction."""

    def __init__(self, path: str, synchronous: str, timeout: float) -> None:
        self.raw = sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        self.now = 0.0
        self._texts: dict[str, str] = {}
        self.raw.execute(f"PRAGMA synchronous = {synchronous}")
        self.raw.execute("PRAGMA secure_delete = ON")  # a purged result leaves no trace in a page
        self.raw.execute("PRAGMA trusted_schema = OFF")

    def _text(self, statement: str) -> str:
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = sql.SQLITE.render(statement)
        return text

    def change(self, statement: str, parameters: Parameters) -> int:
        """See Transaction.change."""
        return self.raw.execute(self._text(statement), parameters).rowcount

    def rows(self, statement: str, parameters: Parameters) -> list[Row]:
        """See Transaction.rows."""
        return self.raw.execute(self._text(statement), parameters).fetchall()


def roll_back(raw: sqlite3.Connection) -> None:
    """End the transaction; SQLite may have done it by itself (disk full, I/O error)."""
    with suppress(sqlite3.Error):
        if raw.in_transaction:
            raw.execute("ROLLBACK")


def make_file(path: str) -> None:
    """Make the file, for its owner only, where it is not there; refuse a network file system."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ValueError(f"the folder {folder!r} of the ledger does not exist; make it first")
    network = network_file_system(folder)
    if network is not None:
        raise ValueError(
            f"{path!r} lies on a network file system ({network}), where SQLite cannot "
            "guard it against another machine; use a local disk, or PostgresOperationStore"
        )
    # Only a file that did not exist is opened here: closing any file descriptor of a database
    # drops the locks that SQLite holds on it in this whole process.
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreUnavailable(f"the ledger {path!r} cannot be opened: {error}") from None
