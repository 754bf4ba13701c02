"""The corpus that an agent can interact with: documents in, sections, chunks, names and relations
out.

This package is the only place that may know both the search half and `gnomon.agent`. It needs the
extra: ``pip install 'gnomon[corpus]'``.
"""

from .aio import AsyncCorpus, AsyncSession
from .answers import Answer, Item
from .answers import Report as AnswerReport
from .api import Corpus
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
from .replay import Replayed, replay
from .session import Session
from .snapshot import Snapshot
from .snapshot_model import GraphEdge, GrepLine, GrepResult, Node, Stats
from .walk import Coverage, FoundFile, walk_sources

__all__ = [
    "Answer",
    "AnswerReport",
    "AsyncCorpus",
    "AsyncSession",
    "Block",
    "Chunk",
    "Claim",
    "Corpus",
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
    "Item",
    "Limits",
    "Node",
    "ProcessedDocument",
    "Relation",
    "Replayed",
    "Report",
    "Section",
    "Session",
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
    "replay",
    "to_json",
    "walk_sources",
]
