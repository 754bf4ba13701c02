"""Globs over logical paths."""

from __future__ import annotations

import re


def path_pattern(glob: str) -> re.Pattern[str]:
    """What a glob means: ``?`` and ``*`` do not match ``/``, ``**`` does.

    >>> [bool(path_pattern("docs/**/*.md").fullmatch(p)) for p in ("docs/a.md", "docs/b/c/d.md")]
    [True, True]
    >>> bool(path_pattern("docs/*.md").fullmatch("docs/b/c.md"))
    False
    """
    out, at = [], 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            out.append(".*")
            at += 2
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(glob[at]) or re.escape(glob[at]))
            at += 1
    return re.compile("".join(out), re.DOTALL)
