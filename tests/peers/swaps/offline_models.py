"""A pytest plugin: the small models that tests load from the hub are made here instead."""

from __future__ import annotations

import re
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

_init = SentenceTransformer.__init__


def _made() -> StaticEmbedding:
    """The mean of random rows, one for each byte of a text."""
    tokenizer = Tokenizer(models.BPE(vocab=_bytes(), merges=[], unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    torch.manual_seed(0)
    return StaticEmbedding(tokenizer, embedding_dim=64)


def _bytes() -> dict[str, int]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return {"[UNK]": 0} | {letter: place + 1 for place, letter in enumerate(alphabet)}


def init(self: Any, model_name_or_path: Any = None, *rest: Any, **options: Any) -> None:
    if isinstance(model_name_or_path, str) and re.match(
        r"sentence-transformers(-testing)?/", model_name_or_path
    ):
        options["modules"], model_name_or_path = [_made()], None
    _init(self, model_name_or_path, *rest, **options)


SentenceTransformer.__init__ = init
