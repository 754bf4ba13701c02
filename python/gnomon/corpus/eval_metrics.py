"""How well a policy explored: success, steps, useless turns, depth, breadth, recall.

==================  ==============================================================================
success             every quote shown at its place and every text of ``must_include`` shown; for a
                    task without an answer: the policy abstained
steps               calls that were made
step efficiency     calls of the scripted plan / calls made, at most 1; 0 without success
useless turn        a call that showed no new passage of a gold document, told of no id or name
                    that a later call used and the question does not have, and was not the first
                    to tell that a term is absent
depth               longest chain of calls of which each uses what the one before it told
breadth             distinct documents, and distinct sections, that were shown
surfaced recall     share of the quotes inside the span of some passage
previewed recall    share of the quotes that some text showed
read recall         share of the quotes that an answer of ``read`` showed
recall at T tokens  share of the quotes that were shown within the first T tokens of passages
==================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .eval_tasks import Passage, Task, missing, share
from .eval_world import BUDGETS, Turn


class Result(msgspec.Struct, frozen=True):
    """One policy on one task."""

    task: str
    policy: str
    answerable: bool
    success: bool
    abstained: bool
    steps: int
    tokens: int
    steps_to_success: int | None
    step_efficiency: float
    useless: int
    depth: int
    documents: int
    sections: int
    surfaced: float
    previewed: float
    read: float
    recall_at: dict[int, float]
    missing: tuple[str, ...]
    calls: tuple[dict[str, Any], ...]


def judged(task: Task, policy: str, turns: Sequence[Turn], found: bool, plan_steps: int) -> Result:
    """The figures of one run."""
    passages = [passage for turn in turns for passage in turn.passages]
    lacking = missing(task, passages)
    success = (not lacking and found) if task.answerable else not found
    at = next(
        (
            number
            for number in range(1, len(turns) + 1)
            if not missing(task, [p for turn in turns[:number] for p in turn.passages])
        ),
        None,
    )
    read = [p for turn in turns if turn.tool == "read" for p in turn.passages]
    return Result(
        task=task.id,
        policy=policy,
        answerable=task.answerable,
        success=success,
        abstained=not found,
        steps=len(turns),
        tokens=sum(turn.tokens for turn in turns),
        steps_to_success=at if task.answerable and success else None,
        step_efficiency=min(1.0, plan_steps / len(turns)) if success and turns else 0.0,
        useless=sum(useless_turns(task, turns)),
        depth=depth(task, turns),
        documents=len({passage.path for passage in passages}),
        sections=len({(p.path, p.section or p.id) for p in passages}),
        surfaced=share(task, passages, shown=False),
        previewed=share(task, passages),
        read=share(task, read) if task.evidence else 0.0,
        recall_at=recall_at(task, turns),
        missing=tuple(lacking) if task.answerable else (),
        calls=tuple({"tool": t.tool, "args": t.args, "tokens": t.tokens} for t in turns),
    )


def useless_turns(task: Task, turns: Sequence[Turn]) -> list[bool]:
    """Of each call whether it was useless."""
    seen: set[tuple[str, int, int]] = set()
    told, absent, asked = set[str](), set[str](), [task.question]
    answers = []
    for number, turn in enumerate(turns):
        gold = {(p.path, p.start, p.end) for p in turn.passages if p.path in task.gold_paths} - seen
        later = set().union(*(_used(after.args) for after in turns[number + 1 :]), set())
        fresh = [name for name in turn.names - told if not _names(name, asked)]
        used = any(_names(name, later) for name in fresh)
        useful = bool(gold) or used or bool(turn.absent - absent)
        seen |= gold
        told |= turn.names
        absent |= turn.absent
        answers.append(not useful)
    return answers


def depth(task: Task, turns: Sequence[Turn]) -> int:
    """The longest chain of calls that use what an earlier call of the chain was first to tell."""
    depths: list[int] = []
    told: set[str] = set()
    first: list[frozenset[str]] = []
    for turn in turns:
        used = _used(turn.args)
        above = [
            level
            for level, names in zip(depths, first, strict=True)
            if any(_names(name, used) for name in names)
        ]
        depths.append(1 + max(above, default=0))
        fresh = (name for name in turn.names - told if not _names(name, [task.question]))
        first.append(frozenset(fresh))
        told |= turn.names
    return max(depths, default=0)


def recall_at(task: Task, turns: Sequence[Turn]) -> dict[int, float]:
    """The share of quotes within the first tokens; a passage that does not fit ends the budget."""
    ordered = [
        (passage, cost)
        for turn in turns
        for passage, cost in zip(turn.passages, turn.costs, strict=True)
    ]
    found = {}
    for budget in BUDGETS:
        kept: list[Passage] = []
        spent = 0
        for passage, cost in ordered:
            spent += cost
            if spent > budget:
                break
            kept.append(passage)
        found[budget] = share(task, kept)
    return found


def _used(value: Any) -> set[str]:
    """The texts among arguments."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return set().union(*map(_used, value.values()), set())
    if isinstance(value, (list, tuple)):
        return set().union(*map(_used, value), set())
    return set()


def _names(name: str, texts: Iterable[str]) -> bool:
    """Whether a text uses an id or an entity's key or name (``option:max_x`` or ``max_x``)."""
    bare = name.partition(":")[2] or name
    folded = bare.casefold()
    return any(name == text or folded in text.casefold() for text in texts if len(bare) > 2)


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The figures of a policy over its tasks; means over the answerable ones, None without any."""
    asked = [result for result in results if result.answerable]
    empty = [result for result in results if not result.answerable]
    steps = sum(result.steps for result in results)

    def mean(values: Iterable[float]) -> float | None:
        listed = list(values)
        total = 0.0
        for value in listed:
            total += value
        return total / len(listed) if listed else None

    return {
        "tasks": len(results),
        "answerable": len(asked),
        "success": sum(result.success for result in asked),
        "success_rate": mean(float(result.success) for result in asked),
        "abstained_rightly": sum(result.success for result in empty),
        "unanswerable": len(empty),
        "abstained_wrongly": sum(result.abstained for result in asked),
        "steps": mean(float(result.steps) for result in results),
        "steps_max": max((result.steps for result in results), default=0),
        "tokens": mean(float(result.tokens) for result in results),
        "step_efficiency": mean(result.step_efficiency for result in asked),
        "useless_turns": sum(result.useless for result in results) / steps if steps else None,
        "depth": mean(float(result.depth) for result in asked),
        "documents": mean(float(result.documents) for result in asked),
        "sections": mean(float(result.sections) for result in asked),
        "surfaced_recall": mean(result.surfaced for result in asked),
        "previewed_recall": mean(result.previewed for result in asked),
        "read_recall": mean(result.read for result in asked),
        "recall_at": {
            str(budget): mean(result.recall_at[budget] for result in asked) for budget in BUDGETS
        },
    }
