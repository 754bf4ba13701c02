"""The searches inside sentence-transformers' evaluation and hard-negative mining.

Only :mod:`gnomon.compat.sentence_transformers` imports this, and only when one of them is asked
for: both derive from sentence-transformers itself.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sentence_transformers.sentence_transformer import evaluation
from sentence_transformers.util import mine_hard_negatives as _mine_hard_negatives

from . import faiss as our_faiss
from . import sentence_transformers as searches

_importing = threading.RLock()

Hits = list[dict[str, Any]]


class InformationRetrievalEvaluator(evaluation.InformationRetrievalEvaluator):
    """sentence-transformers' evaluator with one exact search a score function.

    The whole corpus is encoded before the search (the original encodes ``corpus_chunk_size``
    documents at a time). The order is the original's: score falling, then corpus id rising as text.
    A score function other than cosine and dot product goes to the original, with a UserWarning.
    """

    def compute_all_metrics(
        self,
        model: Any,
        corpus_model: Any = None,
        corpus_embeddings: Any = None,
        output_path: str | None = None,
    ) -> dict[str, dict[str, Any]]:
        """The metrics of each score function; ``corpus_embeddings`` are used when given."""
        metrics = {name: _metric(function) for name, function in self.score_functions.items()}
        if None in metrics.values():
            names = ", ".join(name for name, metric in metrics.items() if metric is None)
            warnings.warn(
                f"score function {names}: gnomon knows cosine and dot product of dense vectors; "
                "sentence-transformers itself searches",
                UserWarning,
                stacklevel=2,
            )
            found: dict[str, dict[str, Any]] = super().compute_all_metrics(
                model, corpus_model, corpus_embeddings, output_path
            )
            return found
        queries = self.embed_inputs(
            model,
            self.queries,
            encode_fn_name="query",
            prompt_name=self.query_prompt_name,
            prompt=self.query_prompt,
        )
        if corpus_embeddings is None:
            corpus_embeddings = self.embed_inputs(
                model if corpus_model is None else corpus_model,
                self.corpus,
                encode_fn_name="document",
                prompt_name=self.corpus_prompt_name,
                prompt=self.corpus_prompt,
            )
        scores = {}
        for name, metric in metrics.items():
            hits = self._hits(queries, corpus_embeddings, str(metric))
            if self.write_predictions and output_path is not None:
                self._write(hits, name, Path(output_path))
            scores[name] = self.compute_metrics(hits)
        for name in self.score_function_names:
            self.output_scores(scores[name])
        return scores

    def _hits(self, queries: Any, corpus: Any, metric: str) -> list[Hits]:
        """The best documents of each query; rows in the order of their ids, so that ties are."""
        order = sorted(range(len(self.corpus_ids)), key=self.corpus_ids.__getitem__)
        rows = searches._rows(corpus, "corpus_embeddings")[order]
        wanted = [self.mrr_at_k, self.ndcg_at_k, self.accuracy_at_k, self.precision_recall_at_k]
        most = max(max(depths) for depths in (*wanted, self.map_at_k))
        found, scores = searches._top(rows, searches._rows(queries, "queries"), metric, most)
        return [
            [
                {"corpus_id": self.corpus_ids[order[row]], "score": score}
                for row, score in zip(rows_found, values, strict=True)
            ]
            for rows_found, values in zip(found.tolist(), scores.tolist(), strict=True)
        ]

    def _write(self, hits: list[Hits], name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / self.predictions_file.replace(".jsonl", f"_{name}.jsonl")
        with file.open("w", encoding="utf-8") as out:
            for query_id, query, results in zip(self.queries_ids, self.queries, hits, strict=True):
                line = {"query_id": query_id, "query": query, "results": results}
                out.write(json.dumps(line) + "\n")


def _metric(function: Any) -> str | None:
    """The engine's name for a score function, or for the ``similarity`` of a model."""
    model = getattr(function, "__self__", None)
    if model is not None and getattr(function, "__name__", "") == "similarity":
        kinds = {"cosine": "cosine", "dot": "ip"}
        return kinds.get(str(getattr(model, "similarity_fn_name", "")))
    return searches._metric(function)


def mine_hard_negatives(*args: Any, **options: Any) -> Any:
    """sentence-transformers' own, whose faiss (``use_faiss=True``) is gnomon."""
    if not options.get("use_faiss"):
        return _mine_hard_negatives(*args, **options)
    with _faiss_is_ours():
        return _mine_hard_negatives(*args, **options)


@contextmanager
def _faiss_is_ours() -> Iterator[None]:
    """``import faiss`` gives gnomon's; for all threads, so one at a time."""
    with _importing:
        before = sys.modules.get("faiss")
        sys.modules["faiss"] = our_faiss
        try:
            yield
        finally:
            if before is None:
                del sys.modules["faiss"]
            else:
                sys.modules["faiss"] = before
