"""Which function answers which question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .answers import Answer
from .grepping import grep
from .hypothesis import verify_hypothesis
from .listing import list_things, outline, stats
from .navigation import navigate
from .query_compile import QueryError
from .questions import Call
from .reading import read
from .search import Search
from .slots import Mask
from .tool_handlers import TOOL_HANDLERS

if TYPE_CHECKING:
    from .engine import Engine


def _search(engine: Engine, call: Call) -> Answer:
    return Search(engine, call.args, tool=call.tool).answer()


def _refine(engine: Engine, call: Call) -> Answer:
    return Search(engine, call.args, _inside(engine, call), call.tool).answer()


def _inside(engine: Engine, call: Call) -> Mask:
    """The passages of the chunks, sections or documents of earlier results."""
    slots = engine.slots
    ids = call.args["previous_result_ids"]
    known = [each for each in ids if engine.snapshot.has_chunk(each)]
    if not known:
        raise QueryError(
            "unknown_id",
            "none of previous_result_ids is a passage that is here",
            "pass the chunk_id of items of an earlier answer",
        )
    found = slots.of_chunks(known)
    within = call.args["within"]
    if within == "chunk":
        return slots.mask(found)
    codes, n = slots.groups(within)
    wanted = np.zeros(n, dtype=np.bool_)
    wanted[codes[found]] = True
    mask: Mask = wanted[codes] & slots.live
    return mask


HANDLERS: dict[str, Callable[[Engine, Call], Answer]] = {
    "hybrid_search": _search,
    "contextual_refine": _refine,
    "navigate": navigate,
    "verify_hypothesis": verify_hypothesis,
    "read": read,
    "grep": grep,
    "outline": outline,
    "list": list_things,
    "stats": stats,
    **TOOL_HANDLERS,
}
