"""Puts gnomon's searches into sentence-transformers before its tests import them."""

from __future__ import annotations

from gnomon.compat import _st_training as training
from gnomon.compat import sentence_transformers as ours
from sentence_transformers import util
from sentence_transformers.sentence_transformer import evaluation
from sentence_transformers.util import retrieval

for name in ("semantic_search", "paraphrase_mining_embeddings", "community_detection"):
    setattr(util, name, getattr(ours, name))
    setattr(retrieval, name, getattr(ours, name))
util.mine_hard_negatives = training.mine_hard_negatives
evaluation.InformationRetrievalEvaluator = training.InformationRetrievalEvaluator
