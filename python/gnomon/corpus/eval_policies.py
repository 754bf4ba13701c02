"""Policies without a language model: the scripted plan, one search, and greedy rules.

All three ask by the tools, as a model would. `scripted` follows the plan of the task and shows what
the tools can do; `single_shot` asks the question once; `greedy` reads the question's form
(`gnomon.corpus.eval_questions`) and follows what it finds.
"""

from __future__ import annotations

import re
from typing import Any

from .answers import Answer, Report
from .eval_greedy import greedy
from .eval_tasks import Task
from .eval_world import OutOfCallsError, Policy, World

__all__ = ["POLICIES", "greedy", "scripted", "single_shot"]

_HIT = re.compile(r"@hit\[(\d+)\]")


def scripted(task: Task, world: World) -> bool:
    """The task's own plan; ``@hit[N]`` is the id of the N-th item of the answer before.

    A plan says that there is no evidence when none of its calls finds an item that answers as
    asked.
    """
    found, last = False, Answer(Report("", 0))
    for step in task.oracle_plan:
        try:
            arguments = {name: _filled(value, last) for name, value in step.args.items()}
            last = world.call(step.tool, arguments)
        except (OutOfCallsError, IndexError):
            break
        found = found or any(not item.relaxed for item in last.items)
    return found


def _filled(value: Any, last: Answer) -> Any:
    match = _HIT.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else last.items[int(match[1])].chunk_id


def single_shot(task: Task, world: World) -> bool:
    """The question as it stands, once; as many passages as the answer's tokens allow."""
    answer = world.call("search_general_knowledge", {"query": task.question[:2000], "k": 50})
    return bool(answer.items)


POLICIES: dict[str, Policy] = {
    "scripted": scripted,
    "greedy": greedy,
    "single_shot": single_shot,
}
