"""The one commit point of a corpus: a row of meta.sqlite that names all files of a generation.

    INDEX/meta.sqlite   the newest generation, and of each file when and as what it was indexed
    INDEX/seg/N         segments: documents with their text, trigrams and graph
    INDEX/sparse/N      the BM25 index of generation N
    INDEX/dense/N       the vectors, where there are any

All but meta.sqlite is immutable once it is named: written beside, brought to the disk, then named
by one SQLite transaction (write-ahead log, synchronous=FULL). What no row names is an orphan, left
by a killed writer or of an older generation; the next writer removes it. Readers have all files of
their generation open, so they keep it whatever is removed.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from .. import _core
from .model import Source
from .snapshot_model import Coverage

META = "meta.sqlite"
LOCK = ".lock"
KINDS = ("seg", "sparse", "dense")
VERSION = 2
_FILES_MOST = 50_000  # rows of files that are kept between updates: some 20 MB

_SCHEMA = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE generation (number INTEGER PRIMARY KEY, state BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE file (
    source TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    revision BLOB NOT NULL, settings BLOB NOT NULL, PRIMARY KEY (source, path)
) WITHOUT ROWID;
"""


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A directory of the index: its name below its kind, and the checksum of its manifest."""

    name: str
    crc: int


class SegmentPart(msgspec.Struct, frozen=True, array_like=True):
    """A segment, and a bitmap of its deleted documents from the lowest bit of each byte on."""

    name: str
    crc: int
    dead: bytes = b""


class State(msgspec.Struct, frozen=True):
    """What a generation consists of."""

    generation: int
    next_number: int
    sparse: Part
    segments: tuple[SegmentPart, ...] = ()
    dense: Part | None = None
    embedder: str = ""
    sources: tuple[Source, ...] = ()
    coverage: tuple[Coverage, ...] = ()


class FileRow(NamedTuple):
    """What is known of an indexed file; `mtime_ns` is -1 where only its bytes can say more."""

    path: str
    size: int
    mtime_ns: int
    revision: str
    settings: bytes


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as those that the rest of the package raises."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise OSError(errno.ENOSPC, str(error), str(path)) from error
        if "unable to open" in str(error):
            raise FileNotFoundError(errno.ENOENT, "no corpus there", str(path.parent)) from error
        raise OSError(errno.EIO, str(error), str(path)) from error
    except sqlite3.DatabaseError as error:
        raise _core.CorruptIndex(f"{path}: {error}; index again") from error


def read_state(path: str | os.PathLike[str]) -> State:
    """The newest generation. FileNotFoundError when there is none, CorruptIndex when damaged."""
    file = Path(path) / META
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "no corpus there; make one with create()", str(path))
    with database_errors(file):
        uri = f"{file.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=30)) as database:
            return _state(database, file)


def _state(database: sqlite3.Connection, file: Path) -> State:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise _core.CorruptIndex(
            f"{file}: format version {version}, this gnomon reads {VERSION}; index again"
        )
    row = database.execute(
        "SELECT state, crc FROM generation ORDER BY number DESC LIMIT 1"
    ).fetchone()
    if row is None or _core.crc32c(row[0]) != row[1]:
        raise _core.CorruptIndex(f"{file}: the state is damaged (checksum); index again")
    return msgspec.msgpack.decode(row[0], type=State)


class Database:
    """The writer's connection to meta.sqlite; only for who holds the lock."""

    def __init__(self, path: Path, create: bool = False) -> None:
        self.file = path / META
        self._files: dict[str, dict[str, FileRow]] = {}  # only the lock's holder changes the file
        with database_errors(self.file):
            mode = "rwc" if create else "rw"
            uri = f"{self.file.absolute().as_uri()}?mode={mode}"
            self._database = sqlite3.connect(
                uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            if create:
                self._database.executescript(_SCHEMA)

    def state(self) -> State:
        """The newest generation."""
        with database_errors(self.file):
            return _state(self._database, self.file)

    def files(self, source: str) -> dict[str, FileRow]:
        """What is known of a source's files, by path; not to be changed."""
        if source in self._files:
            return self._files[source]
        with database_errors(self.file):
            rows = self._database.execute(
                "SELECT path, size, mtime_ns, revision, settings FROM file WHERE source = ?",
                (source,),
            )
            found = {
                path: FileRow(path, size, mtime_ns, revision.hex(), settings)
                for path, size, mtime_ns, revision, settings in rows
            }
        if len(found) + sum(map(len, self._files.values())) <= _FILES_MOST:
            self._files[source] = found
        return found

    def commit(
        self,
        state: State,
        written: Iterable[tuple[str, FileRow]] = (),
        removed: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Makes `state` the newest generation; `written` and `removed` are files by source."""
        data = msgspec.msgpack.encode(state)
        written, removed = list(written), list(removed)
        files, self._files = self._files, {}  # stays empty when it is not sure what holds
        with database_errors(self.file):
            run = self._database.execute
            run("BEGIN IMMEDIATE")
            try:
                run("DELETE FROM generation")
                run(
                    "INSERT INTO generation VALUES (?, ?, ?)",
                    (state.generation, data, _core.crc32c(data)),
                )
                self._database.executemany(
                    "DELETE FROM file WHERE source = ? AND path = ?", removed
                )
                self._database.executemany(
                    "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        (
                            *(source, row.path, row.size, row.mtime_ns),
                            *(bytes.fromhex(row.revision), row.settings),
                        )
                        for source, row in written
                    ),
                )
                run("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back by itself
                    run("ROLLBACK")
                raise
        for source, path in removed:
            files.get(source, {}).pop(path, None)
        for source, row in written:
            if source in files:
                files[source][row.path] = row
        self._files = files

    def check(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        try:
            rows = self._database.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.DatabaseError as error:
            return [f"{self.file}: {error}"]
        return [f"{self.file}: {row[0]}" for row in rows if row[0] != "ok"]

    def close(self) -> None:
        """Closes the connection."""
        self._database.close()


def named(state: State) -> dict[str, set[str]]:
    """The directories that a state names, by kind."""
    return {
        "seg": {segment.name for segment in state.segments},
        "sparse": {state.sparse.name},
        "dense": set() if state.dense is None else {state.dense.name},
    }


def manifest_crc(folder: Path) -> int:
    """The checksum of a directory's manifest. FileNotFoundError when there is none."""
    return _core.crc32c((folder / "MANIFEST.json").read_bytes())
