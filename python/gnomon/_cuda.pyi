"""Exact search on a GPU; its contracts are in cuda/*.hpp."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

workspace_bytes: int
device_type: int

def devices() -> dict[str, Any]: ...

@final
class DeviceArray:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> int: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def to_host(self) -> npt.NDArray[Any]: ...
    @staticmethod
    def from_dlpack(capsule: Any, name: str) -> DeviceArray: ...

@final
class DenseCorpus:
    def __init__(
        self,
        vectors: Any,
        metric: str,
        device: int = 0,
        format: str = "auto",
        on_zero: str = "zero",
        resident_bytes: int = 0,
        workspace_bytes: int = ...,
        name: str = "vectors",
    ) -> None: ...
    def search(
        self,
        queries: Any,
        k: int,
        min_score: float = ...,
        allowed: npt.NDArray[np.uint64] | None = None,
        on_zero: str = "zero",
        stay: bool = False,
        workspace_bytes: int = ...,
        family: str = "",
        planes: int = 0,
        capacity: int = 0,
        query_name: str = "queries",
    ) -> tuple[Any, Any, Any, dict[str, Any]]: ...
    @property
    def resident(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def format(self) -> str: ...

@final
class Bm25Corpus:
    def __init__(
        self,
        segments: list[dict[str, Any]],
        formula: dict[str, Any],
        device: int = 0,
        range_docs: int = 0,
        resident_bytes: int = 0,
    ) -> None: ...
    @property
    def resident(self) -> bool: ...
    def search(
        self,
        plan: dict[str, Any],
        k: int,
        allowed: Sequence[npt.NDArray[np.uint64] | None],
        workspace_bytes: int = ...,
        capacity: int = 0,
    ) -> tuple[
        npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64], dict[str, Any]
    ]: ...
    @property
    def bytes(self) -> int: ...

def mmr(
    vectors: Any,
    queries: Any,
    relevance: npt.NDArray[np.float64] | None,
    selected: Sequence[Sequence[int]],
    limit: int,
    diversity: float,
    penalty: str = "all",
    device: int = 0,
    workspace_bytes: int = ...,
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]: ...
