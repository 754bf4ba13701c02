"""Array conversion at the border: anything array-like in, C-contiguous float32 or float64 out.

numpy.require, not ascontiguousarray: that one makes a scalar a vector, and keeps unaligned memory.
torch is never imported here: a tensor can only arrive from a program that has imported it.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_float64(value: Any, name: str) -> npt.NDArray[np.float64]:
    """A C-contiguous float64 array of the value, of any shape; exact for every float dtype.

    Raises TypeError naming the argument for what is not real numbers.
    """
    if is_tensor(value):
        tensor = value.detach()
        if tensor.is_complex():
            raise TypeError(f"{name} must hold real numbers, got a tensor of {tensor.dtype}")
        value = _to_numpy(tensor, "float64")
    array = _as_array(value, name)
    if array.size == 0 and array.dtype == object:
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got an array of {array.dtype}")
    return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED"])


def as_float32(value: Any, name: str) -> npt.NDArray[np.float32]:
    """A C-contiguous float32 array of the value, of any shape: what dense scores are defined on.

    float16 and bfloat16 (torch's, or numpy arrays of an extension type of that name) widen exactly;
    float64 and integers (through float64) round to nearest.
    Values beyond float32 become infinite and are refused later with the row's number.
    Raises TypeError naming the argument for what is not real numbers.
    """
    if type(value) is np.ndarray and value.dtype == np.float32 and value.flags.carray:
        return value  # what most calls bring, at once
    if type(value) is list or type(value) is tuple:
        rows = _core.float_rows(value)
        if rows is not None:
            return rows
    if is_tensor(value) and value.is_floating_point():
        values: npt.NDArray[np.float32] = _to_numpy(value.detach(), "float32")
        if values.flags.carray:
            return values
        value = values
    array = as_float64(value, name) if is_tensor(value) else _as_array(value, name)
    if array.dtype.kind not in "fiub" and array.dtype.name == "bfloat16":
        # The upper half of a float32; the type is not numpy's own, its bytes are.
        halves = np.ascontiguousarray(array).view(np.uint16)
        words: npt.NDArray[np.uint32] = halves.astype(np.uint32) << np.uint32(16)
        return words.view(np.float32).reshape(array.shape)
    if array.dtype.kind != "f":
        array = as_float64(array, name)
    with np.errstate(over="ignore", under="ignore"):  # also for a caller who made them errors
        return np.require(array, np.float32, ["C_CONTIGUOUS", "ALIGNED"])


def _to_numpy(tensor: Any, dtype: str) -> npt.NDArray[Any]:
    # resolve_neg: the imaginary part of a conjugate is a tensor that numpy cannot read as it lies.
    wanted = tensor.to(device="cpu", dtype=getattr(sys.modules["torch"], dtype))
    array: npt.NDArray[Any] = wanted.resolve_neg().numpy()
    return array


def _as_array(value: Any, name: str) -> npt.NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} has masked values, which have no score; fill or remove them first: .filled(0)"
        )
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def as_count(value: Any, name: str, least: int | None = 0) -> int:
    """A whole number >= least, if there is one. Raises TypeError or ValueError naming `name`."""
    if type(value) is int and least is not None and value >= least:
        return value  # what most calls bring, at once
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got a {type(value).__name__}") from None
    if least is not None and count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}")
    return count


def as_number(value: Any, name: str) -> float:
    """A float64 of a number. Raises TypeError or ValueError naming `name`."""
    try:
        if isinstance(value, (str, bytes, bytearray, bool, np.bool_)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number that fits float64") from None
    except TypeError:
        raise TypeError(f"{name} must be a number, got a {type(value).__name__}") from None


def as_threads(threads: Any) -> int:
    """The core's thread argument: 0 stands for the default."""
    # Beyond 64 bits is beyond the core's limit as well, which words the error.
    return 0 if threads is None else min(as_count(threads, "threads", 1), 2**63)
