"""What must hold for every processed document, checked from the raw bytes alone."""

from __future__ import annotations

import re
import unicodedata

from gnomon.corpus import ProcessedDocument, from_json, process_document, to_json
from gnomon.corpus.assemble import Limits
from gnomon.corpus.rawmap import locate, rendered_at, runs
from gnomon.passages import is_boundary

SUB = "\x1a"  # stands for a byte that is not UTF-8
SLACK = 400  # a heading that stays with an atom of the full size


def check(
    raw: bytes, path: str, kind: str | None = None, limits: Limits | None = None
) -> ProcessedDocument:
    """Processes `raw` and checks all invariants; returns the result."""
    done = process_document(raw, "test", kind, path=path, limits=limits)
    check_sections(raw, done)
    check_chunks(raw, done, limits or Limits())
    check_maps(raw, done)
    check_evidence(raw, done)
    assert from_json(to_json(done), ProcessedDocument) == done
    again = process_document(raw, "test", kind, path=path, limits=limits)
    assert to_json(again) == to_json(done)
    return done


def check_sections(raw: bytes, done: ProcessedDocument) -> None:
    place = 0
    by_id = {section.id: section for section in done.sections}
    assert len(by_id) == len(done.sections)
    for number, section in enumerate(done.sections):
        assert section.ordinal == number
        assert section.span[0] == place
        place = section.span[1]
        assert section.extent[0] == section.span[0]
        assert section.span[1] <= section.extent[1] <= len(raw)
        if section.heading is not None:
            assert section.span[0] <= section.heading[0] <= section.heading[1]
        if section.parent is not None:
            parent = by_id[section.parent]
            assert parent.level < section.level
            assert parent.extent[0] <= section.extent[0]
            assert section.extent[1] <= parent.extent[1]
            assert section.path[:-1] == parent.path
    assert place == len(raw)


def check_chunks(raw: bytes, done: ProcessedDocument, limits: Limits) -> None:
    encoding = done.document.encoding
    text = raw.decode(encoding, "surrogateescape")
    shown = re.sub("[\udc80-\udcff]", SUB, text)  # what is no UTF-8 joins nothing
    sections = {section.id: section for section in done.sections}
    place = char = 0
    line = 1
    ids = set()
    for number, chunk in enumerate(done.chunks):
        start, end = chunk.span
        assert chunk.ordinal == number
        assert start == place < end
        assert chunk.chars[0] == char < chunk.chars[1]
        piece = text[chunk.chars[0] : chunk.chars[1]]
        assert piece.encode(encoding, "surrogateescape") == raw[start:end]
        assert whole_character(shown, chunk.chars[0], limits.limit), (chunk.span, raw[start - 9 :])
        assert chunk.lines == (line, line + piece[:-1].count("\n"))
        line += piece.count("\n")
        section = sections[chunk.section_id]
        assert section.span[0] <= start
        assert end <= section.span[1]
        if encoding == "utf-8":
            assert end - start <= limits.limit + SLACK
        for block in chunk.blocks:
            assert start <= block.start < block.end <= end
        if chunk.header is not None:
            assert 0 <= chunk.header[0] < chunk.header[1] <= start
        ids.add(chunk.id)
        place, char = end, chunk.chars[1]
    assert place == len(raw)
    assert char == len(text)
    assert len(ids) == len(done.chunks)


def parts_nothing(text: str, at: int) -> bool:
    """UAX #29 where `is_boundary` is stricter: beside control characters, and behind a joiner.

    A mark or joiner that stands behind the ``>`` of a tag has no character to belong to.
    """
    if is_boundary(text, at):
        return True
    before, after = text[at - 1], text[at]
    if before in "\u200c\u200d" and after.isascii():
        return True
    if before == ">" and not after.isascii():
        return True
    beside = [c for c in before + after if unicodedata.category(c) == "Cf"]
    return any(c not in "\u200c\u200d" and not "\U000e0020" <= c <= "\U000e007f" for c in beside)


def whole_character(text: str, at: int, limit: int) -> bool:
    """Whether a cut at `at` parts no user-perceived character but one longer than `limit` bytes."""
    first = last = at
    while not parts_nothing(text, first):
        first -= 1
    while not parts_nothing(text, last):
        last += 1
    return len(text[first:last].encode("utf-8", "surrogatepass")) > limit or first == last


def check_maps(raw: bytes, done: ProcessedDocument) -> None:
    """Every run lies in its chunk, in order, and what was copied is there in the raw bytes."""
    same_bytes = done.document.encoding == "utf-8"
    for chunk in done.chunks:
        shown = chunk.text.encode("utf-8")
        piece = raw[slice(*chunk.span)]
        if not chunk.raw_map:
            if shown:
                assert_same(shown, piece, same_bytes)
            continue
        text_at = raw_at = 0
        for text_start, text_end, raw_start, raw_end, copied in runs(chunk.raw_map):
            assert text_start == text_at
            assert text_start <= text_end
            assert raw_at <= raw_start <= raw_end
            if copied:
                assert_same(shown[text_start:text_end], piece[raw_start:raw_end], same_bytes)
            text_at, raw_at = text_end, raw_end
        assert text_at == len(shown)
        assert raw_at <= len(piece)


def assert_same(shown: bytes, piece: bytes, same_bytes: bool) -> None:
    if not same_bytes or shown == piece:
        return
    repaired = "".join(
        SUB if "\udc80" <= c <= "\udcff" else c for c in piece.decode("utf-8", "surrogateescape")
    )
    assert repaired.encode("utf-8") == shown


def check_evidence(raw: bytes, done: ProcessedDocument) -> None:
    chunks = {chunk.id: chunk for chunk in done.chunks}
    for thing in (*done.entities, *done.relations):
        assert thing.evidence
        for evidence in thing.evidence:
            start, end = chunks[evidence.chunk_id].span
            assert start <= evidence.start <= evidence.end <= end
    for entity in done.entities:
        for evidence in entity.evidence:
            chunk = chunks[evidence.chunk_id]
            base = chunk.span[0]
            first = rendered_at(chunk.raw_map, evidence.start - base)
            last = rendered_at(chunk.raw_map, evidence.end - 1 - base) + 1
            if first < last and evidence.end > evidence.start:
                located = locate(chunk.raw_map, first, last)
                assert located[0] + base <= evidence.end
                assert evidence.start <= located[1] + base
