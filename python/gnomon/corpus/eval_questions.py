"""What a question asks for, read without a model: names, quoted texts, error codes, clauses.

The greedy policy of `gnomon.corpus.eval_policies` stands on this. All rules are about the form of
words, none about a subject.

>>> asked = read_question("Error 1153 appears. What limits packets, and which tool sets maxSize=0?")
>>> asked.errors, asked.names
(('1153',), ('maxSize=0',))
>>> asked.clauses
('Error 1153 appears', 'What limits packets', 'which tool sets maxSize=0')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Asked(NamedTuple):
    """The parts of a question, each in the order in which they stand there."""

    text: str
    names: tuple[str, ...]
    errors: tuple[str, ...]
    quoted: tuple[str, ...]
    clauses: tuple[str, ...]
    words: tuple[str, ...]


_QUOTED = re.compile(r"(?<!\w)['‘\"“]([^'’\"”]{4,200}?(?:'[a-z][^'’\"”]{0,199}?)*)['’\"”](?!\w)")
_ERROR = re.compile(r"\b(?:error|code|errno|number)s?(?: number| code)?[ :#]{1,2}(\d{4})\b", re.I)
_SYMBOL = re.compile(r"\b(?:ER|CR|EE|WARN)_[A-Z0-9_]{3,}\b")
_NAME = re.compile(
    r"(?<![\w@.-])(?:--|@@)?"
    r"(?:[A-Za-z]\w*_\w*[A-Za-z0-9]"  # snake_case, UPPER_CASE
    r"|[a-z]+[a-z0-9]*[A-Z]\w*"  # camelCase
    r"|[A-Z][a-z0-9]+[A-Z]\w*)"  # PascalCase
    r"(?:\.\w+)*(?:=[\w.-]+|\([\w,. ]*\))?"
)
_CLAUSE = re.compile(
    r"[?;:]\s+|[.?!]\s*$|\.\s+(?=[A-Z])|,\s+(?:and|but|or)?\s*(?=\w)|\s+and\s+(?=wh|how)"
)
_WORD = re.compile(r"[A-Za-z0-9][\w./+#=-]*[A-Za-z0-9]|[A-Za-z0-9]")
# Words that ask or join: they say nothing about what is asked for.
_STOP = """
s t d ll re ve a an the of in on at to for from by with without into onto as is are was were be
been being do does did done has have had can could may might must should would will shall not
no nor and or but if then else than that this these those there here it its they them their he
she we our you your i my me us what which who whom whose when where why how give gives given
tell say says said get gets got let lets make makes made use used uses using only also still
even just very more most less least some any all each every both other another one two between
over under about after before during while because so such same own out up down off again once
since until against within per via please name names called did mean means
"""
STOP = frozenset(_STOP.split())
CLAUSES_MAX, CLAUSE_WORDS_LEAST = 6, 2


def read_question(text: str) -> Asked:
    """The parts of a question."""
    quoted = tuple(_distinct(match[1].strip() for match in _QUOTED.finditer(text)))
    errors = [match[1] for match in _ERROR.finditer(text)]
    errors += [match[0] for match in _SYMBOL.finditer(text)]
    names = [match[0] for match in _NAME.finditer(text) if not _SYMBOL.fullmatch(match[0])]
    return Asked(
        text,
        tuple(_distinct(names)),
        tuple(_distinct(errors)),
        quoted,
        tuple(_clauses(text)),
        tuple(words(text)),
    )


def words(text: str) -> list[str]:
    """The words that say something, each once, as written.

    >>> words("What is the default of max_size?")
    ['default', 'max_size']
    """
    found = (match[0] for match in _WORD.finditer(text))
    return _distinct(word for word in found if word.casefold() not in STOP)


def parts(name: str) -> list[str]:
    """The words inside a name, in lower case.

    >>> parts("maxAllowedPacket"), parts("option:wait_timeout")
    (['max', 'allowed', 'packet'], ['wait', 'timeout'])
    """
    bare = name.partition(":")[2] or name
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+", " ", bare)
    return spaced.casefold().split()


def stem(word: str) -> str:
    """A word without its commonest endings, so that "limiting" meets "limit".

    >>> stem("limiting"), stem("retries"), stem("connected"), stem("bus")
    ('limit', 'retr', 'connect', 'bus')
    """
    word = word.casefold()
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _clauses(text: str) -> list[str]:
    held = [clause.strip(" ,.?!") for clause in _CLAUSE.split(text)]
    return _distinct(c for c in held if len(words(c)) >= CLAUSE_WORDS_LEAST)[:CLAUSES_MAX]


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))
