"""A cache of answers that is bounded by bytes; the one used longest ago goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from .answers import Answer


class AnswerCache:
    """Answers without times, under (generation, readers, call). Safe from several threads.

    >>> cache = AnswerCache(0)
    >>> cache.get("key") is None
    True
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Answer, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def get(self, key: Hashable) -> Answer | None:
        """The answer under a key, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, answer: Answer, size: int) -> None:
        """Keeps an answer of `size` bytes, unless it alone is more than may be kept."""
        if size > self._most:
            return
        with self._lock:
            old = self._kept.pop(key, None)
            if old is not None:
                self._bytes -= old[1]
            self._kept[key] = answer, size
            self._bytes += size
            while self._bytes > self._most:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= gone
