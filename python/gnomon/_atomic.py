"""Single files that are there completely, or as they were before."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A hidden path beside `path` to write to; at the end it is on the disk and takes its place.

    After an exception it is gone and `path` is as it was. A killed writer leaves a file that
    :func:`remove_leftovers` finds.

    >>> with replacing("figures.txt") as temp:
    ...     size = temp.write_text("1 2 3")
    >>> Path("figures.txt").read_text()
    '1 2 3'
    """
    require_plain(path)
    target = Path(os.path.realpath(os.fspath(path)))
    temp = target.with_name(f".{target.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield temp
        sync(temp)
        os.replace(temp, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temp)
        if isinstance(error, OSError):
            unnamed = error.filename is None and error.errno in _NO_ROOM  # from write or fsync
            if unnamed or str(error.filename) == str(temp):
                error.filename = str(target)  # the name that the caller knows
        raise
    sync(target.parent)


def require_plain(path: str | os.PathLike[str]) -> None:
    """Raises OSError for a pipe or a device: a rename would put a file in its place, for root."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(errno.EINVAL, "not a regular file; it is left alone", os.fspath(path))


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Deletes what killed writers of `path` left; only for who holds the lock on it."""
    target = Path(os.path.realpath(os.fspath(path)))
    for leftover in target.parent.glob(f".{_escaped(target.name)}.tmp-*-*"):
        with suppress(FileNotFoundError):
            os.unlink(leftover)


def sync(path: Path) -> None:
    """Brings a file or the entries of a directory to the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
