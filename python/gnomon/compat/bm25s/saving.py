"""Saving and loading of :class:`gnomon.compat.bm25s.BM25`, in bm25s' folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import files, scoring

Index = TypeVar("Index", bound="Saved")

_NAMES = {
    "data_name": "data.csc.index.npy",
    "indices_name": "indices.csc.index.npy",
    "indptr_name": "indptr.csc.index.npy",
}


class Saved:
    """What :class:`~gnomon.compat.bm25s.BM25` is and holds stays in a folder."""

    methods_requiring_nonoccurrence = scoring.SHIFTED
    method: str
    idf_method: str
    dtype: str
    int_dtype: str
    backend: str
    corpus: Any
    scores: dict[str, Any]
    vocab_dict: dict[Any, int]
    unique_token_ids_set: set[int] | None
    nonoccurrence_array: Any

    def save(
        self,
        save_dir: str | os.PathLike[str],
        corpus: Any = None,
        data_name: str = _NAMES["data_name"],
        indices_name: str = _NAMES["indices_name"],
        indptr_name: str = _NAMES["indptr_name"],
        vocab_name: str = "vocab.index.json",
        params_name: str = "params.index.json",
        nnoc_name: str = "nonoccurrence_array.index.npy",
        corpus_name: str = "corpus.jsonl",
        allow_pickle: bool = False,
        show_progress: bool = True,
        leave_progress: bool = False,
        raise_on_serialization_error: bool = False,
    ) -> None:
        """Writes a folder that bm25s 0.3.16 and :meth:`load` read."""
        require_index(self.scores)
        folder = Path(save_dir)
        folder.mkdir(parents=True, exist_ok=True)
        files.write_array(folder / data_name, self.scores["data"])
        files.write_array(folder / indices_name, self.scores["indices"])
        files.write_array(folder / indptr_name, self.scores["indptr"])
        if self.nonoccurrence_array is not None:
            files.write_array(folder / nnoc_name, self.nonoccurrence_array)
        files.write_text(folder / vocab_name, json.dumps(self.vocab_dict, ensure_ascii=False))
        params = {name: getattr(self, name) for name in ("k1", "b", "delta", "method")}
        params |= {"idf_method": self.idf_method, "dtype": str(np.dtype(self.dtype))}
        params |= {"int_dtype": str(np.dtype(self.int_dtype))}
        params |= {"num_docs": self.scores["num_docs"], "version": files.VERSION}
        params |= {"backend": self.backend}
        files.write_text(folder / params_name, json.dumps(params, indent=4))
        corpus = self.corpus if corpus is None else corpus
        if corpus is not None:
            files.write_corpus(folder / corpus_name, corpus, raise_on_serialization_error)

    @classmethod
    def load(
        cls: type[Index],
        save_dir: str | os.PathLike[str],
        data_name: str = _NAMES["data_name"],
        indices_name: str = _NAMES["indices_name"],
        indptr_name: str = _NAMES["indptr_name"],
        vocab_name: str = "vocab.index.json",
        params_name: str = "params.index.json",
        nnoc_name: str = "nonoccurrence_array.index.npy",
        corpus_name: str = "corpus.jsonl",
        load_corpus: bool = False,
        mmap: bool = False,
        allow_pickle: bool = False,
        load_vocab: bool = True,
        override_params: Mapping[str, Any] | None = None,
        show_progress: bool = True,
        leave_progress: bool = False,
        verbosity: int = 1,
        **kwargs: Any,
    ) -> Index:
        """Opens a folder that bm25s or :meth:`save` wrote; ``mmap`` leaves the arrays on the disk.

        Other parameters than the folder's come as ``override_params`` or by name.
        Raises FileNotFoundError, or ValueError for arrays that do not fit each other.
        """
        if not isinstance(mmap, bool):
            raise ValueError("`mmap` must be a boolean")
        folder = Path(save_dir)
        params = json.loads((folder / params_name).read_text("utf-8"))
        params |= {**(override_params or {}), **kwargs}
        params.pop("version", None)
        n_docs = params.pop("num_docs", None)
        if type(n_docs) is not int or n_docs < 0:
            raise ValueError(f"{folder / params_name}: num_docs must be a number, got {n_docs!r}")
        make: Any = cls
        self: Index = make(**params)
        if load_vocab:
            self.vocab_dict = json.loads((folder / vocab_name).read_text("utf-8"))
        self.unique_token_ids_set = set(self.vocab_dict.values())
        names = {"data": data_name, "indices": indices_name, "indptr": indptr_name}
        arrays = {key: files.read_array(folder / name, mmap) for key, name in names.items()}
        self.scores = scoring.checked_matrix({**arrays, "num_docs": n_docs}, str(folder))
        if load_corpus and (folder / corpus_name).exists():
            self.corpus = files.read_corpus(folder / corpus_name, mmap)
        if self.method in self.methods_requiring_nonoccurrence:
            self.nonoccurrence_array = files.read_array(folder / nnoc_name, False)
        return self


def require_index(scores: dict[str, Any]) -> dict[str, Any]:
    """The arrays of an index; AttributeError where there is none yet."""
    if not scores:
        raise AttributeError("there is no index yet; call index() or load() first")
    return scores
