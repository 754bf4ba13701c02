"""What callers may hand to ``device=`` by mistake or malice, on the emulated device."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import gnomon
import numpy as np
import pytest
from emulated import Emulator


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Giver:
    """Hands out a capsule whose every field a test may set."""

    def __init__(self, array: np.ndarray, version: tuple[int, int] | None = None, **fields: Any):
        self.shape = array.shape
        self.freed = 0
        self._array = array
        self._deleter = DELETER(lambda _: setattr(self, "freed", self.freed + 1))
        tensor = Tensor(array.ctypes.data, 1, 0, array.ndim, 2, array.itemsize * 8, 1)
        for name in ("shape", "strides"):
            values = fields.pop(name, array.shape if name == "shape" else None)
            if values is not None:
                setattr(tensor, name, (ctypes.c_int64 * max(1, len(values)))(*values))
        for name, value in fields.items():
            setattr(tensor, name, value)
        self._tensor = tensor
        pointer = ctypes.cast(self._deleter, ctypes.c_void_p)
        self._name = b"dltensor" if version is None else b"dltensor_versioned"
        self._managed: Any = (
            Managed(tensor, None, pointer)
            if version is None
            else Versioned(*version, None, pointer, 1, tensor)
        )

    def __getitem__(self, place: None) -> Giver:
        raise AssertionError("no test hands over a single query")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return new_capsule(ctypes.addressof(self._managed), self._name, None)


ROWS = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def test_a_capsule_made_by_hand_is_read_and_freed(device: Emulator) -> None:
    wanted = gnomon.cosine_topk(ROWS[:2], ROWS, 3)
    for version in (None, (1, 0), (1, 7)):
        for fields in ({}, {"strides": (4, 1)}, {"byte_offset": 0}):
            giver = Giver(ROWS, version, **fields)
            found = gnomon.cosine_topk(Giver(ROWS[:2]), giver, 3, device="emulated")
            assert found.values.to_host().tobytes() == wanted.values.tobytes()
            del found
            gc.collect()
            assert giver.freed == 1


def test_an_array_that_must_not_be_written_to(device: Emulator) -> None:
    rows = ROWS.copy()
    rows.flags.writeable = False
    capsule = rows.__dlpack__(max_version=(1, 0))
    corpus = device.module.DenseCorpus(
        device.module.DeviceArray.from_dlpack(capsule, "rows"), "cosine"
    )
    found, *_ = corpus.search(ROWS[:1], 1)
    assert found.tolist() == [[0]]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"device_type": 2}, "documents is on a device of DLPack's type 2"),
        ({"device_type": -1}, "documents is on a device of DLPack's type -1"),
        ({"device_id": 5}, "documents is on device 5 and the search runs on device 0"),
        ({"code": 0}, "documents must hold float16, bfloat16, float32 or float64"),
        ({"code": 5, "bits": 64}, "documents must hold float16"),
        ({"bits": 8}, "documents must hold float16"),
        ({"bits": 0}, "documents must hold float16"),
        ({"lanes": 4}, "documents must hold float16"),
        ({"lanes": 0}, "documents must hold float16"),
        ({"strides": (1, 6)}, "documents has gaps between its elements"),
        ({"strides": (8, 1)}, "documents has gaps"),
        ({"strides": (0, 1)}, "documents has gaps"),
        ({"strides": (-4, 1)}, "documents has gaps"),
        ({"shape": (-6, 4)}, "documents has a shape that no array has"),
        ({"shape": (2**40, 2**40)}, "documents has a shape that no array has"),
        ({"ndim": -3}, "documents has a shape that no array has"),
        ({"ndim": 1, "shape": (24,)}, r"documents must be a matrix"),
        ({"ndim": 0, "shape": ()}, r"documents must be a matrix"),
        ({"data": None}, "documents lies at an address"),
        ({"byte_offset": 2}, "documents lies at an address"),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_tensor_that_cannot_be_read(
    device: Emulator, fields: dict[str, Any], said: str, version: tuple[int, int] | None
) -> None:
    giver = Giver(ROWS, version, **fields)
    with pytest.raises(ValueError, match=said):
        gnomon.cosine_topk(ROWS[:2], giver, 3, device="emulated")
    gc.collect()
    assert giver.freed == 1  # it was taken over


def test_a_capsule_is_for_one_reader(device: Emulator) -> None:
    for options in ({}, {"max_version": (1, 0)}):
        capsule = ROWS.__dlpack__(**options)
        device.module.DeviceArray.from_dlpack(capsule, "rows")
        with pytest.raises(ValueError, match="rows: this DLPack capsule was used already"):
            device.module.DeviceArray.from_dlpack(capsule, "rows")
    taken = ROWS.__dlpack__()
    np.from_dlpack(type("Once", (), {"__dlpack__": lambda _, **__: taken,
                                     "__dlpack_device__": lambda _: (1, 0)})())  # fmt: skip
    with pytest.raises(ValueError, match="was used already"):
        device.module.DeviceArray.from_dlpack(taken, "rows")


def test_what_is_no_capsule(device: Emulator) -> None:
    for given in (None, 3, ROWS, new_capsule(ctypes.addressof(Managed()), b"other", None)):
        with pytest.raises(ValueError, match="rows: __dlpack__ gave no DLPack capsule but a"):
            device.module.DeviceArray.from_dlpack(given, "rows")
    with pytest.raises(ValueError, match=r"rows comes as DLPack 2\.0"):
        device.module.DeviceArray.from_dlpack(Giver(ROWS, (2, 0)).__dlpack__(), "rows")


class Elsewhere:
    """An array of another GPU of the same kind."""

    shape = ROWS.shape

    def __getitem__(self, place: object) -> Elsewhere:
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 1

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("it must not be asked for its memory")


class Unwilling(Elsewhere):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("not today")


def test_an_array_of_another_device(device: Emulator) -> None:
    index = gnomon.DenseIndex.build(ROWS)
    with pytest.raises(ValueError, match="documents is on device 1 and the search runs on"):
        gnomon.cosine_topk(ROWS[:1], Elsewhere(), 1, device="emulated")
    with pytest.raises(ValueError, match="vectors is on device 1"):
        gnomon.mmr_vectors(ROWS[0], Elsewhere(), 1, device="emulated")
    with pytest.raises(ValueError, match="queries is on device 1"):
        index.search(Elsewhere(), 1, device="emulated")
    with pytest.raises(BufferError, match="not today"):
        index.search(Unwilling(), 1, device="emulated")


# --- arguments ------------------------------------------------------------------------------------

SEARCHES: dict[str, Callable[..., Any]] = {
    "dense": lambda **how: gnomon.DenseIndex.build(ROWS).search(ROWS[0], **{"k": 2, **how}),
    "topk": lambda **how: gnomon.cosine_topk(ROWS[0], ROWS, **{"k": 2, **how}),
    "bm25": lambda **how: gnomon.BM25Index.build(["a b", "b"]).search("b", **{"k": 2, **how}),
    "bm25_many": lambda **how: gnomon.BM25Index.build(["a b"]).search_many(
        ["b"], **{"k": 2, **how}
    ),
    "mmr": lambda **how: gnomon.mmr_vectors(ROWS[0], ROWS, **{"limit": 2, **how}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_devices_that_mean_nothing(device: Emulator, name: str) -> None:
    for given in (
        "",
        "cuda:",
        "cuda:-1",
        "CUDA",
        "cuda:0\n",
        "emulated:x",
        b"cuda",
        0,
        True,
        [],
        1.5,
    ):
        with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:N', got"):
            SEARCHES[name](device=given)
    with pytest.raises(gnomon.DeviceError, match="does not exist: this machine has 1"):
        SEARCHES[name](device="emulated:99999999999999999999999")


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"max_workspace_bytes": 0}, ValueError, "max_workspace_bytes must be at least 1"),
        ({"max_workspace_bytes": -(2**70)}, ValueError, "max_workspace_bytes must be at least 1"),
        ({"max_workspace_bytes": 1.5}, TypeError, "max_workspace_bytes must be a whole number"),
        ({"max_workspace_bytes": 1}, gnomon.DeviceError, "max_workspace_bytes is 1, but"),
        ({"level": "fast"}, ValueError, "fast"),
        ({"threads": 0}, ValueError, "threads must be at least 1"),
        ({"threads": "two"}, TypeError, "threads must be a whole number"),
    ],
    ids=str,
)
def test_words_that_a_search_refuses(
    device: Emulator, name: str, given: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        SEARCHES[name](device="emulated", **given)


def test_huge_numbers_are_no_trap(device: Emulator) -> None:
    for name, search in SEARCHES.items():
        count = {"limit" if name == "mmr" else "k": 2**80}
        wide = {"max_workspace_bytes": 2**80}
        assert repr(search(device="emulated", **count, **wide)) == repr(search(**count))


def test_words_of_the_dense_index_are_checked(device: Emulator) -> None:
    index = gnomon.DenseIndex.build(ROWS)
    for given, said in (
        ({"screen": "magic"}, "magic"),
        ({"on_zero": "skip"}, "on_zero"),
        ({"k": -1}, "k must be at least 0"),
        ({"min_score": float("nan")}, "min_score"),
        ({"memory_budget": 0.5}, "memory_budget"),
        ({"filter": [True]}, "filter"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            index.search(ROWS[:2], **{"k": 2, "device": "emulated", **given})
    parts = index.search(ROWS, 2, device="emulated", memory_budget=1)
    assert parts.ids.tolist() == index.search(ROWS, 2).ids.tolist()


def test_matched_terms_of_a_search_on_a_device(device: Emulator) -> None:
    index = gnomon.BM25Index.build(["red fox", "red", "blue"])
    found = index.search("red fox", matched=True, device="emulated")
    assert (
        found.matched == index.search("red fox", matched=True).matched == [["red", "fox"], ["red"]]
    )
