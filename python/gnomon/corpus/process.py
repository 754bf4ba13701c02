r"""From raw bytes to a processed document: parse, cut, name, relate.

>>> raw = b"# Title\n\nSet `max_size=3`, the option, to 4.\n"
>>> done = process_document(raw, "docs", path="a.md")
>>> done.document.title, [chunk.text for chunk in done.chunks]
('Title', ['Title\nSet max_size=3, the option, to 4.'])
>>> [(entity.key, entity.evidence[0].start) for entity in done.entities]
[('option:max_size', 14)]
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import finish
from .assemble import Draft, Limits, SectionDraft, cut_chunks, cut_sections
from .builder import Edge, Parsed
from .detect import detect_type, title_of_path
from .extractor import Extractor, apply_extractor
from .mention_places import Mention
from .mentions import Finder
from .model import Document, ProcessedDocument, Report, Source, document_id, revision_of
from .relations import Relations
from .source_text import SourceText

_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_NEVER_CAUGHT = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ImportError)


def _markdown(data: bytes, start: int) -> Parsed:
    from .parse_markdown import parse_markdown

    return parse_markdown(data, start)


def _mdx(data: bytes, start: int) -> Parsed:
    from .parse_markdown import parse_markdown

    return parse_markdown(data, start, mdx=True)


def _html(data: bytes, start: int) -> Parsed:
    from .parse_html import parse_html

    return parse_html(data, start)


def _rst(data: bytes, start: int) -> Parsed:
    from .parse_rst import parse_rst

    return parse_rst(data, start)


def _plain(data: bytes, start: int) -> Parsed:
    from .parse_plain import parse_plain

    return parse_plain(data, start)


def _properties(data: bytes, start: int) -> Parsed:
    from .parse_properties import parse_properties

    return parse_properties(data, start)


def _records(data: bytes, start: int) -> Parsed:
    from .parse_records import parse_records

    return parse_records(data, start)


def _code(language: str) -> Callable[[bytes, int], Parsed]:
    def parse(data: bytes, start: int) -> Parsed:
        from .parse_code import parse_code

        return parse_code(data, language, start)

    return parse


def _other(data: bytes, start: int) -> Parsed:
    from .parse_code import parse_other

    return parse_other(data, start)


PARSERS: dict[str, Callable[[bytes, int], Parsed]] = {
    "markdown": _markdown,
    "mdx": _mdx,
    "html": _html,
    "rst": _rst,
    "plain": _plain,
    "properties": _properties,
    "records": _records,
    "other": _other,
    **{
        name: _code(name)
        for name in ("python", "java", "javascript", "typescript", "tsx", "go", "c")
    },
}


class Drafted(NamedTuple):
    """A document's parts in offsets of the parser's input."""

    document: Document
    text: SourceText
    parsed: Parsed
    sections: Sequence[SectionDraft]
    drafts: Sequence[Draft]
    mentions: Sequence[Mention]
    edges: Sequence[Edge]
    report: Report


def process_document(
    content: bytes | str | os.PathLike[str],
    source: Source | str,
    type: str | None = None,
    *,
    path: str | None = None,
    limits: Limits | None = None,
    extractor: Extractor | None = None,
    url: str = "",
    version: str = "",
    acl: tuple[str, ...] | None = None,
    facts: bool = True,
) -> ProcessedDocument:
    """Processes one document; never fails because of what is in it.

    `content` is its bytes, or the path of a file. `path` is the logical path inside the source,
    from which `type` follows unless it is given (one of `PARSERS`). `limits` bound the chunks.
    `facts` off leaves out entities and relations. A parser that fails gives way to plain text, and
    `report.fallback` says why.

    Raises TypeError for bytes without a `path`, ValueError for an unknown `type` and for limits
    that are not 1 <= target <= limit, OSError when the file cannot be read, ImportError when a
    package of the extra is missing.
    """
    if isinstance(content, bytes):
        if path is None:
            raise TypeError("process_document of bytes needs path=, the logical path in the source")
        raw = content
    else:
        name = os.fspath(content)
        path = name.replace(os.sep, "/") if path is None else path
        with open(name, "rb") as file:
            raw = file.read()
    source = Source(name=source) if isinstance(source, str) else source
    kind = detect_type(path, raw[:2048]) if type is None else type
    if kind not in PARSERS:
        raise ValueError(f"type must be one of {', '.join(PARSERS)}, got {kind!r}")
    drafted = draft_document(raw, source, path, kind, limits or Limits(), url, version, acl, facts)
    done = finish.finish(*drafted)
    return apply_extractor(done, extractor) if extractor is not None else done


def draft_document(
    raw: bytes,
    source: Source,
    path: str,
    kind: str,
    limits: Limits,
    url: str = "",
    version: str = "",
    acl: tuple[str, ...] | None = None,
    facts: bool = True,
    derived: bool = True,
) -> Drafted:
    """What is found in a document, before it gets its public form.

    Without `derived` there are no relations that the tree of sections says by itself.
    Raises ValueError for limits that are not 1 <= target <= limit.
    """
    if not 1 <= limits.target <= limits.limit:
        raise ValueError(
            f"limits must be 1 <= target <= limit, got {limits.target}, {limits.limit}"
        )
    report = Report(parser=kind)
    text = SourceText(raw, kind)
    report.invalid_bytes = text.invalid
    if not raw.isascii():
        report.hidden_characters = len(_HIDDEN.findall(text.work[text.start :].decode("utf-8")))
    parsed = _parsed(text, kind, report)
    doc_id = document_id(source.name, path)
    sections = cut_sections(parsed, doc_id)
    drafts = cut_chunks(parsed, sections, limits)
    document = Document(
        id=doc_id,
        source=source.name,
        path=path,
        revision=revision_of(raw),
        title=_title(parsed, path),
        type=report.parser,
        size=len(raw),
        encoding=text.encoding,
        language=parsed.language,
        url=url or parsed.meta.get("url", ""),
        version=version or source.version or parsed.meta.get("version", ""),
        acl=source.acl if acl is None else acl,
        meta=parsed.meta,
    )
    report.problems = parsed.problems
    mentions: list[Mention] = []
    edges: list[Edge] = []
    if facts:
        mentions, edges = _facts(parsed, sections, drafts, document, report, derived)
    return Drafted(document, text, parsed, sections, drafts, mentions, edges, report)


def _parsed(text: SourceText, kind: str, report: Report) -> Parsed:
    try:
        return PARSERS[kind](text.work, text.start)
    except BaseException as error:  # a panic of a compiled parser is no Exception
        if isinstance(error, _NEVER_CAUGHT):
            raise
        report.fallback = f"{kind}: {error.__class__.__name__}: {error}"[:300]
        report.parser = "plain"
        return _plain(text.work, text.start)


def _facts(
    parsed: Parsed,
    sections: Sequence[SectionDraft],
    drafts: Sequence[Draft],
    document: Document,
    report: Report,
    derived: bool,
) -> tuple[list[Mention], list[Edge]]:
    try:
        finder = Finder(parsed, sections, drafts)
        mentions = finder.find()
        relations = Relations(finder, mentions, document.id, document.path)
        return mentions, relations.find(derived)
    except Exception as error:  # as with parsers: the document stays, and the report says so
        report.problems.append(f"names: {error.__class__.__name__}: {error}"[:300])
        return [], []


def _title(parsed: Parsed, path: str) -> str:
    title = parsed.meta.get("title", "")
    if not title and parsed.headings and not parsed.language:
        first = parsed.headings[0]
        title = first.title if first.kind == "heading" else ""
    return title or title_of_path(path)


def stage_parse(raw: bytes, path: str) -> Any:
    """Parse, render and cut without hashing or facts: what the benchmark calls the first stage."""
    kind = detect_type(path, raw[:2048])
    text = SourceText(raw, kind)
    parsed = PARSERS[kind](text.work, text.start)
    sections = cut_sections(parsed, "")
    return cut_chunks(parsed, sections, Limits())
