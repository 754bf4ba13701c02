r"""Plain text and change logs: paragraphs are atoms, version lines and underlined lines are
headings.

The text is shown as it is. A version line names a release ("Version 9.1.0", "10-19-15 - Version
6.0.1", "Changes in 6.0.0", "v8.0.31", "5.1.4 (2012-03-01)"); it opens a section when at least two
lines of the document look like it. It stands under the last underlined heading.

>>> data = b"Changes\n=======\n\nVersion 9.1.0\n\n- Fix A.\n\nVersion 9.0.0\n\n- Fix B.\n"
>>> [(h.level, h.title) for h in parse_plain(data).headings]
[(1, 'Changes'), (3, 'Version 9.1.0'), (3, 'Version 9.0.0')]
"""

from __future__ import annotations

import re

from .builder import Parsed

_DATE = rb"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2} \w{3,9} \d{4}|\w{3,9} \d{1,2},? \d{4})"
_NUMBER = rb"\d{1,4}(?:\.\d{1,4}){1,4}(?:[-.]?[A-Za-z][\w.-]{0,20})?"
_VERSION = re.compile(
    rb"^(?:" + _DATE + rb"[ \t]*[-:,][ \t]*)?"
    rb"(?:(?:changes|news|what's new|fixes)[ \t]+(?:in|for)[ \t]+)?"
    rb"(?:[A-Z][\w/+-]{1,30}[ \t]+){0,3}?"
    rb"(?P<word>(?:version|release|rel\.?)[ \t]+)?[\[(]?(?P<v>v)?" + _NUMBER + rb"[\])]?"
    rb"(?:[ \t]*[-,:(\[].{0,60}?)?[ \t]*:?[ \t\r]*$",
    re.IGNORECASE | re.MULTILINE,
)
_UNDERLINE = re.compile(
    rb"^(?P<title>[^\s\-=~#*+.^\"'`_][^\n]{0,118})\r?\n(?P<line>([=\-~#*+^\"'`_])\3{2,})[ \t]*\r?$",
    re.MULTILINE,
)
_BLANK = re.compile(rb"\n(?:[ \t\r\f\v]*\n)+")
_LEVELS = {b"=": 1, b"#": 1, b"*": 1, b"-": 2, b"~": 3}
VERSION_LEVEL = 3


def headings_of(data: bytes, start: int) -> list[tuple[int, int, int, str]]:
    """The heading lines as (start, end, level, title), in order."""
    found: dict[int, tuple[int, int, int, str]] = {}
    for match in _UNDERLINE.finditer(data, start):
        title, line = match["title"].rstrip(), match["line"]
        if abs(len(line) - len(title)) <= max(4, len(title) // 4) or len(line) > len(title):
            level = _LEVELS.get(line[:1], 4)
            if level < VERSION_LEVEL and _VERSION.match(title):
                level = VERSION_LEVEL
            found[match.start()] = (match.start(), match.end(), level, title.decode("utf-8"))
    versions = [
        (match.start(), match.end(), VERSION_LEVEL, match[0].strip().decode("utf-8"))
        for match in _VERSION.finditer(data, start)
        if not match[0][:1].isspace() and _stands_alone(data, match.start(), start)
    ]
    if len(versions) >= 2:
        for version in versions:
            found.setdefault(version[0], version)
    return [found[place] for place in sorted(found)]


def _stands_alone(data: bytes, place: int, floor: int) -> bool:
    """Whether the line before is blank or ornament: a wrapped sentence may begin with a version."""
    before = data.rfind(b"\n", floor, max(place - 1, floor)) + 1 if place > floor else floor
    return not data[max(before, floor) : place].strip(b" \t\r\n=-*#~_+")


def parse_plain(data: bytes, start: int = 0) -> Parsed:
    """The document in `data` (UTF-8) from `start` on, where a byte order mark ends."""
    parsed = Parsed(data, start)
    parsed.verbatim = True
    headings = headings_of(data, start)
    starts = [start, *(match.end() for match in _BLANK.finditer(data, start))]
    opens = {place: number for number, (place, *_) in enumerate(headings)}
    for place in sorted({*starts, *opens, *(end + 1 for _, end, _, _ in headings)}):
        if place >= len(data):
            continue
        number = opens.get(place)
        kind = "heading" if number is not None else _kind(data, place)
        parsed.verbatim_atom(place, kind)
        if number is not None:
            begin, end, level, title = headings[number]
            parsed.heading(level, begin, end, title)
    return parsed


def _kind(data: bytes, place: int) -> str:
    head = data[place : place + 12].lstrip(b" \t")
    return (
        "list" if head[:2] in (b"- ", b"* ", b"+ ") or re.match(rb"\d{1,3}[.)] ", head) else "prose"
    )
