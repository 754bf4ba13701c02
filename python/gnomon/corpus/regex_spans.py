"""Where regular expressions of a query match in the passages that are shown, found when asked for.

A query has to know of every passage whether an expression matches; where, only of the few that an
answer shows. The first match of a passage settles the first question, so that an expression that
matches everywhere costs no more than one that matches once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .grep import Matcher, rendered_matches
from .model import Span

if TYPE_CHECKING:
    from .snapshot import Snapshot

SPANS_MOST = 200  # of a passage


class RegexSpans(Mapping[str, Sequence[Span]]):
    """Raw matches by passage id: in order, the first `SPANS_MOST` of each expression."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._matchers: list[Matcher] = []

    def add(self, matcher: Matcher) -> None:
        """One more expression."""
        self._matchers.append(matcher)

    def __getitem__(self, chunk_id: str) -> Sequence[Span]:
        if not self._matchers:
            raise KeyError(chunk_id)
        chunk = self._snapshot.chunk(chunk_id)
        return [
            span
            for matcher in self._matchers
            for span in rendered_matches(matcher, chunk, SPANS_MOST)
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(())  # they are not looked for before they are asked for

    def __len__(self) -> int:
        return 0
