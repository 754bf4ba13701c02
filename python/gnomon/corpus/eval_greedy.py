"""Greedy rules: what an agent without a language model can do with the tools.

1. The first error that the question names: `explore_related_errors`; else the first text that it
   quotes: `search_precise`.
2. The question itself: `search_general_knowledge`. Its report tells how rare each word is.
3. Names of code in the question that few passages hold: `find_api_reference`, the two rarest. One
   that the corpus does not hold at all ends the search once `search_precise` has said so too:
   there is no evidence.
4. Where it asks for a version and the quoted text stands in a list of changes: `navigate` to the
   heading above. Where it asks for an option and an error was explored: `find_api_reference` for
   the option that the error's passages name.
5. While a clause of the question is not covered by a document: the one that is covered least. If it
   says "it" or "that" it is about what was found: `refine` in the best documents. Else
   `search_general_knowledge`. A call that covers nothing better ends the search.

A question that names and quotes nothing may be in other words than the corpus: the report of 2 says
so (`BY_DOCUMENT`), which takes vectors. No count of words then tells what is covered, so instead of
3 to 5 each clause is a question of its own, and the first names that headings of passages have are
looked up by `find_api_reference`.

All rules look at the form of the question and at what the tools tell, at no subject.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from .answers import Answer, Item
from .eval_questions import Asked, parts, read_question, stem, words
from .eval_tasks import Task
from .eval_world import OutOfCallsError, World
from .tool_search import BY_DOCUMENT

RARE = 0.005  # of the passages: a name this rare is worth a look of its own
COVERED = 0.6  # of a clause's weight in the passages of one document
BETTER = 0.05  # of coverage: what a call must bring for another one to be worth it
REFERENCES_MAX = 2
CLAUSES_AROUND = 3
_OF_CODE = re.compile("option:|function:|class:")
_CODE = re.compile(r"[a-z0-9]\w*[A-Z]|_|\(|=")
_ABOUT_FOUND = re.compile(
    r"\b(?:it|its|they|them|the latter)\b|\b(?:this|that)$"
    r"|\b(?:do|does|did|is|are|was|were|can|could|will|would)\s+(?:this|that)\b",
    re.I,
)
_VERSIONS = re.compile(r"\b(?:versions?|releases?|since)\b", re.I)
_CHANGES = re.compile(r"chang|release|history|news|version", re.I)
_OPTIONS = re.compile(r"\b(?:variable|option|propert|parameter|setting)", re.I)


def greedy(task: Task, world: World) -> bool:
    """The policy."""
    explorer = _Explorer(read_question(task.question), world)
    try:
        return explorer.explore()
    except OutOfCallsError:
        return explorer.found


class _Explorer:
    def __init__(self, asked: Asked, world: World) -> None:
        self.asked, self.world = asked, world
        self.found = False
        self.df: dict[str, int] = {}
        self.shown: list[tuple[frozenset[str], Item]] = []  # the stems of each passage
        self.done: set[str] = set()
        self.total = world.passages

    def explore(self) -> bool:
        if self.asked.errors:
            first = self.ask("explore_related_errors", error_code=self.asked.errors[0])
            if not first.report.total and not self.asked.errors[0].isdigit():
                return False
        elif self.asked.quoted:
            first = self.ask("search_precise", query=f'"{self.asked.quoted[0]}"')
        else:
            first = None
        if first is None or not self.all_covered():
            found = self.ask("search_general_knowledge", query=self.asked.text[:2000])
            if first is None and not self.rare_names() and _in_other_words(found):
                self.ask_around(found)
                return self.found
        if any(self.absent(name) for name in self.asked.names):
            return False
        for name in self.rare_names()[:REFERENCES_MAX]:
            self.refer(name)
        if first is not None:
            self.follow(first)
        self.fill()
        return self.found

    def ask_around(self, first: Answer) -> None:
        """More of the same documents, each clause by itself, then what headings are about."""
        if first.report.cursor:
            query, cursor = self.asked.text[:2000], first.report.cursor
            self.ask("search_general_knowledge", query=query, cursor=cursor)
        whole = len(self.asked.words)
        clauses = [c for c in self.asked.clauses if len(words(c)) <= 0.8 * whole]
        for clause in clauses[:CLAUSES_AROUND]:
            self.ask("search_general_knowledge", query=clause)
        for name in self.names_of_headings()[:REFERENCES_MAX]:
            self.refer(name)

    def names_of_headings(self) -> list[str]:
        """What the headings of the passages name, in the order in which they were shown."""
        found = (
            named.id
            for _, item in self.shown
            for named in item.entities
            if _OF_CODE.match(named.id) and _folded(named.id) in _folded("".join(item.heading[-1:]))
        )
        return list(dict.fromkeys(found))

    def follow(self, first: Answer) -> None:
        """From an error to its option, from a change to its release."""
        if self.asked.errors and _OPTIONS.search(self.asked.text):
            named = (e.id for item in first.items for e in item.entities)
            linked = (one.to for item in first.items for one in item.related)
            options = [n for n in (*named, *linked) if n.startswith("option:")]
            fresh = [n for n in dict.fromkeys(options) if _folded(n) not in self.done]
            if fresh:
                self.refer(fresh[0])
        elif not self.asked.errors and _VERSIONS.search(self.asked.text):
            for item in first.items:
                if not item.relaxed and _CHANGES.search(item.path.rpartition("/")[2]):
                    self.ask("navigate", entity=item.chunk_id, relation="parent")
                    return
        elif _OPTIONS.search(self.asked.text) and not self.rare_names(anew=False):
            for name in self.names_of_headings()[:1]:
                self.refer(name)

    def fill(self) -> None:
        """Asks for clauses until all are covered or nothing is gained."""
        asked = (*self.asked.errors[:1], *self.asked.quoted[:1])
        clauses = [c for c in self.asked.clauses if not any(text in c for text in asked)]
        covered = {clause: self.coverage(clause) for clause in clauses}
        whole = len(self.asked.words)
        while covered:
            clause = min(covered, key=lambda one: (covered[one], one))
            if covered.pop(clause) >= COVERED or len(words(clause)) > 0.8 * whole:
                continue
            before = self.coverage(clause)
            self.ask_for(clause)
            if self.coverage(clause) < before + BETTER:
                return

    def all_covered(self) -> bool:
        return all(self.coverage(clause) >= COVERED for clause in self.asked.clauses)

    def ask_for(self, clause: str) -> None:
        best = self.best_documents()
        if _ABOUT_FOUND.search(clause) and best:
            self.ask("refine", result_ids=best, query=clause)
        else:
            context = [name for name in self.rare_names(anew=False) if name not in clause]
            self.ask("search_general_knowledge", query=" ".join([clause, *context[:1]]))

    def best_documents(self) -> list[str]:
        """A passage of each of the documents that cover the question best, three at most."""
        weights = self.weights(self.asked.text)
        ranked = sorted(
            range(len(self.shown)),
            key=lambda n: (-_sum(weights[s] for s in weights if s in self.shown[n][0]), n),
        )
        first: dict[str, str] = {}
        for number in ranked:
            item = self.shown[number][1]
            first.setdefault(item.path, item.chunk_id)
        return list(first.values())[:3]

    def refer(self, name: str) -> None:
        self.done.add(_folded(name))
        self.ask("find_api_reference", entity=name)

    def absent(self, name: str) -> bool:
        """Whether a name of code is nowhere in the corpus."""
        bare = _bare(name)
        if not _CODE.search(bare) or self.df.get(bare.casefold(), 1):
            return False
        return self.ask("search_precise", query=f'"{bare}"').report.total == 0

    def rare_names(self, anew: bool = True) -> list[str]:
        """Names of the question that few passages hold, rarest first."""
        spelled = {_folded(bare): bare for bare in map(_bare, reversed(self.asked.names))}
        rare = [
            name for name in reversed(spelled.values()) if 0 < self.df_of(name) <= RARE * self.total
        ]
        kept = [name for name in rare if not anew or _folded(name) not in self.done]
        return sorted(kept, key=self.df_of)

    # What is known

    def ask(self, tool: str, **arguments: str | list[str]) -> Answer:
        answer = self.world.call(tool, arguments)
        self.found = self.found or any(not item.relaxed for item in answer.items)
        for count in answer.report.terms:
            self.df[count.term.casefold()] = count.df
        for item in answer.items:
            said = words(" ".join((item.path, item.title, *item.heading, item.excerpt)))
            held = {stem(part) for word in said for part in (word, *parts(word))}
            self.shown.append((frozenset(held), item))
        return answer

    def df_of(self, name: str) -> int:
        return self.df.get(name.casefold(), 0)

    def weights(self, clause: str) -> dict[str, float]:
        """The stems of a clause's words; a word in ten times as many passages weighs less."""
        said = (part for word in words(clause) for part in re.split("[=/]", word) if part)
        return {
            stem(word): 1.0 / (1.0 + math.log10(1 + self.df.get(word.casefold(), 0)))
            for word in said
        }

    def coverage(self, clause: str) -> float:
        """The largest share of a clause's words, by weight, in the passages of one document."""
        weights = self.weights(clause)
        whole = _sum(weights.values())
        held: dict[str, set[str]] = {}
        for stems, item in self.shown:
            held.setdefault(item.path, set()).update(stems)
        best = 0.0
        for known in held.values():
            best = max(best, _sum(weights[one] for one in weights if one in known))
        return best / whole if whole else 1.0


def _in_other_words(answer: Answer) -> bool:
    return any(step.step == BY_DOCUMENT for step in answer.report.fallbacks)


def _bare(name: str) -> str:
    return re.split(r"[=(]", name)[0]


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.partition(":")[2] or name).casefold()


def _sum(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
