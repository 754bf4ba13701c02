"""Haystack's joiner of document lists, with gnomon's reciprocal rank fusion."""

from __future__ import annotations

from dataclasses import replace

from haystack import Document, component
from haystack.components.joiners.document_joiner import DocumentJoiner as _Original

from ...fusion import rrf_scores


@component
class DocumentJoiner(_Original):
    """Haystack's ``DocumentJoiner``; fused documents are those of the first list that holds them.

    Examples
    --------
    >>> from haystack import Document
    >>> from gnomon.compat.haystack import DocumentJoiner
    >>> lists = [[Document(id="a"), Document(id="b")], [Document(id="b")]]
    >>> found = DocumentJoiner(join_mode="reciprocal_rank_fusion").run(documents=lists)
    >>> [document.id for document in found["documents"]]
    ['b', 'a']
    """

    def _rrf(self, document_lists: list[list[Document]]) -> list[Document]:
        if not document_lists:
            return []
        rankings = [[document.id for document in documents] for documents in document_lists]
        scores = rrf_scores(rankings, weights=self.weights, preset="haystack")
        first: dict[str, Document] = {}
        for documents in document_lists:
            for document in documents:
                first.setdefault(document.id, document)
        return [replace(first[name], score=score) for name, score in scores.items()]
