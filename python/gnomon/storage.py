"""Index directories: container files beside a manifest that is replaced atomically.

A reader sees one committed state completely or another one, whatever happens to the writer.

* A path that does not exist: everything is built in a hidden directory beside it, brought to the
  disk, and renamed into place.
* An existing directory (empty, or a gnomon directory): new files get names of the next generation,
  then ``MANIFEST.json`` is replaced, then the files that it no longer names are deleted. Readers
  that mapped them keep them.
* Anything else at that path is left as it is: ``FileExistsError``.

One writer at a time holds a lock (``flock``) on the target, so whatever else lies around was left
by a killed writer, and the next one removes it.

Nothing here ever writes into a committed file or makes it shorter, because readers have it mapped:
who does that from outside (``cp`` or ``truncate`` onto a file of an index, rather than a rename)
ends every process that then reads behind its new end, by SIGBUS. A file that is cut off already is
refused when it is opened.
"""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _core
from ._directory_writer import DirectoryWriter
from ._manifest import MANIFEST, FileFacts, Manifest, Part, decode, read_bytes

__all__ = ["Directory", "DirectoryWriter"]

# Each attempt after the first means that a writer committed meanwhile.
_OPEN_ATTEMPTS_MAX = 1000


class Directory:
    """An opened index directory: one committed state, kept readable while this object lives.

    All its files are open from the start, so a writer may replace the directory meanwhile.
    """

    def __init__(
        self, path: Path, manifest: Manifest, containers: Mapping[str, _core.Container]
    ) -> None:
        self.path = path
        self.generation = manifest.generation
        self._parts = manifest.parts
        self._containers = containers

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Directory:
        """Open the state that is committed at `path`.

        ``FileNotFoundError`` when there is none, ``CorruptIndex`` when it is damaged or of another
        format version, ``OSError`` when it cannot be read.
        """
        folder = Path(os.fspath(path))
        for _ in range(_OPEN_ATTEMPTS_MAX):
            data = cls._manifest_bytes(folder)
            try:
                manifest = decode(data, str(folder / MANIFEST))
                containers = {
                    name: _open_container(folder / name, facts)
                    for name, facts in manifest.files.items()
                }
                return cls(folder, manifest, containers)
            except (FileNotFoundError, _core.CorruptIndex) as error:
                # A writer may have replaced the state meanwhile; else the damage is real.
                if cls._manifest_bytes(folder) != data:
                    continue
                if isinstance(error, FileNotFoundError):
                    raise _core.CorruptIndex(
                        f"{error.filename}: missing, though the manifest names it; "
                        "restore it from a copy or build the index again"
                    ) from error
                raise
        raise BlockingIOError(errno.EAGAIN, "replaced faster than it can be opened", str(folder))

    @staticmethod
    def _manifest_bytes(folder: Path) -> bytes:
        try:
            return read_bytes(folder)
        except FileNotFoundError as error:
            what = (
                f"no {MANIFEST} in it: not a gnomon index, or one that was never finished"
                if folder.is_dir()
                else "no gnomon index there; build one and save it to this path"
            )
            raise FileNotFoundError(errno.ENOENT, what, str(folder)) from error

    def parts(self) -> list[str]:
        """The names of the parts, sorted."""
        return sorted(self._parts)

    def meta(self, part: str) -> dict[str, Any]:
        """A copy of the settings that were committed with `part`."""
        try:
            return copy.deepcopy(dict(self._part(part).meta))
        except RecursionError:
            raise _core.CorruptIndex(
                f"{self.path / MANIFEST}: the settings of part {part!r} are nested too deeply; "
                "restore it from a copy or build the index again"
            ) from None

    def files(self, part: str) -> list[str]:
        """The names of the files of `part`, sorted."""
        return sorted(self._part(part).files)

    def container(self, part: str, name: str) -> _core.Container:
        """The open container file `name` of `part`; ``CorruptIndex`` when there is none."""
        files = self._part(part).files
        if name not in files:
            raise _core.CorruptIndex(
                f"{self.path}: no file {name!r} in part {part!r}; build the index again"
            )
        return self._containers[files[name]]

    def verify(self) -> None:
        """Check every byte of every file; ``CorruptIndex`` names file, section and block."""
        for container in self._containers.values():
            container.verify()

    def _part(self, part: str) -> Part:
        if part not in self._parts:
            has = ", ".join(self.parts()) or "none"
            raise _core.CorruptIndex(
                f"{self.path}: no part {part!r} (parts: {has}); "
                "was it written by another kind of index?"
            )
        return self._parts[part]


def _open_container(path: Path, facts: FileFacts) -> _core.Container:
    container = _core.Container(path)
    if (container.file_bytes, container.table_crc) != (facts.bytes, facts.crc32c):
        raise _core.CorruptIndex(
            f"{path}: not the file that the manifest names (size or checksum differ); "
            "restore it from a copy or build the index again"
        )
    return container
