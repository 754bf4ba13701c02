"""Puts gnomon's bm25s into the place of the modules that the tests import."""

from __future__ import annotations

import sys

import bm25s
from gnomon.compat import bm25s as ours

for name in ("BM25", "Results", "Tokenized", "tokenize"):
    setattr(bm25s, name, getattr(ours, name))
bm25s.tokenization.Tokenizer = ours.tokenization.Tokenizer
bm25s.tokenization.Tokenized = ours.Tokenized
bm25s.tokenization.tokenize = ours.tokenize
bm25s.selection.topk = ours.selection.topk
sys.modules["bm25s"].BM25 = ours.BM25
