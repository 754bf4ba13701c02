"""The fields that a query or a filter may name."""

from __future__ import annotations

#: Names of metadata, and the column of the sparse index, or the graph's part, that each is.
META_FIELDS = {
    "path": "path",
    "file": "path",
    "folder": "folder",
    "source": "source",
    "source_kind": "source_kind",
    "type": "type",
    "lang": "language",
    "language": "language",
    "version": "version",
    "kind": "kind",
    "trust": "trust",
    "date": "date",
    "tag": "tag",
    "tags": "tag",
    "doc": "doc",
    "section_id": "within",
    "entity": "entity",
    "error": "error",
}
#: What a document says of itself in its front matter or fields, and what that is called there.
DECLARED = {
    "date": ("date", "lastmod", "last_modified", "updated", "published", "created"),
    "tag": ("tags", "tag", "keywords", "categories", "labels"),
}
#: Names of text, and the name of the group of the sparse index's fields that each searches.
TEXT_FIELDS = {
    "title": "title",
    "heading": "heading",
    "section": "heading",
    "text": "text",
    "body": "text",
    "code": "code",
}
#: The fields of the sparse index in each group.
INDEX_FIELDS = {
    "title": ("title",),
    "heading": ("heading",),
    "text": ("body", "code"),
    "code": ("code",),
}
#: Types of entities that ``error:`` looks for.
ERROR_TYPES = ("error_code", "error_symbol", "sqlstate")
FIELDS = frozenset({*META_FIELDS, *TEXT_FIELDS})
