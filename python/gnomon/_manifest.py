"""MANIFEST.json: what an index directory consists of, checked down to the last byte before use.

The text is canonical (sorted keys, fixed spacing, ASCII) and must be exactly what :func:`encode`
would write, so any changed byte is found, in the values by the checksum and between them by the
comparison.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from . import _core

MANIFEST = "MANIFEST.json"
FORMAT = "gnomon"
VERSION = 1
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
_KEPT_BYTES_MAX = 1 << 20  # of a manifest that is remembered as intact
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")
FILE_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}-[a-z][a-z0-9_]{0,63}-[0-9]{6,19}\.gno")
_REMEDY = "restore it from a copy or build the index again"


@dataclass(frozen=True)
class FileFacts:
    """Size and table checksum (``Container.table_crc``): together they name a file's content."""

    bytes: int
    crc32c: int


@dataclass(frozen=True)
class Part:
    """One engine's share of a directory: file names by role, and its settings."""

    files: Mapping[str, str]
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Manifest:
    """A committed state of a directory."""

    generation: int
    parts: Mapping[str, Part]
    files: Mapping[str, FileFacts]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _checksum(body: Mapping[str, object]) -> str:
    return f"{_core.crc32c(_text(body).encode('ascii')):08x}"


def _seal(body: dict[str, object]) -> bytes:
    return _text({**body, "checksum": _checksum(body)}).encode("ascii")


def encode(manifest: Manifest) -> bytes:
    """The bytes of MANIFEST.json.

    ``ValueError`` or ``TypeError`` for meta that is not plain JSON (NaN, keys that are not str).
    """
    for name, part in manifest.parts.items():
        _require_json(part.meta, f"meta[{name!r}]")
    data = _seal(
        {
            "format": FORMAT,
            "version": VERSION,
            "generation": manifest.generation,
            "parts": {
                name: {"files": dict(part.files), "meta": part.meta}
                for name, part in manifest.parts.items()
            },
            "files": {
                name: {"bytes": facts.bytes, "crc32c": f"{facts.crc32c:08x}"}
                for name, facts in manifest.files.items()
            },
        }
    )
    if len(data) > MANIFEST_BYTES_MAX:
        raise ValueError(
            f"meta must fit a manifest of {MANIFEST_BYTES_MAX} bytes, got {len(data)}; "
            "put large data into a container file"
        )
    return data


def _require_json(value: object, where: str) -> None:
    """Refuse what json.dumps would change: tuples into lists, number keys into text."""
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"{where} must have str keys, got {key!r}")
            _require_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _require_json(item, f"{where}[{index}]")
    elif not (value is None or type(value) in (bool, int, float, str)):
        raise TypeError(f"{where} must be plain JSON, got {type(value).__name__}; convert it first")


@lru_cache(maxsize=16)  # an update reads the same manifests again and again
def _is_sealed(data: bytes) -> bool:
    """Whether these bytes of JSON are those that `_seal` makes of what they say."""
    raw = json.loads(data)
    return _seal({key: value for key, value in raw.items() if key != "checksum"}) == data


def decode(data: bytes, where: str) -> Manifest:
    """Check the bytes of a manifest; ``CorruptIndex`` starting with `where` says what is wrong."""

    def corrupt(what: str) -> NoReturn:
        raise _core.CorruptIndex(f"{where}: {what}; {_REMEDY}")

    if len(data) > MANIFEST_BYTES_MAX:
        corrupt(f"more than {MANIFEST_BYTES_MAX} bytes")
    try:
        # bytes in, str out: json would guess UTF-16 from a byte order mark
        raw = json.loads(data.decode("ascii"))
    except (ValueError, RecursionError):
        corrupt("not the JSON of a gnomon manifest")
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        corrupt("not a gnomon manifest")
    version = raw.get("version")
    if type(version) is int and version != VERSION:
        raise _core.CorruptIndex(
            f"{where}: format version {version}, but this gnomon reads {VERSION}; "
            "read it with the gnomon that wrote it, or build the index again"
        )
    body = {key: value for key, value in raw.items() if key != "checksum"}
    try:
        intact = _is_sealed(data) if len(data) <= _KEPT_BYTES_MAX else _seal(body) == data
    except (ValueError, RecursionError):  # a number that overflows to infinity
        intact = False
    if not intact:
        corrupt("damaged (checksum)")
    return _typed(body, corrupt)


def _typed(body: dict[str, Any], corrupt: Callable[[str], NoReturn]) -> Manifest:
    if body.keys() != {"format", "version", "generation", "parts", "files"}:
        corrupt("unexpected keys")
    generation = body["generation"]
    if type(body["version"]) is not int or type(generation) is not int or generation < 1:
        corrupt("generation must be a positive integer")
    if not isinstance(body["files"], dict) or not isinstance(body["parts"], dict):
        corrupt("files and parts must be objects")
    files = {name: _facts(name, value, corrupt) for name, value in body["files"].items()}
    parts = {name: _part(name, value, corrupt) for name, value in body["parts"].items()}
    if {file for part in parts.values() for file in part.files.values()} != files.keys():
        corrupt("the files listed are not the files that the parts use")
    return Manifest(generation, parts, files)


def _facts(name: str, value: Any, corrupt: Callable[[str], NoReturn]) -> FileFacts:
    # A plain name of our own making can lead nowhere outside the directory.
    if FILE_PATTERN.fullmatch(name) is None:
        corrupt(f"file name {name!r}")
    if not isinstance(value, dict) or value.keys() != {"bytes", "crc32c"}:
        corrupt(f"facts of file {name!r}")
    size, crc = value["bytes"], value["crc32c"]
    if type(size) is not int or size < 0:
        corrupt(f"size of file {name!r}")
    if type(crc) is not str or re.fullmatch("[0-9a-f]{8}", crc) is None:
        corrupt(f"checksum of file {name!r}")
    return FileFacts(size, int(crc, 16))


def _part(name: str, value: Any, corrupt: Callable[[str], NoReturn]) -> Part:
    if NAME_PATTERN.fullmatch(name) is None:
        corrupt(f"part name {name!r}")
    if not isinstance(value, dict) or value.keys() != {"files", "meta"}:
        corrupt(f"part {name!r}")
    files, meta = value["files"], value["meta"]
    if not isinstance(files, dict) or not isinstance(meta, dict):
        corrupt(f"part {name!r}")
    for role, file in files.items():
        if NAME_PATTERN.fullmatch(role) is None or type(file) is not str:
            corrupt(f"file {role!r} of part {name!r}")
    return Part(files, meta)


def read_bytes(folder: Path) -> bytes:
    """The manifest's bytes, a little more than :func:`decode` accepts at most."""
    path = folder / MANIFEST
    # O_NONBLOCK: opening a pipe must not wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _core.CorruptIndex(f"{path}: not a regular file; {_REMEDY}")
        # As long as the file is: read() sets aside what it is asked for.
        return file.read(min(status.st_size, MANIFEST_BYTES_MAX) + 1)


def committed(folder: Path) -> Manifest | None:
    """The manifest in force; None for a directory in which nothing was committed."""
    try:
        return decode(read_bytes(folder), str(folder / MANIFEST))
    except FileNotFoundError:
        return None
