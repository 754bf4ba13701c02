"""Which documents of a view can hold certain literals: the trigram index as a snapshot has it."""

from __future__ import annotations

import numpy as np

from .literals import EVERYTHING, Tree
from .live import Live, Mask


class Trigrams:
    """Which documents can hold certain literals, raw or rendered; never misses one.

    Upper and lower case of ASCII letters are the same to it.
    """

    def __init__(self, live: Live) -> None:
        self._live = live

    def candidates(self, needed: Tree | None) -> list[str]:
        """Ids of the documents of the view that may match `needed`, by source and path.

        `needed` is a tree as `gnomon.corpus.literals.required_literals` gives it: bytes,
        ``("all", [trees])``, ``("any", [trees])``, or None for "every document". Literals are
        whole characters in UTF-8.
        """
        masks = self.masks(needed)
        return [
            document.id
            for document, spot in self._live.catalogue
            if masks[spot.segment][spot.number]
        ]

    def masks(self, needed: Tree | None) -> list[Mask]:
        """The same as a mask over the documents of each segment."""
        if needed is None or needed == EVERYTHING:
            return list(self._live.masks)
        found = []
        for segment, mask in zip(self._live.segments, self._live.masks, strict=True):
            words = segment.trigrams.candidates(needed)
            bits = np.unpackbits(words.view(np.uint8), count=segment.n_docs, bitorder="little")
            found.append(mask & bits.view(np.bool_))
        return found
