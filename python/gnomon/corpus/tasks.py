"""What an update is given, and which of it must be looked at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import msgspec

from .generation import FileRow
from .model import Source, revision_of
from .prepare_model import Task
from .walk import MAX_BYTES, Coverage, FoundFile, walk_sources

# A file that changed so shortly before it was read may change again within the clock's step.
_RACY_NS = 2_000_000_000


class Folder(msgspec.Struct, frozen=True):
    """A folder (or file) on disk whose documents belong to `source`."""

    source: Source | str
    top: str
    hidden: bool = False
    max_bytes: int = MAX_BYTES


class Documents(msgspec.Struct, frozen=True):
    """Documents in memory: (logical path, bytes) of each. `complete` off leaves alone what the
    source had before; on, documents that are not among these are deleted.
    """

    source: Source | str
    documents: Iterable[tuple[str, bytes]]
    complete: bool = True


class Tasks:
    """The documents of one item that must be looked at, and what is known of their files."""

    def __init__(
        self,
        item: Folder | Documents,
        known: dict[str, FileRow],
        seen: set[str],
        settings: bytes,
        walked: Coverage,
    ) -> None:
        self._item = item
        self._known = known
        self._seen = seen
        self._settings = settings
        self._walked = walked
        self.rows: dict[str, FileRow] = {}
        self.unchanged = 0
        self._newest_known = False  # whether the file that the walk looked at last is as it was

    def listed(self) -> list[tuple[Task, int]]:
        """Tasks with their bytes; what needs no look is counted as unchanged."""
        if isinstance(self._item, Documents):
            return list(self._of_memory(self._item))
        return list(self._of_folder(self._item))

    def _of_memory(self, item: Documents) -> Iterator[tuple[Task, int]]:
        for path, raw in item.documents:
            if not isinstance(path, str) or not isinstance(raw, bytes):
                raise TypeError("documents are pairs of a path (str) and the content (bytes)")
            if not self._first(path):
                continue
            self._walked.taken += 1
            self._walked.bytes_taken += len(raw)
            row = self._known.get(path)
            revision = revision_of(raw)
            if row is not None and row.revision == revision and row.settings == self._settings:
                self.unchanged += 1
                continue
            self.rows[path] = FileRow(path, len(raw), -1, revision, self._settings)
            yield Task(path, "", raw, ""), len(raw)

    def _of_folder(self, item: Folder) -> Iterator[tuple[Task, int]]:
        now = time.time_ns()
        found = walk_sources(
            item.top,
            self._walked,
            hidden=item.hidden,
            max_bytes=item.max_bytes,
            known=self._is_known,
        )
        seen = self._seen
        for file in found:
            if file.path in self._known and file.path not in seen:  # its name was taken before
                seen.add(file.path)
            elif not self._first(file.path):
                self._walked.taken -= 1
                continue
            if self._newest_known:
                self.unchanged += 1
                continue
            row = self._known.get(file.path)
            may_skip = row is not None and row.settings == self._settings
            mtime = file.mtime_ns if file.mtime_ns < now - _RACY_NS else -1
            revision = row.revision if row is not None and may_skip else ""
            self.rows[file.path] = FileRow(file.path, file.size, mtime, revision, self._settings)
            yield Task(file.path, file.place, None, revision), file.size

    def _is_known(self, file: FoundFile) -> bool:
        row = self._known.get(file.path)
        self._newest_known = (
            row is not None
            and row.mtime_ns == file.mtime_ns
            and row.size == file.size
            and row.settings == self._settings
        )
        return self._newest_known

    def _first(self, path: str) -> bool:
        """Whether the document is the first of its path, and may be taken at all."""
        if path in self._seen:
            self._walked.leave_out(path, "excluded", "a document of this path came before")
            return False
        if not path.isascii():
            try:
                path.encode()
            except UnicodeEncodeError:
                self._walked.leave_out(path, "unreadable", "its name is not UTF-8")
                return False
        self._seen.add(path)
        return True
