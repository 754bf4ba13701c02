"""Walks files and folders and yields their documents; what cannot be read becomes a report.

A text file (.md .markdown .txt .rst .py, or any other file named by its own path) and an HTML file
are one document each. A record file (.jsonl .ndjson .csv .tsv .parquet) is streamed and gives one
document for each record. A file that is not what it should be never stops the others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from . import records
from .documents import Document, Options, Problems, UnreadableError, read_text, suffix_of
from .html_text import html_to_text

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".rst", ".py"})
HTML_SUFFIXES = frozenset({".html", ".htm"})
RECORD_SUFFIXES = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"})
_KNOWN = TEXT_SUFFIXES | HTML_SUFFIXES | RECORD_SUFFIXES


class Sources:
    """The documents under `paths`, one after the other; iterate once.

    A folder is walked in sorted order; hidden files and folders in it are left out, files of other
    kinds are counted in `other_files`, and a folder that links lead to twice is read once. A file
    named by its own path is always taken. `bytes_read` grows while iterating, to `bytes_total`.

    Raises FileNotFoundError when a path does not exist.
    """

    def __init__(self, paths: Sequence[str], options: Options | None = None) -> None:
        self.options = options or Options()
        self.problems = Problems()
        self.other_files = 0
        self.bytes_read = 0
        self.files: dict[str, int] = {}
        self._folders: set[tuple[int, int]] = set()
        for path in paths:
            if not os.path.lexists(path):
                raise FileNotFoundError(f"no such file or folder: {path}")
            if os.path.isdir(path):
                self._walk(path)
            else:
                self._take(path)
        self.bytes_total = sum(self.files.values())

    def __iter__(self) -> Iterator[Document]:
        done = 0
        for path, size in self.files.items():
            try:
                yield from self._read(path)
            except UnreadableError as problem:
                self.problems.add(problem.reason, path, problem.detail)
            except OSError as error:
                self.problems.add("unreadable", path, error.strerror or str(error))
            done += size
            self.bytes_read = done

    def _walk(self, top: str) -> None:
        folders = [top]
        while folders:
            folder = folders.pop()
            try:
                status = os.stat(folder)
                if (status.st_dev, status.st_ino) in self._folders:
                    continue
                self._folders.add((status.st_dev, status.st_ino))
                names = sorted(os.listdir(folder))
            except OSError as error:
                self.problems.add("unreadable", folder, error.strerror or str(error))
                continue
            inner = []
            for name in names:
                path = os.path.join(folder, name)
                if name.startswith("."):
                    continue
                if os.path.isdir(path):
                    inner.append(path)
                elif suffix_of(path) in _KNOWN:
                    self._take(path)
                else:
                    self.other_files += 1
            folders.extend(reversed(inner))

    def _take(self, path: str) -> None:
        try:
            status = os.stat(path)
        except OSError as error:
            self.problems.add("unreadable", path, error.strerror or str(error))
            return
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            self.problems.add("not a regular file", path)
            return
        # Normal form, so that a file named twice is read once; but after a link, x/../y is not y.
        name = path if os.pardir in path.split(os.sep) else os.path.normpath(path)
        self.files[name] = status.st_size

    def _read(self, path: str) -> Iterator[Document]:
        suffix = suffix_of(path)
        if suffix in RECORD_SUFFIXES:
            before = self.bytes_read
            for document, done in records.read(path, suffix, self.options, self.problems):
                self.bytes_read = before + done
                yield document
            return
        text = read_text(path, self.options)
        if suffix in HTML_SUFFIXES:
            text = html_to_text(text)
        if not text or text.isspace():
            raise UnreadableError("empty")
        is_html = suffix in HTML_SUFFIXES
        yield Document(path, text, line=0 if is_html else 1, lines=not is_html)
