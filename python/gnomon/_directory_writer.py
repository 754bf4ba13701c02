"""The writing half of :mod:`gnomon.storage`: build beside, bring to the disk, swap in one step."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from . import _core
from ._lock import Lock
from ._manifest import (
    FILE_PATTERN,
    MANIFEST,
    NAME_PATTERN,
    FileFacts,
    Manifest,
    Part,
    committed,
    encode,
)

MANIFEST_TEMP = "MANIFEST.json.tmp"
LOCK = ".lock"

CRASH_POINTS = (
    "after_files",
    "after_fsync_files",
    "after_manifest_temp",
    "after_manifest_rename",
    "before_directory_rename",
    "after_directory_rename",
    "before_cleanup",
)


def _no_crash(name: str) -> None:
    """Does nothing; tests put a function here that kills the process at a named point."""


_crash_point: Callable[[str], None] = _no_crash


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_ours(name: str) -> bool:
    return name in (LOCK, MANIFEST_TEMP) or FILE_PATTERN.fullmatch(name) is not None


def _remove_unreferenced(folder: Path) -> None:
    """Delete our files that the manifest on the disk does not name (never anyone else's files)."""
    manifest = committed(folder)
    keep = {LOCK, *(manifest.files if manifest is not None else ())}
    for name in os.listdir(folder):
        if _is_ours(name) and name not in keep:
            os.unlink(folder / name)


class DirectoryWriter:
    """Writes a new state of an index directory: all of it or nothing.

    Use it as a context manager; without :meth:`commit`, or after an exception, the target stays as
    it was.

    Parameters
    ----------
    path:
        The directory: new, empty, or a gnomon directory whose content is to be replaced. Its parent
        must exist.
    lock:
        The lock file of an existing gnomon directory, held by the caller, who keeps it. Without it
        the writer takes a lock for as long as it is entered.
    sync:
        Called with each path that is to be brought to the disk, while it has that name, in place of
        waiting for the disk. For a directory that nothing names yet: the caller waits for all of
        them before it names it.

    Raises
    ------
    FileExistsError
        On entering: the path holds something else.
    BlockingIOError
        On entering: another writer, alive, is at work on the same path.

    Examples
    --------
    >>> import tempfile, pathlib, numpy
    >>> from gnomon import _core
    >>> from gnomon.storage import Directory, DirectoryWriter
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "index"
    >>> with DirectoryWriter(target) as writer:
    ...     file = _core.ContainerWriter(writer.file("dense", "vectors"))
    ...     file.section("values", numpy.arange(3.0))
    ...     file.finish()
    ...     writer.commit({"dense": {"metric": "cosine"}})
    >>> directory = Directory.open(target)
    >>> directory.meta("dense"), directory.container("dense", "vectors").array("values")
    ({'metric': 'cosine'}, array([0., 1., 2.]))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lock: Lock | None = None,
        sync: Callable[[Path], None] | None = None,
    ) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or text == "":
            raise ValueError(f"path must name a directory, got {text!r}")
        self._target = Path(os.path.realpath(text))
        self._folder = self._target  # where the files are built
        self._lock: Lock | None = None
        self._held = lock
        self._sync = sync
        self._previous: Manifest | None = None
        self._parts: dict[str, dict[str, str]] = {}
        self._replaced = False  # the new manifest has taken the place of the old one
        self._committed = False

    def __enter__(self) -> DirectoryWriter:
        if self._lock is not None or self._committed:
            raise RuntimeError("a DirectoryWriter is used once: make a new one")
        try:
            if self._held is None and not self._target.exists():
                self._enter_new()
            else:
                self._enter_existing()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # What goes is decided by the manifest on the disk: an interrupt may come between the
            # rename and the flag. After the rename nothing goes: if it then failed to reach the
            # disk, a power cut may bring the old state back.
            with suppress(OSError, _core.CorruptIndex):
                if self._folder != self._target:
                    shutil.rmtree(self._folder, ignore_errors=True)
                elif not self._replaced:
                    _remove_unreferenced(self._folder)
        finally:
            self._release()

    def file(self, part: str, name: str) -> str:
        """The path at which to write (``ContainerWriter(path)``) the file `name` of `part`.

        Names are 1 to 64 of ``a-z 0-9 _``, starting with a letter; ``ValueError`` otherwise or when
        used before.
        """
        generation = self._previous.generation + 1 if self._previous is not None else 1
        file = f"{part}-{name}-{generation:06d}.gno"
        self._add(part, name, file)
        return str(self._folder / file)

    def keep(self, part: str, name: str) -> None:
        """Take the file `name` of `part` over from the present state, unchanged."""
        parts = self._previous.parts if self._previous is not None else {}
        if part not in parts or name not in parts[part].files:
            raise ValueError(f"{self._target} has no file {name!r} in part {part!r} to keep")
        self._add(part, name, parts[part].files[name])

    def commit(self, meta: Mapping[str, Mapping[str, Any]]) -> None:
        """Make the files the new state of the directory, with `meta` (plain JSON) by part.

        When it returns, the new state is on the disk. ``CorruptIndex`` when a file was not
        finished, ``FileNotFoundError`` when one was not written, ``OSError`` from the disk: the old
        state stays.
        """
        self._require_open()
        manifest = self._manifest(meta)
        data = encode(manifest)
        _crash_point("after_files")
        if self._sync is None:
            for name in manifest.files:
                _fsync(self._folder / name)
            _fsync(self._folder)  # before the manifest names them
        else:  # what counts is what the caller names; files of the state before are on the disk
            before = self._previous.files if self._previous is not None else {}
            for name in manifest.files.keys() - before.keys():
                self._sync(self._folder / name)
        _crash_point("after_fsync_files")
        self._replace_manifest(data)
        if self._folder != self._target:
            self._move_into_place()
        self._committed = True
        _crash_point("before_cleanup")
        # The new state stands. What cannot be deleted now is left to the next writer. A directory
        # moved into place holds nothing else, and may have its next writer already.
        if self._folder == self._target:
            with suppress(OSError):
                _remove_unreferenced(self._target)

    def _require_open(self) -> None:
        if self._lock is None:
            raise RuntimeError("use DirectoryWriter in a with statement")
        if self._committed:
            raise RuntimeError("already committed: make a new DirectoryWriter for the next state")

    def _add(self, part: str, name: str, file: str) -> None:
        self._require_open()
        for what, value in (("part", part), ("name", name)):
            if NAME_PATTERN.fullmatch(value) is None:
                raise ValueError(f"{what} must be a-z, 0-9 or _, from a letter on, got {value!r}")
        if name in self._parts.setdefault(part, {}):
            raise ValueError(f"file {name!r} of part {part!r} is already in this state")
        self._parts[part][name] = file

    def _manifest(self, meta: Mapping[str, Mapping[str, Any]]) -> Manifest:
        for name in meta:
            if NAME_PATTERN.fullmatch(name) is None:
                raise ValueError(f"part must be a-z, 0-9 or _, from a letter on, got {name!r}")
        parts = {
            part: Part(self._parts.get(part, {}), dict(meta.get(part, {})))
            for part in self._parts.keys() | meta.keys()
        }
        facts = {}
        for part in parts.values():
            for file in part.files.values():
                container = _core.Container(self._folder / file)
                facts[file] = FileFacts(container.file_bytes, container.table_crc)
        generation = self._previous.generation + 1 if self._previous is not None else 1
        return Manifest(generation, parts, facts)

    def _bring(self, path: Path) -> None:
        """Brings a file or the entries of a directory to the disk, now or with the caller's."""
        (self._sync or _fsync)(path)

    def _replace_manifest(self, data: bytes) -> None:
        temp = self._folder / MANIFEST_TEMP
        with open(temp, "xb") as file:
            file.write(data)
            file.flush()
            if self._sync is None:
                os.fsync(file.fileno())
            else:
                self._sync(temp)
        _crash_point("after_manifest_temp")
        os.replace(temp, self._folder / MANIFEST)
        self._replaced = True
        self._bring(self._folder)
        _crash_point("after_manifest_rename")

    def _move_into_place(self) -> None:
        _crash_point("before_directory_rename")
        try:
            os.rename(self._folder, self._target)
        except OSError as error:
            if self._target.exists():
                raise self._occupied("appeared while the index was written") from error
            raise
        _crash_point("after_directory_rename")
        self._bring(self._target.parent)

    # Entering

    def _beside(self, suffix: str) -> Path:
        """A hidden path beside the target; a long name is replaced so that it still fits."""
        name = self._target.name
        raw = os.fsencode(name)
        if len(raw) > 200:
            name = f"{_core.crc32c(raw):08x}"
        return self._target.with_name(f".{name}{suffix}")

    def _enter_new(self) -> None:
        parent = self._target.parent
        if not parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such directory; make it first", str(parent))
        self._lock = Lock(self._beside(".lock"), self._target)
        if self._target.exists():  # another writer was faster
            self._release()
            self._enter_existing()
            return
        for leftover in self._leftovers_beside():
            shutil.rmtree(leftover)
        self._folder = self._beside(f".tmp-{os.getpid()}-{secrets.token_hex(4)}")
        self._folder.mkdir()

    def _enter_existing(self) -> None:
        self._check_replaceable()  # before the lock file: leave a directory not ours untouched
        self._lock = self._held or Lock(self._target / LOCK, self._target)
        self._previous = self._check_replaceable()
        _remove_unreferenced(self._target)
        if self._beside(".lock").exists():  # a writer was killed before its last step
            with suppress(OSError):
                lock = Lock(self._beside(".lock"), self._target)
                for leftover in self._leftovers_beside():
                    shutil.rmtree(leftover, ignore_errors=True)
                lock.release()

    def _check_replaceable(self) -> Manifest | None:
        if not self._target.is_dir():
            raise self._occupied("is a file")
        try:
            manifest = committed(self._target)
        except _core.CorruptIndex as error:
            raise self._occupied(f"holds a manifest that cannot be read ({error})") from error
        if manifest is None and not all(map(_is_ours, os.listdir(self._target))):
            raise self._occupied("is not empty and not a gnomon index")
        return manifest

    def _occupied(self, why: str) -> FileExistsError:
        text = f"will not overwrite: it {why}; remove it or choose another path"
        return FileExistsError(errno.EEXIST, text, str(self._target))

    def _leftovers_beside(self) -> Iterator[Path]:
        pattern = re.compile(re.escape(self._beside(".tmp-").name) + "[0-9]+-[0-9a-f]{8}")
        for entry in list(os.scandir(self._target.parent)):
            if pattern.fullmatch(entry.name) is not None and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)

    def _release(self) -> None:
        if self._lock is not None and self._lock is not self._held:
            self._lock.release()
        self._lock = None
