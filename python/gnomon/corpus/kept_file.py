"""A small JSON file that is there completely or as before, with its version and checksum.

>>> save("notes.json", "gnomon-notes", 1, {"a": [1]})
>>> load("notes.json", "gnomon-notes", 1)
{'a': [1]}
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .._atomic import replacing


def save(path: str | os.PathLike[str], form: str, version: int, body: Any) -> None:
    """Writes `body`, JSON data, in one step."""
    text = _text(body)
    whole = {"format": form, "version": version, "blake2b": _sum(text), "body": body}
    with replacing(path) as temp:
        temp.write_text(_text(whole) + "\n", encoding="utf-8")


def load(path: str | os.PathLike[str], form: str, version: int) -> Any:
    """The body. FileNotFoundError, or ValueError for what is damaged, foreign or newer."""
    place = os.fspath(path)
    try:
        whole = json.loads(Path(path).read_text(encoding="utf-8"))
        found = whole["format"], whole["version"]
        body, expected = whole["body"], whole["blake2b"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place} is damaged or no {form} file ({error}); restore it") from error
    if found[0] != form:
        raise ValueError(f"{place} is a {found[0]!r} file, not a {form} file")
    if found[1] != version:
        raise ValueError(f"{place} has version {found[1]!r}; this program reads version {version}")
    if _sum(_text(body)) != expected:
        raise ValueError(f"{place} is damaged: its checksum does not match; restore it")
    return body


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1)


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
