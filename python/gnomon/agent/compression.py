"""Checked compression: what the kept text lost, or made up, is reported and never silent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .facts import Fact, facts

# A full stop ends a sentence before white space and a capital, digit, quote or CJK text; "e.g. x"
# does not. Splitting too little only makes sentences longer, which loses nothing.
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\Wa-z_])|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_]+(?:['’][a-z]+)?")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_EMPTY = (
    "the a an is are was were be been being am do does did has have had will would shall should "
    "can could may might must of to in on at by for with from as and or but it its this that these "
    "those there than then so such not no never none neither nor without cannot any all"
)
_EMPTY_WORDS = frozenset(_EMPTY.split())


@dataclass(frozen=True, slots=True)
class CompressionFinding:
    """A difference of facts between a source and the text kept of it.

    ``code``: "lost" (the kept text has none of it), "fewer" (less often than the source has it),
    "reversed" (a negation is gone, or new, although what it governs was kept) or "added" (the
    source never says it). ``severity``: "error" for "reversed", "added" and a lost fact whose
    sentence was otherwise kept; "warning" where the whole sentence was left out, and for "fewer".
    ``context`` is the sentence that holds the fact, in the source ("added": in the kept text).
    """

    code: str
    kind: str
    value: str
    context: str
    severity: str


def sentences(text: str) -> list[str]:
    """The sentences of a text without the white space around them; none is empty.

    >>> sentences("Use 1.5 mg. Do not, e.g. at night, repeat! 不要停药。复诊。")
    ['Use 1.5 mg.', 'Do not, e.g. at night, repeat!', '不要停药。', '复诊。']
    """
    return [text[start:end] for start, end in _spans(text)]


def _spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    for match in [*_SENTENCE.finditer(text), None]:
        # Closing quotes belong to the sentence before the white space.
        end = len(text) if match is None else match.start() + len(match.group().rstrip())
        piece = text[start:end]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            spans.append((start + lead, start + len(piece.rstrip())))
        start = len(text) if match is None else match.end()
    return spans


def check_compression(source: str, kept: str) -> list[CompressionFinding]:
    """What ``kept`` lost of the numbers, units, dates, negations, conditions and identifiers.

    Facts are compared by value (``gnomon.agent.facts``), so a number written another way is not
    lost, while another unit is: "5 mg" kept as "5 g" gives a lost and an added unit. A negation is
    matched with the words it governs: "do not stop" kept as "stop" is "reversed". Empty list: no
    such difference was found. It is a check of facts, not of meaning: a paraphrase may be wrong and
    pass, and a right paraphrase ("at most 5" for "no more than 5") is reported and left to judge.

    >>> for finding in check_compression(
    ...     "Give 5 mg. Do not give it after 2024-05-01.", "Give 5 mg. Give it."
    ... ):
    ...     print(finding.code, finding.kind, finding.value, finding.severity)
    reversed negation not error
    lost condition after error
    lost date 2024-05-01 error
    """
    before, after = _Side(source), _Side(kept)
    return [*_missing(before, after), *_added(before, after)]


class _Side:
    """A text with its facts, each tied to the sentence it stands in."""

    def __init__(self, text: str) -> None:
        spans = _spans(text)
        self.sentences = [text[start:end] for start, end in spans]
        self.verbatim = {sentence: at for at, sentence in enumerate(self.sentences)}
        self.words = [content_words(sentence) for sentence in self.sentences]
        self.facts: list[tuple[Fact, int]] = []
        at = 0
        for fact in facts(text):
            while at + 1 < len(spans) and fact.start >= spans[at][1]:
                at += 1
            self.facts.append((fact, at))
        self.counts = Counter((fact.kind, fact.value) for fact, _ in self.facts)
        self.negations = Counter(at for fact, at in self.facts if fact.kind == "negation")
        self.by_word: dict[str, set[int]] = {}
        for index, words in enumerate(self.words):
            for word in words:
                self.by_word.setdefault(word, set()).add(index)

    def counterpart(self, other: _Side, at: int) -> int | None:
        """The sentence here that sentence ``at`` of ``other`` became, if there is one.

        The same sentence; else, of those that ``other`` does not hold word for word, the one that
        shares most content words, if that is more than half of the shorter sentence's.
        """
        if other.sentences[at] in self.verbatim:
            return self.verbatim[other.sentences[at]]
        words = other.words[at]
        shared = Counter(
            index
            for word in words
            for index in self.by_word.get(word, ())
            if self.sentences[index] not in other.verbatim
        )
        if not shared:
            return None
        index = max(shared, key=lambda i: (shared[i], -len(self.words[i]), -i))
        return index if 2 * shared[index] > min(len(words), len(self.words[index])) else None

    def negation_lost(self, at: int, other: _Side, counterpart: int) -> bool:
        """Whether sentence ``at`` denies more than its counterpart in ``other``.

        One negation fewer counts only when the whole text has fewer: sentences may be joined or
        split without a change of meaning.
        """
        mine, theirs = self.negations[at], other.negations[counterpart]
        fewer = self.negations.total() > other.negations.total()
        return mine > 0 and (theirs == 0 or (theirs < mine and fewer))


def content_words(sentence: str) -> frozenset[str]:
    """Lower-case words with content, no digits; Chinese text gives pairs of characters."""
    found: set[str] = set()
    for match in _WORD.finditer(sentence.lower()):
        word = match.group()
        if _CJK.search(word):
            found.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        elif not (word.isdigit() or word in _EMPTY_WORDS or word.endswith(("n't", "n’t"))):
            found.add(word)
    return frozenset(found)


def _missing(source: _Side, kept: _Side) -> list[CompressionFinding]:
    findings: list[CompressionFinding] = []
    reported: set[tuple[str, str]] = set()
    found = {at: kept.counterpart(source, at) for at in {at for _, at in source.facts}}
    for fact, at in source.facts:
        key = (fact.kind, fact.value)
        sentence = source.sentences[at]
        counterpart = found[at]
        if fact.kind == "negation" and counterpart is not None:
            # Any negation in the counterpart will do: "without" may stand for "no".
            if source.negation_lost(at, kept, counterpart):
                findings.append(CompressionFinding("reversed", *key, sentence, "error"))
            continue
        have = kept.counts[key]
        if have >= source.counts[key] or key in reported:
            continue
        if have:
            reported.add(key)
            findings.append(CompressionFinding("fewer", *key, sentence, "warning"))
        else:
            severity = "warning" if counterpart is None else "error"
            findings.append(CompressionFinding("lost", *key, sentence, severity))
    return findings


def _added(source: _Side, kept: _Side) -> list[CompressionFinding]:
    findings: list[CompressionFinding] = []
    found = {at: source.counterpart(kept, at) for at in kept.negations}
    for fact, at in kept.facts:
        key = (fact.kind, fact.value)
        counterpart = found[at] if fact.kind == "negation" else None
        if counterpart is not None:
            code = "reversed" if kept.negation_lost(at, source, counterpart) else ""
        else:
            code = "" if source.counts[key] else "added"
        if code:
            findings.append(CompressionFinding(code, *key, kept.sentences[at], "error"))
    return findings


@dataclass(frozen=True, slots=True)
class Compressed:
    """A shortened text, its cost by the caller's counter, and what it lost of the source."""

    text: str
    tokens: int
    findings: tuple[CompressionFinding, ...]


def extract(source: str, query: str, limit: int, count: Callable[[str], int]) -> str:
    """Whole sentences of ``source``, those that share most words with ``query``, within ``limit``.

    Sentences are taken word for word and stay in their order, so nothing inside one can be lost or
    invented. Ties go to the earlier sentence. Empty when no sentence fits.

    >>> extract("Cats sleep. Dogs bark at 5 pm. Birds sing.", "when do dogs bark", 20, len)
    'Dogs bark at 5 pm.'
    """
    wanted = content_words(query)
    parts = sentences(source)
    ranked = sorted(range(len(parts)), key=lambda i: (-len(content_words(parts[i]) & wanted), i))
    chosen: set[int] = set()
    spent = 0
    for index in ranked:
        cost = count(parts[index] + " ")
        if spent + cost <= limit + 1:
            chosen.add(index)
            spent += cost
    # A counter need not add up over parts: the joined text decides, last choice first.
    for index in reversed(ranked):
        text = " ".join(parts[i] for i in sorted(chosen))
        if count(text) <= limit:
            return text
        chosen.discard(index)
    return ""


def compress_checked(
    source: str,
    limit: int,
    *,
    count: Callable[[str], int],
    query: str = "",
    compressor: Callable[[str, int], str] | None = None,
) -> Compressed:
    """``source`` within ``limit`` tokens of ``count``, with the findings of ``check_compression``.

    ``compressor(source, limit)`` may be anything, a model too; by default whole sentences are
    extracted for ``query``. A source that fits is returned as it is, with no findings.

    Raises ValueError for a limit below 0 and for a compressor whose text is longer than the limit.

    >>> compress_checked("Stop at 40 °C. It is hot.", 14, count=len, query="stop").text
    'Stop at 40 °C.'
    """
    if limit < 0:
        raise ValueError(f"limit must be 0 or more tokens, got {limit}")
    if count(source) <= limit:
        return Compressed(source, count(source), ())
    text = compressor(source, limit) if compressor else extract(source, query, limit, count)
    tokens = count(text)
    if tokens > limit:
        raise ValueError(f"the compressor returned {tokens} tokens; the limit is {limit}")
    return Compressed(text, tokens, tuple(check_compression(source, text)))
