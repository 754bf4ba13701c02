"""LlamaIndex's fusion of retrievers, which leaves the retrievers' nodes as they are."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import QueryFusionRetriever as _Original
from llama_index.core.schema import NodeWithScore

from ...fusion import rrf_scores

Results = dict[tuple[str, int], list[NodeWithScore]]


class QueryFusionRetriever(_Original):
    """LlamaIndex's ``QueryFusionRetriever`` with all of its modes and parameters.

    Fused scores stand in copies: a retriever that keeps its nodes, or a cache, finds them as they
    were. Ties stand in order of first appearance.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> from llama_index.core.schema import TextNode
    >>> from gnomon.compat.llama_index import BM25Retriever, QueryFusionRetriever
    >>> nodes = [TextNode(id_=text, text=text) for text in ("red apple", "green pear")]
    >>> one = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=1, skip_stemming=True)
    >>> both = QueryFusionRetriever(
    ...     [one, one], llm=MockLLM(), mode="reciprocal_rerank", num_queries=1, use_async=False
    ... )
    >>> [(found.node_id, round(found.score, 4)) for found in both.retrieve("pear")]
    [('green pear', 0.0333)]
    """

    def _reciprocal_rerank_fusion(self, results: Results) -> list[NodeWithScore]:
        lists = [
            sorted(nodes, key=lambda each: each.score or 0.0, reverse=True)
            for nodes in results.values()
        ]
        keyed = [[(each.node.hash, each) for each in nodes] for nodes in lists]
        last = {key: each for nodes in keyed for key, each in nodes}
        scores = rrf_scores([[key for key, _ in nodes] for nodes in keyed], preset="llama-index")
        order = sorted(scores, key=scores.__getitem__, reverse=True)
        return [NodeWithScore(node=last[key].node, score=scores[key]) for key in order]

    def _relative_score_fusion(
        self, results: Results, dist_based: bool | None = False
    ) -> list[NodeWithScore]:
        found: list[NodeWithScore] = super()._relative_score_fusion(_copied(results), dist_based)
        return found

    def _simple_fusion(self, results: Results) -> list[NodeWithScore]:
        found: list[NodeWithScore] = super()._simple_fusion(_copied(results))
        return found


def _copied(results: Results) -> Any:
    return {
        key: [NodeWithScore(node=each.node, score=each.score) for each in nodes]
        for key, nodes in results.items()
    }
