r"""Walks the folders of a source and accounts for every file: taken, or left out and why.

>>> import pathlib
>>> _ = pathlib.Path("a.md").write_text("# A"), pathlib.Path("b.bin").write_bytes(b"\0\1")
>>> coverage = Coverage()
>>> [found.path for found in walk_sources(".", coverage)], coverage.left_out
(['a.md'], [('b.bin', 'binary', 'zero bytes among the first 8,192')])
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import NamedTuple

MAX_BYTES = 64 << 20
_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16 and, with zeros behind, UTF-32


class FoundFile(NamedTuple):
    """A file to process: its logical path with ``/``, its place on disk, its size and its time."""

    path: str
    place: str
    size: int
    mtime_ns: int


@dataclass
class Coverage:
    """What a walk saw: files and bytes taken, and each file or folder left out with its reason.

    Reasons: hidden, binary, too large, not a regular file, unreadable, visited before (a link to a
    folder that was walked already), excluded.
    """

    taken: int = 0
    bytes_taken: int = 0
    left_out: list[tuple[str, str, str]] = field(default_factory=list)

    def leave_out(self, path: str, reason: str, detail: str = "") -> None:
        """Notes one file or folder that is not taken."""
        self.left_out.append((path, reason, detail))

    def counts(self) -> dict[str, int]:
        """How many were left out for each reason."""
        found: dict[str, int] = {}
        for _, reason, _ in self.left_out:
            found[reason] = found.get(reason, 0) + 1
        return found


def walk_sources(
    top: str | os.PathLike[str],
    coverage: Coverage,
    *,
    hidden: bool = False,
    max_bytes: int = MAX_BYTES,
    known: Callable[[FoundFile], bool] | None = None,
) -> Iterator[FoundFile]:
    """Yields the text files under the folder `top` (or the file `top`) in sorted order.

    Links are followed; a folder is walked once however many lead to it, so loops end. `hidden`
    takes files and folders whose name begins with a dot as well. All that is not yielded stands in
    `coverage` when the walk is over. A file that is `known` by its name, size and time is yielded
    without a look into it.

    Raises FileNotFoundError when `top` does not exist, ValueError when `max_bytes` is below 1.
    """
    if max_bytes < 1:
        raise ValueError(f"max_bytes must be at least 1, got {max_bytes}")
    root = os.fspath(top)
    if not os.path.exists(root):
        raise FileNotFoundError(f"no such file or folder: {root}")
    return _walk(root, coverage, hidden, max_bytes, known)


def _walk(
    root: str,
    coverage: Coverage,
    hidden: bool,
    max_bytes: int,
    known: Callable[[FoundFile], bool] | None,
) -> Iterator[FoundFile]:
    if not os.path.isdir(root):
        look = partial(os.stat, root)
        found = _file(look, root, os.path.basename(root), coverage, max_bytes, known)
        if found is not None:
            yield found
        return
    visited: set[tuple[int, int]] = set()
    waiting = [(root, "")]
    while waiting:
        place, path = waiting.pop()
        try:
            status = os.stat(place)
            identity = status.st_dev, status.st_ino
            if identity in visited:
                coverage.leave_out(path, "visited before")
                continue
            visited.add(identity)
            fd, entries = _entries(place)
        except OSError as error:
            coverage.leave_out(path or ".", "unreadable", error.strerror or str(error))
            continue
        folders = []
        before = os.path.join(place, "")
        above = f"{path}/" if path else ""
        try:
            for entry in entries:
                name = entry.name
                if name[0] == "." and not hidden:
                    coverage.leave_out(above + name, "hidden")
                elif _is_folder(entry):
                    folders.append((before + name, above + name))
                else:
                    inner, inner_path = before + name, above + name
                    found = _file(entry.stat, inner, inner_path, coverage, max_bytes, known)
                    if found is not None:
                        yield found
        finally:
            os.close(fd)
        waiting += reversed(folders)


def _entries(place: str) -> tuple[int, list[os.DirEntry[str]]]:
    """An open folder and its entries by name: what they are is asked below it, in a third less
    time than by their whole paths.
    """
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(fd) as found:
            return fd, sorted(found, key=attrgetter("name"))
    except BaseException:
        os.close(fd)
        raise


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a circle
        return False


def _file(
    look: Callable[[], os.stat_result],
    place: str,
    path: str,
    coverage: Coverage,
    max_bytes: int,
    known: Callable[[FoundFile], bool] | None,
) -> FoundFile | None:
    """The file, unless it is left out."""
    try:
        status = look()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            coverage.leave_out(path, "not a regular file")
            return None
        if status.st_size > max_bytes:
            detail = f"{status.st_size:,} bytes, max_bytes is {max_bytes:,}"
            coverage.leave_out(path, "too large", detail)
            return None
        found = FoundFile(path, place, status.st_size, status.st_mtime_ns)
        head = b""
        if known is None or not known(found):
            with open(place, "rb", buffering=0) as file:
                head = file.read(8192)
    except OSError as error:
        coverage.leave_out(path, "unreadable", error.strerror or str(error))
        return None
    if b"\0" in head and not head.startswith(_MARKS):
        coverage.leave_out(path, "binary", "zero bytes among the first 8,192")
        return None
    coverage.taken += 1
    coverage.bytes_taken += status.st_size
    return found
