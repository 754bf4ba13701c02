"""The type of a document, from its name and, where that says nothing, from its first bytes."""

from __future__ import annotations

import posixpath
import re

SUFFIXES = {
    "md": "markdown", "markdown": "markdown", "mdx": "mdx",
    "html": "html", "htm": "html", "xhtml": "html",
    "rst": "rst", "rest": "rst",
    "txt": "plain", "text": "plain", "log": "plain",
    "properties": "properties",
    "jsonl": "records", "ndjson": "records",
    "py": "python", "pyi": "python", "java": "java",
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx",
    "go": "go", "c": "c", "h": "c",
}  # fmt: skip
_OTHER = frozenset(
    [
        "json",
        "yaml",
        "yml",
        "toml",
        "ini",
        "cfg",
        "cnf",
        "conf",
        "xml",
        "sql",
        "sh",
        "bash",
        "zsh",
        "ps1",
        "bat",
        "rb",
        "rs",
        "php",
        "pl",
        "lua",
        "r",
        "scala",
        "kt",
        "kts",
        "swift",
        "cc",
        "cpp",
        "cxx",
        "hpp",
        "hh",
        "cs",
        "m",
        "mm",
        "proto",
        "gradle",
        "cmake",
        "mk",
        "css",
        "scss",
        "less",
        "vue",
        "svelte",
        "dart",
        "ex",
        "exs",
        "erl",
        "hs",
        "clj",
        "tf",
        "dockerfile",
        "csv",
        "tsv",
    ]
)
_MARKUP = re.compile(rb"\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)


def detect_type(path: str, head: bytes = b"") -> str:
    r"""One of `gnomon.corpus.process.PARSERS`.

    >>> [detect_type(p) for p in ("a/b.md", "A.RST.txt", "CHANGES", "x.sql", "Main.java")]
    ['markdown', 'rst', 'plain', 'other', 'java']
    >>> detect_type("page", b"<!DOCTYPE html>"), detect_type("tool", b"#!/usr/bin/env python3\n")
    ('html', 'python')
    """
    name = posixpath.basename(path).lower()
    if name.endswith((".rst.txt", ".md.txt")):
        name = name[:-4]
    stem, dot, suffix = name.rpartition(".")
    if dot and stem:
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
        if suffix in _OTHER:
            return "other"
    if _MARKUP.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "html"
    if head.startswith(b"#!"):
        return "python" if b"python" in head.split(b"\n", 1)[0] else "other"
    return "plain"


def title_of_path(path: str) -> str:
    """A title for a document that has none.

    >>> title_of_path("docs/LocalizedErrorMessages.properties")
    'LocalizedErrorMessages.properties'
    """
    return posixpath.basename(path.rstrip("/")) or path
