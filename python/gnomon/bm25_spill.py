"""Segments that do not fit into memory: written to temporary files and mapped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from . import _core


class Spill:
    """A folder for temporary files, in TMPDIR or the system's place for them.

    A file goes as soon as it is mapped; its space on the disk is freed when the mapping goes.
    """

    def __init__(self) -> None:
        import tempfile  # here: `import gnomon` stays fast

        self._folder = tempfile.mkdtemp(prefix="gnomon-")
        self._next = 0

    def path(self) -> str:
        """Where to write one more file, which :meth:`opened` maps."""
        self._next += 1
        return os.path.join(self._folder, f"{self._next}.gno")

    def keep(self, write: Callable[[_core.ContainerWriter], None]) -> _core.Bm25Index:
        """The segment that `write` writes, mapped."""
        path = self.path()
        writer = _core.ContainerWriter(path)
        write(writer)
        writer.finish()
        container = _core.Container(path)
        os.unlink(path)
        return _core.Bm25Index.open(container)

    def opened(self) -> _core.Container:
        """The one file that lies in the folder."""
        (name,) = os.listdir(self._folder)
        return _core.Container(os.path.join(self._folder, name))

    def close(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
