"""Finds the relations that a document shows, each with the bytes that show it.

Structure (parent, next), links (links-to, see-also), what headings and tables define, spellings of
one thing (alias-of), releases (introduced-in), errors and what is said to cause or fix them, and
names that stand in one chunk (co-occurs). Relations of code come from its parser.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from urllib.parse import unquote

from .. import _core
from .assemble import Draft, SectionDraft
from .builder import Edge, Parsed
from .mention_places import Mention
from .mentions import Finder
from .names import key_of

_SEE_ALSO = re.compile(
    r"\b(?:see also|related (?:links|topics|pages|resources)|further reading)\b", re.I
)
_CAUSES = re.compile(r"\bcauses?\b", re.I)
_FIXES = re.compile(
    r"\b(?:fix(?:es)?|solutions?|resolutions?|workarounds?|how to (?:fix|resolve|solve))\b", re.I
)
_SINCE = re.compile(
    rb"\b(?:introduced|added|available|since|as of|starting (?:with|from))\b[\s:*_|`]*"
    rb"(?:in|since|with|from|as of)?[\s*_\[(`]*"
    rb"(?:the )?(?:mariadb|mysql|connector/\w+|version|release|server|community|enterprise"
    rb"|[\s\[*_])*v?$",
    re.I,
)
_FIX_WORD = re.compile(rb"\b(?:fix(?:ed|es)?|resolved?)\b[^\n.]{0,40}$", re.I)
_RELEASE = re.compile(r"\d+(?:\.\d+)+[\w.-]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PAIRED = frozenset(
    {"error_code", "error_symbol", "option", "function", "class", "env_var", "sqlstate"}
)
CO_OCCURS_MAX = 6  # names of one chunk that are paired: 15 pairs


class Relations:
    """Gathers the relations of one document; `find` gives them in no particular order."""

    def __init__(self, finder: Finder, mentions: Sequence[Mention], doc_id: str, path: str) -> None:
        self.parsed: Parsed = finder.parsed
        self.sections: Sequence[SectionDraft] = finder.sections
        self.drafts: Sequence[Draft] = finder.drafts
        self.finder = finder
        self.mentions = mentions
        self.doc_id = doc_id
        self.path = path
        self.section_starts = [section.start for section in self.sections]
        self.places = [mention.start for mention in mentions]
        self._folder = posixpath.dirname(path)
        self._targets: dict[str, str] = {}

    def find(self, derived: bool = True) -> list[Edge]:
        """All relations; without `derived` those that the tree of sections says by itself are left
        out.
        """
        edges: list[Edge] = []
        for edge in self.parsed.edges:
            source, target = _normal(edge.source), _normal(edge.target)
            edges.append(edge._replace(source=source, target=target))
        if derived:
            edges += self._structure()
        edges += self._links()
        edges += self._definitions()
        edges += self._releases()
        edges += self._errors()
        edges += self._aliases()
        edges += self._together()
        return edges

    def section_at(self, place: int) -> int:
        return max(bisect_right(self.section_starts, place) - 1, 0)

    def subject(self, section: int) -> Mention | None:
        """What the heading of the section, or of the nearest one above it, defines."""
        while section >= 0:
            if section in self.finder.defined:
                return self.finder.defined[section]
            section = self.sections[section].parent
        return None

    def _span(self, section: int) -> tuple[int, int]:
        heading = self.sections[section].heading
        if heading is not None:
            return heading.start, heading.end
        return self.sections[section].start, self.sections[section].start

    def _structure(self) -> Iterator[Edge]:
        for number, section in enumerate(self.sections):
            node = f"section:{section.id}"
            if section.parent >= 0:
                above = f"section:{self.sections[section.parent].id}"
                yield Edge("parent", node, above, *self._span(number))
            if number > 0:
                before = f"section:{self.sections[number - 1].id}"
                yield Edge("next", before, node, *self._span(number))

    def _links(self) -> Iterator[Edge]:
        targets = self._targets
        see_also: dict[int, bool] = {}  # of sections
        for link in self.parsed.links:
            target = targets.get(link.url)
            if target is None:
                target = targets[link.url] = self.target(link.url)
            if not target:
                continue
            number = self.section_at(link.start)
            section = self.sections[number]
            also = see_also.get(number)
            if also is None:
                also = bool(section.path and _SEE_ALSO.search(section.path[-1]))
                see_also[number] = also
            if also:
                place = section.parent if section.parent >= 0 else number
                subject = self.subject(number)
                source = f"section:{self.sections[place].id}"
                yield Edge("see-also", source, target, link.start, link.end)
                if subject is not None:
                    key = key_of(subject.type, subject.name)
                    yield Edge("see-also", key, target, link.start, link.end)
            else:
                yield Edge("links-to", f"section:{section.id}", target, link.start, link.end)

    def target(self, url: str) -> str:
        """The node that a link points to; "" for none."""
        url = url.strip()
        if url[:1] in ("#", "?"):
            anchor = url.partition("#")[2]
            full = posixpath.normpath(self.path)
            return f"path:{full}#{anchor}" if anchor else f"path:{full}"
        node = _core.link_target(self._folder, url)
        return _target(self._folder, url) if node is None else node

    def _definitions(self) -> Iterator[Edge]:
        if self.parsed.language:
            return
        seen: set[tuple[str, str]] = set()
        for mention in self.mentions:
            if mention.role != "defines":
                continue
            key = key_of(mention.type, mention.name)
            if mention.type == "parameter":
                owner = key_of("function", mention.name.rpartition(".")[0])
                yield Edge("parameter-of", key, owner, mention.start, mention.end)
                continue
            node = f"section:{self.sections[self.section_at(mention.start)].id}"
            if (node, key) not in seen:
                seen.add((node, key))
                yield Edge("defines", node, key, mention.start, mention.end)

    def _releases(self) -> Iterator[Edge]:
        """introduced-in: "since 5.1.31", "Introduced: MariaDB 10.1" under what is defined."""
        data = self.parsed.data
        for mention in self.mentions:
            if mention.type != "version":
                continue
            before = data[max(mention.start - 64, 0) : mention.start]
            line = before.rsplit(b"\n", 1)[-1]
            if not _SINCE.search(line):
                continue
            subject = self._in_row(mention) or self.subject(self.section_at(mention.start))
            if subject is not None and subject.type not in ("version", "identifier"):
                source = key_of(subject.type, subject.name)
                yield Edge("introduced-in", source, key_of("version", mention.name), *mention[2:4])

    def _in_row(self, mention: Mention) -> Mention | None:
        """What the table row or the list item of a mention defines."""
        starts, atoms = self.finder.starts, self.parsed.atoms
        atom = bisect_right(starts, mention.start) - 1
        if atom < 0 or atoms[atom].kind != "table":
            return None
        end = starts[atom + 1] if atom + 1 < len(starts) else len(self.parsed.data)
        low = bisect_right(self.places, starts[atom] - 1)
        for index in range(low, len(self.mentions)):
            other = self.mentions[index]
            if other.start >= end:
                return None
            if other.role == "defines":
                return other
        return None

    def _errors(self) -> Iterator[Edge]:
        for number, section in enumerate(self.sections):
            title = section.path[-1] if section.path else ""
            causes, fixes = _CAUSES.search(title), _FIXES.search(title)
            if not causes and not fixes:
                continue
            subject = self.subject(section.parent)
            if subject is None or not subject.type.startswith("error"):
                continue
            key, node = key_of(subject.type, subject.name), f"section:{section.id}"
            if causes:
                yield Edge("causes", node, key, *self._span(number))
            if fixes:
                yield Edge("fixed-by", key, node, *self._span(number))
        for mention in self.mentions:
            if mention.type == "issue":
                title = (self.sections[self.section_at(mention.start)].path or ("",))[-1]
                release = _RELEASE.search(title)
                before = self.parsed.data[max(mention.start - 60, 0) : mention.start]
                if release and _FIX_WORD.search(before):
                    source, target = key_of("issue", mention.name), key_of("version", release[0])
                    yield Edge("fixed-by", source, target, *mention[2:4])

    def _aliases(self) -> Iterator[Edge]:
        for other, main in self.finder.aliases:
            source, target = key_of(other.type, other.name), key_of(main.type, main.name)
            if source != target:
                yield Edge("alias-of", source, target, *other[2:4])
        rows: dict[int, list[Mention]] = {}
        for mention in self.mentions:
            if mention.type in ("error_code", "error_symbol"):
                atom = bisect_right(self.finder.starts, mention.start) - 1
                rows.setdefault(atom, []).append(mention)
        for atom, found in rows.items():
            codes = [m for m in found if m.type == "error_code"]
            symbols = [m for m in found if m.type == "error_symbol"]
            table = self.parsed.atoms[atom].kind == "table" if atom >= 0 else False
            if table and len(codes) == 1 and len(symbols) == 1:
                yield self._alias(symbols[0], codes[0])
                continue
            for code in codes:
                for symbol in symbols:
                    gap = max(symbol.start - code.end, code.start - symbol.end)
                    between = self.parsed.data[
                        min(code.end, symbol.end) : max(code.start, symbol.start)
                    ]
                    if gap <= 4 and not between.strip(b" ()[]:`*-_/"):
                        yield self._alias(symbol, code)

    def _alias(self, symbol: Mention, code: Mention) -> Edge:
        span = min(symbol.start, code.start), max(symbol.end, code.end)
        return Edge(
            "alias-of", key_of("error_symbol", symbol.name), key_of("error_code", code.name), *span
        )

    def _together(self) -> Iterator[Edge]:
        """co-occurs: pairs of the first names of one chunk, or of one row of a table."""
        if self.parsed.language:
            return
        places = self.places
        for draft in self.drafts:
            first = bisect_right(places, draft.start - 1)
            after = bisect_right(places, draft.end - 1)
            if after - first < 2:
                continue
            groups: dict[int, dict[str, tuple[int, int]]] = {}
            for mention in self.mentions[first:after]:
                if mention.type in _PAIRED:
                    names = groups.setdefault(self._row_of(mention.start), {})
                    names.setdefault(key_of(mention.type, mention.name), mention[2:4])
            for names in groups.values():
                for one, other in combinations(sorted(list(names)[:CO_OCCURS_MAX]), 2):
                    a, b = names[one], names[other]
                    yield Edge("co-occurs", one, other, min(a[0], b[0]), max(a[1], b[1]))

    def _row_of(self, place: int) -> int:
        """The atom of a table row: the rows of a chunk are apart. -1 for everything else."""
        atom = bisect_right(self.finder.starts, place) - 1
        return atom if atom >= 0 and self.parsed.atoms[atom].kind == "table" else -1


@lru_cache(maxsize=1 << 14)  # the pages of a folder have the same links
def _target(folder: str, url: str) -> str:
    if not url or url.lower().startswith(("data:", "javascript:")):
        return ""
    if _SCHEME.match(url) or url.startswith("//"):
        return f"url:{url}"
    place, _, anchor = url.partition("#")
    place = unquote(place.split("?", 1)[0])
    full = place.lstrip("/") if place.startswith("/") else posixpath.join(folder, place)
    full = posixpath.normpath(full)
    return f"path:{full}#{anchor}" if anchor else f"path:{full}"


def _normal(key: str) -> str:
    kind, _, name = key.partition(":")
    return key_of(kind, name)
