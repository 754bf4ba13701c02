"""Finds the names in a document: where they stand, what they are, and whether they are defined.

Everything is deterministic and every mention has its raw bytes. Names come from the parser (code,
properties, reStructuredText roles), from headings, from tables whose header says what a column
holds, and from patterns over the rendered text (`gnomon.corpus.names`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from .. import _core
from . import names as n
from .assemble import Draft, SectionDraft
from .builder import Parsed
from .mention_places import Mention, Places
from .mention_tables import Tables, lists_options
from .words import hits_of

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*(?:\(\))?")
_ERROR_TITLE = re.compile(r"^Error (\d{4})\b")
# What is near a name: the patterns of gnomon.corpus.names that may match behind and before it.
_FUNCTION, _ERROR, _OPTION, _PACKAGE, _CLASS, _NOUN = (1 << number for number in range(6))


class Finder(Places):
    """Gathers the mentions of one document; `find` returns them in order of their place."""

    def __init__(
        self, parsed: Parsed, sections: Sequence[SectionDraft], drafts: Sequence[Draft]
    ) -> None:
        super().__init__(parsed, sections, drafts)
        self.found: list[Mention] = []
        self.titled: set[int] = set()  # where headings define something
        self.defined: dict[int, Mention] = {}  # section -> what its heading defines
        self.aliases: list[tuple[Mention, Mention]] = []
        self._about_env: bool | None = None

    def find(self) -> list[Mention]:
        for name in self.parsed.names:
            self.found.append(Mention(*name))
        if not self.parsed.verbatim or self.parsed.language == "":
            self._headings()
            tables = Tables(self, self.defined)
            tables.find()
            self.found += tables.found
            self.aliases += tables.aliases
        judge = self._judge()
        for draft in self.drafts:
            if draft.text:
                self._chunk(draft, judge)
        return self._settled()

    def _add(self, kind: str, name: str, start: int, end: int, role: str = "mentions") -> None:
        self.found.append(Mention(kind, name, start, end, role))

    # --- headings ---

    def _headings(self) -> None:
        for number, section in enumerate(self.sections):
            heading = section.heading
            if heading is None:
                continue
            title = self.parsed.text_of(heading.atom)
            kind, begin, end = self._heading_kind(number, title)
            if kind:
                [(start, stop)] = self.located(heading.atom, [(begin, end)])
                if kind == "option?":  # a plain word counts when it is written as code
                    if not self.in_code_span(start):
                        continue
                    kind = "option"
                self.titled.add(start)
                self._add(kind, title[begin:end], start, stop, "defines")
                self.defined[number] = self.found[-1]

    def _heading_kind(self, number: int, title: str) -> tuple[str, int, int]:
        """What the heading defines, if it is the name of something: ("", 0, 0) otherwise."""
        nothing = ("", 0, 0)
        error = _ERROR_TITLE.match(title)
        if error:
            return ("error_code", *error.span(1))
        begin = len(title) - len(title.lstrip())
        words = title.split()
        if not words:
            return nothing
        end = begin + len(words[0])
        word = words[0]
        if len(words) > 1 and not (len(words) == 2 and words[1].strip("()").lower() in _NOUNS):
            return nothing
        noun = words[1].strip("()").lower() if len(words) == 2 else ""
        if noun in ("method", "function", "constructor") and _DOTTED.fullmatch(word):
            return "function", begin, end
        if word.endswith("()") and n.IDENTIFIER.fullmatch(word[:-2].replace(".", "")):
            return "function", begin, end - 2
        if not n.IDENTIFIER.fullmatch(word) or n.FILE_END.search(title):
            return nothing
        if re.fullmatch(r"(?:ER|CR|EE|WARN)_[A-Z0-9_]+", word):
            return "error_symbol", begin, end
        if noun in ("class", "exception", "interface", "enum"):
            return "class", begin, end
        section = self.sections[number]
        above = section.path[:-1]
        if re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", word):
            named = any(map(_lists_env, above))
            return ("env_var", begin, end) if named else nothing
        listed = any(map(lists_options, above))
        shaped = "_" in word or word.startswith("--") or re.search(r"[a-z][A-Z]", word)
        if shaped and (listed or noun in _OPTION_NOUNS):
            return "option", begin, end
        if listed or noun in _OPTION_NOUNS:
            return "option?", begin, end
        if shaped and "_" in word and word.islower():
            return "identifier", begin, end
        return nothing

    # --- text ---

    def _chunk(self, draft: Draft, judge: _core.NameJudge) -> None:
        text = draft.text
        hits = hits_of(text)
        if not hits:
            return
        self._about_env = None
        for found in judge.names(text, draft.marks, draft.start, hits):
            if type(found) is Mention:
                self.found.append(found)
            else:
                self._decide(draft, *found)

    def _judge(self) -> _core.NameJudge:
        """What decides where only the place and the shape of a name count."""
        parsed = self.parsed
        return _core.NameJudge(
            *(Mention, _FIXED, parsed.atoms, parsed.codes, self.links, self.titled),
            bool(parsed.language),
        )

    def _decide(
        self,
        draft: Draft,
        begin: int,
        end: int,
        group: str,
        start: int,
        stop: int,
        code: bool,
        near: int,
    ) -> None:
        """Adds what a token of a chunk is; `near` has bits of `Near` in cpp/corpus_names.hpp."""
        text = draft.text
        kind = _FIXED.get(group)
        if kind is None:
            if near or group not in _NAMES:
                kind = self._kind(group, text, begin, end, start, code, near)
            else:
                kind = "" if code else self._plain_kind(group, text, begin, end, start)
        if kind:
            role = "example" if code and not self.parsed.language else "mentions"
            self._add(kind, text[begin:end], start, stop, role)
        elif group == "install" and (code or self.in_code_span(start)):
            found = n.INSTALL.search(text, max(begin - 16, 0))
            if found is not None:
                self._packages(draft, text, found.end())

    def _of_env(self, text: str) -> bool:
        """Whether the text of the chunk at hand speaks of environment variables."""
        if self._about_env is None:
            self._about_env = n.ENV_PLACE.search(text) is not None
        return self._about_env

    def _packages(self, draft: Draft, text: str, at: int) -> None:
        while (word := n.PACKAGE_WORDS.match(text, at)) is not None:
            [(start, stop)] = _core.locate_spans(
                text, draft.marks, draft.start, [word.span("name")]
            )
            if self.kind_at(start) != "code" and not self.in_code_span(start):
                return
            if not n.PACKAGE_FILE.search(word["name"]):
                self._add("package", word["name"], start, stop)
            at = word.end()

    def _plain_kind(self, group: str, text: str, begin: int, end: int, place: int) -> str:
        """What :meth:`_kind` says, outside of code, of a name that nothing near it tells."""
        if group == "snake" and not self.links:
            return "" if place in self.titled else "identifier"
        spelled = self.in_code_span(place)
        if group == "upper":
            told = spelled and place not in self.titled and self._of_env(text)
            return "env_var" if told else ""
        if (not spelled and not self.links and group != "snake") or place in self.titled:
            return ""
        return self._linked(group, text, begin, end, place, spelled)

    def _kind(
        self, group: str, text: str, begin: int, end: int, place: int, code: bool, near: int
    ) -> str:
        """The type of the entity that a token is; "" for none."""
        if group == "number":
            return "version" if n.after_product(text, begin) else ""
        if group == "ticket":
            return self._ticket(text, begin, end, place, code)
        if group == "env":
            return "env_var" if code or "_" in text[begin:end] or self._of_env(text) else ""
        if group == "assigned":
            return "option" if code and not self.parsed.language and _ini(text, begin) else ""
        sign = text[end : end + 1]
        if place in self.titled or (sign == "." and n.FILE_END.match(text, end)):
            return ""
        if code and group == "upper" and sign == "=":
            start = n.SHELL_START.search(text[max(begin - 8, 0) : begin])
            return "env_var" if start else ""
        if code or group == "method":
            return (
                "function"
                if sign == "(" and not n.NOT_CALLED.search(text[max(begin - 14, 0) : begin])
                else ""
            )
        if near & _FUNCTION and group != "upper" and n.FUNCTION_NOUN.match(text, end):
            return "function"
        if near & _PACKAGE and n.after_package(text, begin):
            return "package"
        if near & _CLASS and group == "pascal" and n.class_before(text, begin):
            return "class"
        if sign == "(":
            return "function" if group != "upper" or self.in_code_span(place) else ""
        if group == "upper":
            return self._upper(text, end, place, near)
        return self._identifier(group, text, begin, end, place, near)

    def _ticket(self, text: str, begin: int, end: int, place: int, code: bool) -> str:
        """What a number behind a "#" is."""
        told = n.BUG_WORD.search(text[max(begin - 12, 0) : begin]) is not None
        told = told or (not code and begin > 3 and n.TICKETS_END.match(text, end) is not None)
        return "issue" if told or n.ISSUE_LINK.search(self.link_at(place)) else ""

    def _upper(self, text: str, end: int, place: int, near: int) -> str:
        """What a name in capitals with underscores is, outside of code blocks."""
        if near & _ERROR and n.ERROR_NOUN.match(text, end):
            return "error_symbol"
        noun = near & _OPTION and n.OPTION_NOUN.match(text, end) is not None
        if not noun and self.in_code_span(place) and self._of_env(text):
            return "env_var"
        assigned = text.startswith("=", end) and text[end + 1 : end + 2].isalnum()
        return "option" if noun or assigned else ""

    def _identifier(
        self, group: str, text: str, begin: int, end: int, place: int, near: int
    ) -> str:
        if text.startswith("=", end) and not text.startswith("==", end):
            return "option"
        spelled = self.in_code_span(place)
        if group == "pascal" and not spelled and not (self.links and self.link_at(place)):
            return ""  # whatever else there is
        noun = n.OPTION_NOUN.match(text, end) if near & _OPTION else None
        if noun is None and near & _NOUN:
            noun = n.noun_before(text, begin)
        if group == "pascal" and noun and "propert" in noun[0]:
            noun = None  # a property of a class
        if noun:
            return "option" if group != "pascal" or spelled else ""
        return self._linked(group, text, begin, end, place, spelled)

    def _linked(
        self, group: str, text: str, begin: int, end: int, place: int, spelled: bool
    ) -> str:
        """What a name is by where its link leads, or by its shape; `spelled`: in a span of code."""
        url = self.link_at(place) if self.links else ""
        if url and n.OPTION_LINK.search(url):
            return "option"
        if url and group != "pascal" and n.FUNCTION_LINK.search(url):
            return "function"
        if group == "pascal":
            if not spelled:
                return ""
            return "class" if n.CLASS_END.search(text, begin, end) else "identifier"
        if group in ("camel", "mixed") and not spelled:
            return ""
        return "identifier"

    # --- the whole document ---

    def _settled(self) -> list[Mention]:
        """One mention per place and name; an identifier is what it is elsewhere in it."""
        options = {n.normalise("option", m.name) for m in self.found if m.type == "option"}
        classes = {n.normalise("class", m.name) for m in self.found if m.type == "class"}
        functions = {n.normalise("function", m.name) for m in self.found if m.type == "function"}
        best: dict[tuple[int, int], Mention] = {}
        for mention in self.found:
            if mention.type == "identifier":
                word = n.normalise("identifier", mention.name)
                if word in options:
                    mention = mention._replace(type="option")
                elif word in classes:
                    mention = mention._replace(type="class")
                elif word in functions:
                    mention = mention._replace(type="function")
            place = mention.start, mention.end
            known = best.get(place)
            if known is None or _rank(mention) < _rank(known):
                best[place] = mention
        return sorted(best.values(), key=lambda m: (m.start, m.end))


_OPTION_NOUNS = frozenset({"option", "parameter", "property", "setting", "variable"})
_NOUNS = _OPTION_NOUNS | frozenset(
    {"class", "exception", "interface", "enum", "method", "function", "constructor"}
)
_FIXED = {
    "symbol": "error_symbol", "call": "function", "exception": "class", "issue": "issue",
    "error": "error_code", "sqlstate": "sqlstate", "state": "sqlstate",
    "report": "issue", "bare": "version", "dashed": "version", "setenv": "env_var",
    "flag": "option", "atvar": "option", "set": "option", "install": "",
    "import": "package", "from": "package", "require": "package", "es": "package",
    "using": "package",
}  # fmt: skip
_NAMES = frozenset({"snake", "camel", "pascal", "upper", "mixed"})
_ORDER = {"defines": 0, "example": 1, "mentions": 1}


def _rank(mention: Mention) -> tuple[int, int]:
    return (
        _ORDER.get(mention.role, 2),
        n.TYPES.index(mention.type) if mention.type in n.TYPES else 0,
    )


def _ini(text: str, place: int) -> bool:
    """Whether the line stands under an ini section or is an assignment without spaces in"
    " lower case.
    """
    before = text.rfind("\n[", 0, place)
    return before >= 0 or text.startswith("[")


@lru_cache(maxsize=1 << 14)
def _lists_env(title: str) -> bool:
    return n.ENV_PLACE.search(title) is not None
