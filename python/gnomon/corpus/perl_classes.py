r"""`\d`, `\s` and `\w` as Unicode knows them: what ripgrep means by them, and RE2 does not.

RE2 takes them for ASCII. `\d` is the category Nd, `\s` the property White_Space, `\w` the
properties Alphabetic, M, Nd, Pc and Join_Control (Unicode Technical Standard 18, annex C). Two
things stay ASCII, for RE2 cannot say them: `\b`, and `\S` and `\W` inside of brackets.

>>> unicode_classes(r"name\s+[\d.]")
'name[\\s\\v\\x{85}\\pZ]+[\\p{Nd}.]'
"""

from __future__ import annotations

# Alphabetic beyond letters, marks and Nl are the letters in circles and squares.
_WORD = (
    r"\pL\pM\p{Nl}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
    r"\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
_MEMBERS = {"d": r"\p{Nd}", "s": r"\s\v\x{85}\pZ", "w": _WORD, "D": r"\P{Nd}"}


def unicode_classes(pattern: str) -> str:
    """The pattern with these classes written out."""
    out: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\" and at + 1 < len(pattern):
            behind = pattern[at + 1]
            if behind == "Q" and not inside:
                end = pattern.find("\\E", at)
                end = len(pattern) if end < 0 else end + 2
                out.append(pattern[at:end])
                at = end
                continue
            out.append(_written(behind, inside) or pattern[at : at + 2])
            at += 2
            continue
        if inside and pattern.startswith("[:", at) and (end := pattern.find(":]", at)) > 0:
            out.append(pattern[at : end + 2])
            at = end + 2
            continue
        out.append(sign)
        at += 1
        if inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            for opening in ("^", "]"):  # a bracket that stands first is a member
                if pattern.startswith(opening, at):
                    out.append(opening)
                    at += 1
    return "".join(out)


def _written(sign: str, inside: bool) -> str | None:
    if inside:
        return _MEMBERS.get(sign)
    if sign in "SW":
        return f"[^{_MEMBERS[sign.lower()]}]"
    return f"[{_MEMBERS[sign]}]" if sign in _MEMBERS else None
