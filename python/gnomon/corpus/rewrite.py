"""Segments rewritten as one without their deleted documents; nothing is processed again."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from ..storage import DirectoryWriter
from .columns_io import decoded
from .live import Mask
from .prepare_model import ROLES, Prepared, PreparedBatch
from .segment import Segment
from .segment_writer import PART, SegmentWriter
from .stored import Packed

_BATCH = 256  # documents, whose records are packed together


def rewrite_segments(
    where: Path, segments: Sequence[Segment], masks: Sequence[Mask], sync: Callable[[Path], None]
) -> None:
    """Writes the live documents of `segments`, in order, as a new segment; `sync` brings it to the
    disk, as for `DirectoryWriter`.
    """
    with DirectoryWriter(where, sync=sync) as directory:
        writer = SegmentWriter(directory)
        for segment, mask in zip(segments, masks, strict=True):
            docs = np.flatnonzero(mask).tolist()
            for first in range(0, len(docs), _BATCH):
                _rewrite(writer, segment, docs[first : first + _BATCH])
        directory.commit({PART: writer.finish()})


def _rewrite(writer: SegmentWriter, segment: Segment, docs: list[int]) -> None:
    """Documents of one source at a time, as the writer takes them."""
    run: list[int] = []
    for doc in docs:
        if run and segment.doc_source[doc] != segment.doc_source[run[0]]:
            _write_run(writer, segment, run)
            run = []
        run.append(doc)
    if run:
        _write_run(writer, segment, run)


def _write_run(writer: SegmentWriter, segment: Segment, docs: list[int]) -> None:
    sections = [n for doc in docs for n in range(*segment.section_range(doc))]
    chunks = [n for doc in docs for n in range(*segment.chunk_range(doc))]
    batch = PreparedBatch(
        [as_prepared(segment, doc) for doc in docs],
        _packed(segment, "document", docs),
        _packed(segment, "section", sections),
        _packed(segment, "chunk", chunks),
    )
    cids = [segment.cids[slice(*segment.chunk_range(doc))] for doc in docs]
    writer.add(batch, segment.sources[int(segment.doc_source[docs[0]])], cids)


def _packed(segment: Segment, name: str, numbers: Iterable[int]) -> Packed:
    return Packed.of(segment.raw_record(name, number) for number in numbers)


def as_prepared(segment: Segment, doc: int) -> Prepared:
    """What a segment was given for a document, as far as a segment needs it."""
    document = segment.document(doc)
    first_section, last_section = segment.section_range(doc)
    first, last = segment.chunk_range(doc)
    raw = bytes(segment.raw(doc))
    text = b"\n".join(text for _, _, _, text in segment.rendered_chunks(doc))
    if document.encoding != "utf-8":
        text += b"\n" + raw.decode(document.encoding).encode("utf-8", "surrogatepass")
    made = Prepared(
        document.path,
        doc_id=document.id,
        revision=document.revision,
        raw=raw,
        text=text,
        acl=document.acl,
        section_ids=bytes.fromhex("".join(segment.section_ids.range(first_section, last_section))),
        section_parents=[
            int(above) - 1 for above in segment.section_parent[first_section:last_section]
        ],
        chunk_ids=bytes.fromhex("".join(segment.chunk_ids.range(first, last))),
        chunk_start=segment.chunk_start[first:last].tobytes(),
        chunk_section=(segment.chunk_section[first:last].astype(np.int64) - first_section)
        .astype(np.uint32)
        .tobytes(),
    )
    _add_mentions(made, segment, doc)
    _add_edges(made, segment, doc)
    return made


def _add_mentions(made: Prepared, segment: Segment, doc: int) -> None:
    graph = segment.graph
    first, last = segment.chunk_range(doc)
    numbers: dict[int, int] = {}
    origins: dict[str, int] = {}
    mentions = array("I")
    for chunk in range(first, last):
        for row in graph.mentions_in(chunk):
            entity, place = graph.mention(row)
            mentions.extend(
                (
                    numbers.setdefault(entity, len(numbers)),
                    chunk - first,
                    place.start + int(segment.chunk_start[chunk]),
                    place.length,
                    ROLES.index(place.role),
                    origins.setdefault(place.origin, len(origins)),
                )
            )
    for entity in numbers:
        made.keys.append(decoded(graph.entities[entity]))
        docs, names = graph.pairs(entity)
        made.names.append(decoded(graph.names[int(names[np.searchsorted(docs, doc)])]))
    made.mentions = mentions.tobytes()
    made.origins = list(origins)


def _add_edges(made: Prepared, segment: Segment, doc: int) -> None:
    graph = segment.graph
    first, last = segment.chunk_range(doc)
    origins = {name: number for number, name in enumerate(made.origins)}
    nodes: dict[int, int] = {}
    types: dict[int, int] = {}
    edges, proofs = array("I"), array("I")
    c = graph.columns
    for edge in segment.edges_of_doc(doc).tolist():
        shown = [place for place in graph.proofs(edge) if first <= place.chunk < last]
        edges.extend(
            (
                types.setdefault(int(c["edge_type"][edge]), len(types)),
                nodes.setdefault(int(c["edge_source"][edge]), len(nodes)),
                nodes.setdefault(int(c["edge_target"][edge]), len(nodes)),
                len(shown),
            )
        )
        for place in shown:
            proofs.extend(
                (
                    place.chunk - first,
                    place.start + int(segment.chunk_start[place.chunk]),
                    place.length,
                    ROLES.index(place.role),
                    origins.setdefault(place.origin, len(origins)),
                )
            )
    made.relation_types = [graph.relation_types[kind] for kind in types]
    made.nodes = [graph.name(node) for node in nodes]
    made.edges = edges.tobytes()
    made.proofs = proofs.tobytes()
    made.origins = list(origins)
