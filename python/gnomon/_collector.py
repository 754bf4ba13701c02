"""The garbage collector, held off while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Without the collector, which looks through all objects of the program again and again while
    only new ones that stay are made. As it was before afterwards, whatever happens.

    >>> with no_collections():
    ...     gc.isenabled()
    False
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
