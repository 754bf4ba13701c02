"""Evidence for a prompt: no duplicates, one order, a token budget, checked compression.

What is left out is listed with its reason, what compression lost is listed with its sentence, and
the result depends on the set of passages only, not on the order in which they came in.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .compression import compress_checked
from .context_parts import Chosen, Context, Counter, Dropped, Passage, block, byte_bound, render


def assemble(
    passages: Iterable[Passage],
    budget: int,
    *,
    count: Counter = byte_bound,
    order: str = "score",
    query: str = "",
    allowed_scopes: Iterable[str] | None = None,
    current: Mapping[str, str] | None = None,
    compress: bool = False,
    compressor: Callable[[str, int], str] | None = None,
) -> Context:
    """A context of at most ``budget`` tokens by ``count``.

    1. Passages outside ``allowed_scopes`` are dropped, then those whose revision is not the one
       ``current`` names for their source (sources it does not name keep every revision).
    2. Of passages with one content (NFC, white space run together) the first in the order of step 3
       stays. Two contents under one source, revision and span both stay and are a conflict.
    3. Order: score falling, then source_id, revision, start, end, text, title, scope. Scores
       compare exactly and the order is total, so a permuted input gives the same bytes.
    4. Choice: in that order, every passage that still fits. With ``compress``, the first that does
       not fit is shortened to the room that is left (``compress_checked`` with ``query`` and
       ``compressor``), and its findings are kept; one that would be empty is dropped.
    5. ``order="score"`` presents them as chosen, ``"source"`` by source, revision and place.

    Rendering: a header line "[n] source_id revision | title", then every line of the passage behind
    "> ". No text inside a passage can pass for a header or leave its passage. ``Context.counter``
    names the counter that was used.

    Raises ValueError for a negative budget, an unknown order, an empty source id or revision, or a
    score that is not finite; TypeError for another type, naming the passage.

    >>> context = assemble([
    ...     Passage("d1", "r1", "Stop at 40 °C.", score=2.0),
    ...     Passage("d2", "r7", "Stop  at 40 °C.", score=1.0),
    ... ], budget=100)
    >>> print(context.text, context.chosen[0].also_in, context.dropped[0].reason, context.counter)
    [1] d1 r1
    > Stop at 40 °C. (('d2', 'r7'),) same_content byte_bound
    """
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise TypeError(f"budget must be an integer number of tokens, got {budget!r}")
    if budget < 0:
        raise ValueError(f"budget must be 0 or more tokens, got {budget}")
    if order not in ("score", "source"):
        raise ValueError(f"order must be 'score' or 'source', got {order!r}")
    ranked = sorted((_checked(p, i) for i, p in enumerate(passages)), key=_rank)
    scopes = None if allowed_scopes is None else frozenset(allowed_scopes)
    kept, dropped = _admit(ranked, scopes, current or {})
    kept, also_in, conflicts, repeats = _dedupe(kept)
    dropped += repeats
    shortener = (query, compressor) if compress else None
    chosen, left_out = _choose(kept, also_in, budget, count, order, shortener)
    dropped += left_out
    text = render(chosen)
    seen: dict[str, set[str]] = {}
    for choice in chosen:
        seen.setdefault(choice.passage.source_id, set()).add(choice.passage.revision)
    return Context(
        text=text,
        tokens=count(text),
        budget=budget,
        counter=getattr(count, "__qualname__", None) or type(count).__qualname__,
        chosen=tuple(chosen),
        dropped=tuple(sorted(dropped, key=lambda drop: (_rank(drop.passage), drop.reason))),
        conflicts=conflicts,
        revisions=tuple(sorted(name for name, revisions in seen.items() if len(revisions) > 1)),
    )


def _checked(passage: Passage, number: int) -> Passage:
    place = f"passages[{number}]"
    for name in ("source_id", "revision", "text", "title", "acl_scope"):
        value = getattr(passage, name)
        if not isinstance(value, str):
            raise TypeError(f"{place}.{name} must be a string, got {type(value).__name__}")
    if not passage.source_id or not passage.revision:
        raise ValueError(
            f"{place} needs a source_id and a revision; evidence without is not citable"
        )
    score = passage.score
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise TypeError(f"{place}.score must be a number, got {type(score).__name__}")
    if isinstance(score, float) and not math.isfinite(score):
        raise ValueError(f"{place}.score must be finite, got {score}")
    return passage


def _place(passage: Passage) -> tuple[str, str, int, int]:
    start = -1 if passage.start is None else passage.start
    return (passage.source_id, passage.revision, start, -1 if passage.end is None else passage.end)


def _rank(passage: Passage) -> tuple[Any, ...]:
    return (-passage.score, *_place(passage), passage.text, passage.title, passage.acl_scope)


def _content(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _digest(content: str) -> bytes:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()


def _admit(
    ranked: list[Passage], scopes: frozenset[str] | None, current: Mapping[str, str]
) -> tuple[list[Passage], list[Dropped]]:
    kept: list[Passage] = []
    dropped: list[Dropped] = []
    for passage in ranked:
        if scopes is not None and passage.acl_scope not in scopes:
            dropped.append(Dropped(passage, "scope"))
        elif current.get(passage.source_id, passage.revision) != passage.revision:
            dropped.append(Dropped(passage, "superseded"))
        elif not passage.text.strip():
            dropped.append(Dropped(passage, "empty"))
        else:
            kept.append(passage)
    return kept, dropped


def _dedupe(
    ranked: list[Passage],
) -> tuple[
    list[Passage],
    dict[int, tuple[tuple[str, str], ...]],
    tuple[tuple[str, str, str], ...],
    list[Dropped],
]:
    """The passages that stay, what each stands for (by its index), conflicts, and the repeats."""
    kept: list[Passage] = []
    by_content: dict[bytes, int] = {}
    by_place: dict[tuple[str, str, int, int], set[bytes]] = {}
    also: dict[int, set[tuple[str, str]]] = {}
    dropped: list[Dropped] = []
    for passage in ranked:
        digest = _digest(_content(passage.text))
        texts = by_place.setdefault(_place(passage), set())
        if digest in by_content:
            first = by_content[digest]
            dropped.append(Dropped(passage, "same_place" if digest in texts else "same_content"))
            name = (passage.source_id, passage.revision)
            if name != (kept[first].source_id, kept[first].revision):
                also.setdefault(first, set()).add(name)
        else:
            by_content[digest] = len(kept)
            kept.append(passage)
        texts.add(digest)
    conflicts = tuple(
        (source, revision, f"{start}..{end}")
        for (source, revision, start, end), texts in sorted(by_place.items())
        if start >= 0 and len(texts) > 1
    )
    return kept, {i: tuple(sorted(names)) for i, names in also.items()}, conflicts, dropped


def _choose(
    kept: list[Passage],
    also_in: Mapping[int, tuple[tuple[str, str], ...]],
    budget: int,
    count: Counter,
    order: str,
    shortener: tuple[str, Callable[[str, int], str] | None] | None,
) -> tuple[list[Chosen], list[Dropped]]:
    chosen: list[Chosen] = []
    dropped: list[Dropped] = []
    spent = 0
    for index, passage in enumerate(kept):
        # A number of five digits: the header cannot grow when the passages are numbered at the end.
        choice = Chosen(99_999, passage, passage.text, also_in.get(index, ()), ())
        cost = count(block(choice) + "\n")
        if spent + cost > budget + 1 and shortener is not None:
            choice = _shortened(choice, budget - spent, count, *shortener)
            cost = count(block(choice) + "\n")
            if choice.text:
                shortener = None  # the room is used up by the first passage that needs it
        if not choice.text or spent + cost > budget + 1:
            dropped.append(Dropped(passage, "over_budget"))
        else:
            chosen.append(choice)
            spent += cost
    # A counter need not add up over parts: the whole text decides, and loses its last choice first.
    while chosen and count(render(_numbered(chosen, order))) > budget:
        dropped.append(Dropped(chosen.pop().passage, "over_budget"))
    return _numbered(chosen, order), dropped


def _shortened(
    choice: Chosen,
    room: int,
    count: Counter,
    query: str,
    compressor: Callable[[str, int], str] | None,
) -> Chosen:
    """``choice`` with a text whose block fits in ``room``; an empty text when none does."""
    limit = room - count(block(replace(choice, text="x")))
    while limit > 0:
        short = compress_checked(
            choice.passage.text, limit, count=count, query=query, compressor=compressor
        )
        found = replace(choice, text=short.text.strip(), findings=short.findings)
        if not found.text or count(block(found) + "\n") <= room + 1:
            return found
        limit -= max(1, count(block(found)) - room)  # the marks before each line cost as well
    return replace(choice, text="")


def _numbered(chosen: list[Chosen], order: str) -> list[Chosen]:
    if order == "source":
        chosen = sorted(chosen, key=lambda choice: (*_place(choice.passage), choice.text))
    return [replace(choice, number=number) for number, choice in enumerate(chosen, 1)]
