"""Where links lead: from paths inside a source to the documents and sections of a view, and back.

A link says a path, perhaps without the file's ending or naming a folder, and perhaps an anchor.
What it leads to depends on what the view holds, so it is found when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .kept import Kept
from .live import Live, Spot
from .model import Document, document_id

# What a path may stand for, tried in this order: itself, without its ending, a folder's page.
_ENDINGS = (
    *("", ".md", ".mdx", ".rst", ".html", ".txt"),
    *("/README.md", "/index.md", "/index.html", "/index.rst", "/_index.md"),
)


_KNOWN_MOST = 200_000  # links whose end is kept
_ANCHORED_MOST = 1000  # documents whose anchors are kept
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


def slug(title: str) -> str:
    """The anchor that renderers of Markdown make of a heading.

    >>> slug("Server's `max_size`: notes")
    'servers-max_size-notes'
    """
    return _NOT_IN_SLUG.sub("", title.casefold()).strip().replace(" ", "-")


class Links:
    """Resolves paths within a view."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._known: Kept[tuple[str, str], str] = Kept(_KNOWN_MOST)
        self._anchors: Kept[Spot, tuple[dict[str, str], dict[str, str]]] = Kept(_ANCHORED_MOST)
        self._sources = sorted({name for segment in live.segments for name in segment.sources})

    def documents(self, path: str, source: str | None = None) -> Iterator[Document]:
        """The documents with exactly this path."""
        for name in self._sources if source is None else [source]:
            spot = self._live.document(document_id(name, path))
            if spot is not None:
                yield self._live.segments[spot.segment].document(spot.number)

    def target(self, node: str, source: str) -> str:
        """The document or section that ``path:PATH#ANCHOR`` leads to; itself where to none."""
        known = self._known.get((node, source))
        return (
            self._known.keep((node, source), self._target(node, source)) if known is None else known
        )

    def _target(self, node: str, source: str) -> str:
        path, _, anchor = node.removeprefix("path:").partition("#")
        for ending in _ENDINGS:
            spot = self._live.document(document_id(source, path + ending))
            if spot is not None:
                return self._section(spot, anchor) or f"doc:{self._doc_id(spot)}"
        return node

    def _doc_id(self, spot: Spot) -> str:
        return self._live.segments[spot.segment].docs[spot.number]

    def _section(self, spot: Spot, anchor: str) -> str:
        if not anchor:
            return ""
        known = self._anchors.get(spot)
        if known is None:
            known = self._anchors.keep(spot, self._anchors_of(spot))
        exact, folded = known
        section = exact.get(anchor) or folded.get(anchor.casefold())
        return f"section:{section}" if section else ""

    def _anchors_of(self, spot: Spot) -> tuple[dict[str, str], dict[str, str]]:
        """The first section of each anchor, and of each without regard to case or by its title."""
        exact: dict[str, str] = {}
        folded: dict[str, str] = {}
        for section in self._live.segments[spot.segment].sections(spot.number):
            exact.setdefault(section.anchor, section.id)
            for name in (section.anchor.casefold(), slug(section.title)):
                folded.setdefault(name, section.id)
        return exact, folded

    def paths(self, spot: Spot) -> list[str]:
        """Every ``path:PATH`` that can lead to a document, without an anchor."""
        segment = self._live.segments[spot.segment]
        path = segment.document(spot.number).path
        return [
            f"path:{path.removesuffix(ending)}"
            for ending in _ENDINGS
            if path.endswith(ending) and path != ending
        ]
