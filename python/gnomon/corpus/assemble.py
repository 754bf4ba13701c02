"""From a parser's atoms to sections and chunks that tile the document.

Chunks never cross a heading. Atoms are packed up to `target` bytes; one atom up to `limit` bytes
stays whole. What is longer is cut, and each part but the first is marked as continued: code at line
ends, everything else (and a line of code that is too long) where `gnomon.passages` would cut it: at
a blank line, a sentence, a line, white space, and never inside a user-perceived character. A
heading stays with the atom behind it where both fit into `limit`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..passages import is_boundary, spans
from .builder import Heading, Parsed
from .model import section_id
from .rawmap import COPIED

TARGET = 1600
LIMIT = 3200


class Limits(NamedTuple):
    """How large chunks may be, in bytes: what packing aims at, and what one atom may take."""

    target: int = TARGET
    limit: int = LIMIT


class Draft(NamedTuple):
    """A chunk before its id: atoms [first, after), the raw bytes, the text and its map."""

    section: int
    first: int
    after: int
    start: int
    end: int
    text: str
    marks: list[int] | None
    continued: bool


class SectionDraft(NamedTuple):
    """A section in offsets of the parser's input; atoms [first, after)."""

    id: str
    heading: Heading | None
    path: tuple[str, ...]
    parent: int
    start: int
    end: int
    extent: int
    first: int
    after: int


def cut_before(parsed: Parsed, atom: int, place: int, floor: int) -> int:
    """Where to cut before an atom at `place`: at the start of its line when only indentation or
    quoting stands before it that no text shows, else at `place` itself; never before `floor`.
    """
    data = parsed.data
    if not parsed.verbatim and atom < len(parsed.atoms):
        opening = parsed.atoms[atom]
        shown = opening.start - parsed.marks[opening.mark_at + 1]  # the text before ends there
        floor = max(floor, min(shown, place))
    begin = data.rfind(b"\n", floor, place) + 1 or floor
    cut = begin if not data[begin:place].strip(b" \t>") else place
    return cut - 1 if cut > floor and data[cut - 1 : cut + 1] == b"\r\n" else cut


def cut_sections(parsed: Parsed, doc_id: str) -> list[SectionDraft]:
    """The sections, in order; their spans tile the input."""
    data, atoms = parsed.data, parsed.atoms
    size, headings = len(data), parsed.headings
    starts, floor = [], 0
    for heading in headings:
        floor = cut_before(parsed, heading.atom, max(heading.start, floor), floor)
        starts.append(floor)
    opens: list[tuple[Heading | None, int, int]] = [
        (heading, start, heading.atom) for heading, start in zip(headings, starts, strict=True)
    ]
    if not opens or opens[0][2] > 0 or data[: starts[0]].strip(b" \t\r\n\xef\xbb\xbf"):
        opens.insert(0, (None, 0, 0))
    else:
        opens[0] = (opens[0][0], 0, 0)
    drafts: list[SectionDraft] = []
    seen: dict[tuple[str, ...], int] = {}
    stack: list[tuple[int, int]] = []  # level, index
    extents = [size] * len(opens)
    for i, (opening, _, _) in enumerate(opens):
        level = opening.level if opening else 0
        while stack and stack[-1][0] >= level:
            extents[stack.pop()[1]] = opens[i][1]
        stack.append((level, i))
    stack = []
    for i, (opening, start, first) in enumerate(opens):
        end = opens[i + 1][1] if i + 1 < len(opens) else size
        after = opens[i + 1][2] if i + 1 < len(opens) else len(atoms)
        level = opening.level if opening else 0
        while stack and stack[-1][0] >= level:
            stack.pop()
        parent = stack[-1][1] if stack else -1
        above = drafts[parent].path if parent >= 0 else ()
        path = (*above, opening.title) if opening else ()
        stack.append((level, i))
        count = seen[path] = seen.get(path, -1) + 1
        ident = section_id(doc_id, path, count)
        drafts.append(
            SectionDraft(ident, opening, path, parent, start, end, extents[i], first, after)
        )
    return drafts


def cut_chunks(parsed: Parsed, sections: Sequence[SectionDraft], limits: Limits) -> list[Draft]:
    """The chunks, in order; their spans tile the input."""
    atoms, drafts = parsed.atoms, []
    target, limit = limits
    for number, section in enumerate(sections):
        if section.end == section.start:
            continue
        first, after, begin = section.first, section.after, section.start
        if first >= after or section.end - begin <= target:  # one chunk, whatever is in it
            atoms_of = first, max(first, after)
            drafts += _cut(parsed, number, atoms_of, (begin, section.end), limits)
            continue
        ends = [atoms[i].start for i in range(first + 1, after)]
        ends.append(section.end)
        at = first  # the first atom of the chunk that is being filled
        for i in range(first, after):
            end = ends[i - first]
            room = limit if i == at or (i == at + 1 and atoms[at].kind == "heading") else target
            if end - begin > room and i > at:
                cut = cut_before(parsed, i, atoms[i].start, begin)
                drafts += _cut(parsed, number, (at, i), (begin, cut), limits)
                begin, at = cut, i
        drafts += _cut(parsed, number, (at, after), (begin, section.end), limits)
    return drafts


def _cut(
    parsed: Parsed, section: int, atoms: tuple[int, int], span: tuple[int, int], limits: Limits
) -> list[Draft]:
    """The chunk of these atoms, or its parts when it is too long."""
    first, after = atoms
    start, end = span
    if end <= start:
        return []
    marks: list[int] | None
    if parsed.verbatim or first == after:
        text, marks = parsed.data[start:end].decode("utf-8"), None
        if first == after and not parsed.verbatim:  # nothing in it shows
            text, marks = "", []
    else:
        text, marks = _pieces(parsed, first, after, start)
    if (
        end - start
        <= limits.limit + (first < after and parsed.atoms[first].kind == "heading") * 400
    ):
        return [Draft(section, first, after, start, end, text, marks, False)]
    kinds = {atom.kind for atom in parsed.atoms[first:after]} - {"heading"}
    places = cut_places(parsed.data, start, end, bool(kinds) and kinds <= {"code"}, limits)
    return _split(Draft(section, first, after, start, end, text, marks, False), places)


def _pieces(parsed: Parsed, first: int, after: int, start: int) -> tuple[str, list[int] | None]:
    """Text and marks of the atoms [first, after), the latter from `start` on."""
    atoms = parsed.atoms
    opening = atoms[first]
    last = after == len(atoms)
    text_end = len(parsed.texts) if last else atoms[after].text_at
    mark_end = len(parsed.marks) if last else atoms[after].mark_at
    text = "".join(parsed.texts[opening.text_at + 1 : text_end])
    marks = parsed.marks[opening.mark_at + 3 : mark_end]
    if marks:
        marks[0] += opening.start - start
    return text, marks


def cut_places(data: bytes, start: int, end: int, code: bool, limits: Limits) -> list[int]:
    """Where [start, end) is cut: rising, inside, no part longer than `limits.limit` bytes."""
    places: list[int] = []
    if code:
        begin = line = start
        while line < end:
            following = data.find(b"\n", line, end) + 1 or end
            if following - begin > limits.target and line > begin:
                places.append(line)
                begin = line
            line = following
    else:
        places = _text_places(data, start, end, limits.target, limits.limit)
    checked, begin = [], start
    for place in [*places, end]:
        if place - begin > limits.limit:
            checked += _text_places(data, begin, place, limits.target // 4, limits.limit)
        if place < end:
            checked.append(place)
        begin = place
    return checked


def _aligned(text: str, cuts: list[int], limit: int) -> list[int]:
    """The cuts, each moved behind the user-perceived character that it parts, up to `limit` bytes.

    Passages are cut inside of a character that is longer than they are; here only `limit` counts.
    """
    moved, floor = [], 0
    for cut in cuts:
        if cut <= floor:
            continue
        place = cut
        while place < len(text) and place - cut < limit and not is_boundary(text, place, floor):
            place += 1
        if place >= len(text):
            break
        floor = place if place - cut < limit else cut
        moved.append(floor)
    return moved


def _text_places(data: bytes, start: int, end: int, size: int, limit: int) -> list[int]:
    """Cuts as `gnomon.passages.spans` makes them, in parts of about `size` bytes."""
    text = data[start:end].decode("utf-8")
    step = max(size * len(text) // (end - start), 1)
    cuts = [begin for begin, _ in spans(text, step)][1:]
    cuts = _aligned(text, cuts, limit)
    places, at, place = [], 0, start
    for cut in [*cuts, len(text)]:
        while cut - at > 2 * step:  # white space, which belongs to no passage
            middle = at + step
            while middle < cut and not is_boundary(text, middle, at):
                middle += 1
            if middle >= cut:
                break
            place += len(text[at:middle].encode("utf-8"))
            places.append(place)
            at = middle
        place += len(text[at:cut].encode("utf-8"))
        places.append(place)
        at = cut
    return places[:-1]


def _split(draft: Draft, places: list[int]) -> list[Draft]:
    """The parts of `draft` between the cuts; a piece that was not copied stays whole."""
    if draft.marks is None:
        text = draft.text.encode("utf-8")
        cuts = [draft.start, *places, draft.end]
        return [
            draft._replace(
                start=begin,
                end=stop,
                text=text[begin - draft.start : stop - draft.start].decode("utf-8"),
                continued=begin > draft.start,
            )
            for begin, stop in pairwise(cuts)
        ]
    parts: list[Draft] = []
    text, raw, shown = draft.text.encode("utf-8"), draft.start, 0
    begin, begin_text, marks = draft.start, 0, list[int]()
    at = begin  # the raw byte behind the last run of `marks`
    queue = deque(places)

    def close(place: int) -> None:
        nonlocal begin, begin_text, marks, at
        if place > begin:
            words = text[begin_text:shown].decode("utf-8")
            more = bool(parts)
            parts.append(
                draft._replace(start=begin, end=place, text=words, marks=marks, continued=more)
            )
            begin, begin_text, marks, at = place, shown, [], place

    for i in range(0, len(draft.marks), 3):
        piece = raw + draft.marks[i]
        raw, width = piece + draft.marks[i + 1], draft.marks[i + 2]
        while queue and queue[0] <= piece:
            close(queue.popleft())
        while queue and queue[0] < raw:
            place = queue.popleft()
            if width == COPIED:
                marks += (piece - at, place - piece, COPIED)
                shown += place - piece
                close(place)
                piece = place
            else:  # a piece that stands for its bytes as a whole goes to the next part
                close(piece)
        marks += (piece - at, raw - piece, width)
        shown += raw - piece if width == COPIED else width
        at = raw
    for place in queue:
        close(place)
    close(draft.end)
    return parts
