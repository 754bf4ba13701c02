"""The data model of a corpus: sources, documents, sections, chunks, entities and relations.

All of them are immutable `msgspec` structs that go to JSON and back (`to_json`, `from_json`). Every
span is half open and counts bytes of the document's raw bytes: ``raw[start:end]`` is the thing,
always. Characters are the code points of ``raw.decode(document.encoding, "surrogateescape")``, a
byte order mark included.

>>> source = Source(name="docs", uri="file:///docs")
>>> from_json(to_json(source), Source) == source
True
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

try:
    import msgspec
except ImportError as error:  # pragma: no cover - the test extra has it
    raise ImportError(
        "gnomon.corpus needs the packages of its extra: pip install 'gnomon[corpus]'"
    ) from error

# gc=False below: these hold no cycles, and a corpus has millions of them.
KINDS = ("prose", "list", "table", "code", "heading", "meta", "comment", "properties", "record")
Span = tuple[int, int]
_T = TypeVar("_T")


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where documents come from: a folder, a repository, an export.

    `kind` is docs, code, qa, issue or what the caller likes; `acl` names who may read its documents
    (an empty tuple says that nothing was declared, not that everyone may).
    """

    name: str
    uri: str = ""
    kind: str = "docs"
    version: str = ""
    licence: str = ""
    acl: tuple[str, ...] = ()
    trust: str = "corpus"


class Document(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file or record file of a source.

    `id` depends on the source's name and the logical path only, `revision` on the raw bytes only.
    """

    id: str
    source: str
    path: str
    revision: str
    title: str
    type: str
    size: int
    encoding: str = "utf-8"
    language: str = ""
    url: str = ""
    version: str = ""
    acl: tuple[str, ...] = ()
    meta: dict[str, str] = {}


class Section(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A heading with what stands under it until the next heading.

    `span` ends at the next heading of any level, `extent` where the section's last subsection ends.
    The spans of all sections tile the document. `path` holds the titles from the root to this one;
    the root of a document without a heading at its start has level 0 and an empty path.
    """

    id: str
    doc_id: str
    ordinal: int
    level: int
    title: str
    path: tuple[str, ...]
    parent: str | None
    span: Span
    extent: Span
    heading: Span | None = None
    anchor: str = ""
    kind: str = "heading"


class Block(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """A part of a chunk that is of one kind; `info` is the language of code."""

    kind: str
    start: int
    end: int
    info: str = ""


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A leaf of the section tree.

    `span`, `chars` and `lines` (1-based, both ends included) place it; the chunks of a document
    tile it. `text` is what a reader sees; `raw_map` says which raw bytes each part of it came from
    (see `gnomon.corpus.rawmap`; empty: the text is the raw bytes). `kind` is the kind of most of
    its bytes. `continued` marks a chunk that begins inside a block too long for one chunk; `header`
    is the span of the header row of the table that it continues.
    """

    id: str
    doc_id: str
    section_id: str
    ordinal: int
    kind: str
    span: Span
    chars: Span
    lines: Span
    text: str
    raw_map: bytes = b""
    blocks: tuple[Block, ...] = ()
    continued: bool = False
    header: Span | None = None


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """The raw bytes that show an entity or a relation.

    `role` is defines, mentions or example; `origin` names the rule, or ``model:NAME`` for what a
    language model said.
    """

    chunk_id: str
    start: int
    end: int
    role: str = "mentions"
    origin: str = "rule"


class Entity(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A thing that the document names; `key` is ``type:normalised`` and the same in all"
    " documents.
    """

    type: str
    name: str
    normalised: str
    evidence: tuple[Evidence, ...]

    @property
    def key(self) -> str:
        """What relations call this entity."""
        return f"{self.type}:{self.normalised}"


class Relation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An edge between two nodes, with every place that shows it.

    A node is an entity's key, ``section:ID``, ``doc:ID`` or ``url:ADDRESS``; ``path:PATH#ANCHOR``
    is a link's target inside the source, which need not exist.
    """

    type: str
    source: str
    target: str
    evidence: tuple[Evidence, ...]


class Report(msgspec.Struct, omit_defaults=True):
    """What the reader of a result must know: `fallback` is why the plain parser took over."""

    parser: str = ""
    fallback: str = ""
    problems: list[str] = []
    invalid_bytes: int = 0
    hidden_characters: int = 0


class ProcessedDocument(msgspec.Struct, frozen=True):
    """All that was found in one document; sections and chunks in document order."""

    document: Document
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    report: Report


def to_json(value: msgspec.Struct) -> bytes:
    """The struct as JSON in UTF-8; the same value gives the same bytes."""
    return msgspec.json.encode(value)


def from_json(data: bytes | str, kind: type[_T]) -> _T:
    """The struct of type `kind` that `data` holds; raises msgspec.ValidationError if it is none."""
    return msgspec.json.decode(data, type=kind)


def document_id(source: str, path: str) -> str:
    """blake2b-128 of the source's name and the logical path, in hexadecimal.

    >>> document_id("docs", "a/b.md")
    '352cac88daf6992fd96caa542c937d86'
    """
    name = f"{len(source)}:{source}{path}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=16).hexdigest()


def revision_of(raw: bytes) -> str:
    """blake2b-256 of the raw bytes, in hexadecimal."""
    return hashlib.blake2b(raw, digest_size=32).hexdigest()


def section_id(doc_id: str, path: tuple[str, ...], occurrence: int) -> str:
    """Stable while the path of headings stays; `occurrence` numbers equal paths from 0."""
    name = "\x1f".join((doc_id, *path, str(occurrence))).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=10).hexdigest()


def chunk_id(section: str, kind: str, text: str, occurrence: int) -> str:
    """Content addressed: an edit elsewhere in the document does not change it.

    The section stands for the document and the path of headings; `occurrence` numbers equal chunks
    of one section from 0.
    """
    name = f"{section}\x1f{kind}\x1f{occurrence}\x1f{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=12).hexdigest()
