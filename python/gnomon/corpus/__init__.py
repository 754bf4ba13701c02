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
    "Coverage",
    "Document",
    "Entity",
    "Evidence",
    "Extractor",
    "FoundFile",
    "Item",
    "Limits",
    "ProcessedDocument",
    "Relation",
    "Replayed",
    "Report",
    "Section",
    "Session",
    "Source",
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
