"""Greedy rules: what an agent without a language model can do with the tools.

1. Errors that the question names: `explore_related_errors`. A quoted text: `search_precise`.
2. The question itself: `search_general_knowledge`; its report tells how rare each word is.
3. Rare names that the question has: `find_api_reference`. A name of code that the corpus does not
   hold, once `search_precise` has said so too, ends the search: there is no evidence.
4. Then, one after the other, whichever promises most: the clause of the question whose words the
   passages seen so far cover least, asked with the rarest names; or a name that the passages tell
   of and that shares words with the question.

All rules look at the form of the question and at what the tools tell, at no subject.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from .answers import Answer
from .eval_questions import Asked, parts, read_question, stem, words
from .eval_tasks import Task
from .eval_world import OutOfCallsError, World

RARE = 0.005  # of the passages: a name this rare is worth a look of its own
COVERED = 0.75  # of a clause's weight in one passage
REFERENCES_MAX = 2
_CODE = re.compile(r"[a-z]\w*[A-Z]|_|\(|=")


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
        self.seen: list[frozenset[str]] = []  # the stems of each passage
        self.names: dict[str, int] = {}  # entity -> passages that tell of it
        self.done: set[str] = set()  # names and queries that were asked
        self.total = 1

    def explore(self) -> bool:
        for code in self.asked.errors[:1]:
            answer = self.ask("explore_related_errors", error_code=code)
            if not answer.items and not code.isdigit():
                return False
        for text in self.asked.quoted[:1]:
            self.ask("search_precise", query=f'"{text}"')
        self.ask("search_general_knowledge", query=self.asked.text[:2000])
        for name in self.asked.names:
            if self.absent(name):
                return False
        for name in self.rare_names()[:REFERENCES_MAX]:
            self.refer(name)
        while self.next_step():
            pass
        return self.found

    # What to ask

    def next_step(self) -> bool:
        """The call that promises most; False when none is left."""
        clauses = [
            (1.0 - self.coverage(clause), clause)
            for clause in self.asked.clauses
            if clause not in self.done
        ]
        gap, clause = max(clauses, default=(0.0, ""))
        worth, name = max(
            ((self.kinship(name), name) for name in self.names if name not in self.done),
            default=(0.0, ""),
        )
        if clause and gap >= 1.0 - COVERED and gap >= worth:
            self.done.add(clause)
            self.ask("search_general_knowledge", query=self.with_context(clause))
            return True
        if name and worth > 0:
            self.refer(name)
            return True
        return False

    def with_context(self, clause: str) -> str:
        """A clause with the names that say what it is about."""
        context = [name for name in self.rare_names() if name not in clause]
        return " ".join([clause, *context[:2]])

    def refer(self, name: str) -> None:
        self.done.add(name)
        self.ask("find_api_reference", entity=name)

    def absent(self, name: str) -> bool:
        """Whether a name of code is nowhere in the corpus."""
        bare = re.split(r"[=(]", name)[0]
        if not _CODE.search(bare) or self.df.get(bare.casefold(), 1):
            return False
        return self.ask("search_precise", query=f'"{bare}"').report.total == 0

    def rare_names(self) -> list[str]:
        """Names of the question that few passages hold, rarest first, not asked yet."""
        bare = dict.fromkeys(re.split(r"[=(]", name)[0] for name in self.asked.names)
        rare = [name for name in bare if 0 < self.df_of(name) <= RARE * self.total]
        return sorted((n for n in rare if n not in self.done), key=self.df_of)

    # What is known

    def ask(self, tool: str, **arguments: str) -> Answer:
        answer = self.world.call(tool, arguments)
        self.found = self.found or any(not item.relaxed for item in answer.items)
        for count in answer.report.terms:
            self.df[count.term.casefold()] = count.df
            self.total = max(self.total, count.df)
        for item in answer.items:
            text = " ".join((item.title, *item.heading, item.excerpt))
            self.seen.append(frozenset(map(stem, words(text))))
            for named in item.entities:
                self.names[named.id] = self.names.get(named.id, 0) + 1
        return answer

    def df_of(self, name: str) -> int:
        return self.df.get(name.casefold(), 0)

    def weight(self, word: str) -> float:
        return 1.0 / (1.0 + math.log10(1 + self.df.get(word.casefold(), 0)))

    def coverage(self, clause: str) -> float:
        """The largest share of a clause's words, by weight, in one passage."""
        weights = {stem(word): self.weight(word) for word in words(clause)}
        whole = _sum(weights.values())
        best = 0.0
        for held in self.seen:
            best = max(best, _sum(weights[one] for one in weights if one in held))
        return best / whole if whole else 1.0

    def kinship(self, name: str) -> float:
        """How much a name that was met has to do with the question: shared words, met often."""
        asked = {stem(word) for word in self.asked.words}
        own = [stem(part) for part in parts(name)]
        shared = sum(1 for part in own if part in asked)
        if not shared or name.partition(":")[0] in ("version", "issue"):
            return 0.0
        return shared / len(own) * min(1.0, self.names[name] / 3)


def _sum(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
