"""The corpus that an agent can interact with: documents in, sections, chunks, names and relations
out.

This package is the only place that may know both the search half and `gnomon.agent`. It needs the
extra: ``pip install 'gnomon[corpus]'``.
"""

from .answers import GraphEdge, GrepLine, GrepResult, Node, Stats
from .assemble import Limits
from .batch import process_sources
from .coordinator import CorpusIndex, Documents, Folder, UpdateReport
from .extractor import Claim, Extractor
from .model import (
    Block,
    Chunk,
    Document,
    Entity,
    Evidence,
    ProcessedDocument,
    Relation,
    Report,
    Section,
    Source,
    from_json,
    to_json,
)
from .process import process_document
from .rawmap import locate, locate_many, rendered_at
from .snapshot import Snapshot
from .walk import Coverage, FoundFile, walk_sources

__all__ = [
    "Block",
    "Chunk",
    "Claim",
    "CorpusIndex",
    "Coverage",
    "Document",
    "Documents",
    "Entity",
    "Evidence",
    "Extractor",
    "Folder",
    "FoundFile",
    "GraphEdge",
    "GrepLine",
    "GrepResult",
    "Limits",
    "Node",
    "ProcessedDocument",
    "Relation",
    "Report",
    "Section",
    "Snapshot",
    "Source",
    "Stats",
    "UpdateReport",
    "from_json",
    "locate",
    "locate_many",
    "process_document",
    "process_sources",
    "rendered_at",
    "to_json",
    "walk_sources",
]
