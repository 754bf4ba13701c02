"""Where a search runs: ``device="cpu"`` or a GPU that the caller names; never chosen in silence."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._core import DeviceError
from .arrays import as_count, as_float32, as_threads, is_tensor

_CUDA_TYPE = 2  # of DLPack


class Device(NamedTuple):
    """A place where a search can run, or why it cannot."""

    name: str
    """What ``device=`` takes: ``"cpu"``, ``"cuda:0"``; ``"cuda"`` where there is no GPU."""
    usable: bool
    detail: str
    """Its model and memory, or the reason."""


def devices() -> list[Device]:
    """Every device that ``device=`` may name, and why one is not usable.

    Examples
    --------
    >>> import gnomon
    >>> gnomon.devices()[0]
    Device(name='cpu', usable=True, detail='every search')
    """
    found = [Device("cpu", True, "every search")]
    module = _cuda()
    if module is None:
        return [*found, Device("cuda", False, _NOT_BUILT)]
    seen = module.devices()
    if not seen["devices"]:
        return [*found, Device("cuda", False, seen["why"])]
    for one in seen["devices"]:
        detail = f"{one['name']}, {one['bytes'] >> 30} GiB" if one["usable"] else one["why"]
        found.append(Device(f"cuda:{one['number']}", one["usable"], detail))
    return found


_NOT_BUILT = (
    "this gnomon was built without CUDA; build it where nvcc is installed, with "
    "GNOMON_CUDA=ON to see what is missing"
)


def _cuda() -> Any:
    """The extension, imported on first use; None where it was not built."""
    try:
        return importlib.import_module("gnomon._cuda")
    except ModuleNotFoundError:
        return None


class Place(NamedTuple):
    """An extension and the number of one of its devices."""

    module: Any
    number: int


def place_of(device: Any) -> Place | None:
    """What serves a device's name; None for the CPU.

    Raises ValueError for a name that means nothing, DeviceError for a device that cannot be used.
    """
    if device is None or device == "cpu":
        return None
    named = re.fullmatch(r"(cuda|emulated)(?::(\d+))?", str(device))  # a torch.device reads so too
    if named is None:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}")
    if named[1] == "emulated":
        module = sys.modules.get("gnomon._cuda_emulated")
        if module is None:
            raise DeviceError("device 'emulated' exists in gnomon's own tests only")
    else:
        module = _cuda()
        if module is None:
            raise DeviceError(f"device {device!r} cannot be used: {_NOT_BUILT}")
    number = int(named[2] or 0)
    seen = module.devices()
    if not seen["devices"]:
        raise DeviceError(f"device {device!r} cannot be used: {seen['why']}")
    if number >= len(seen["devices"]):
        raise DeviceError(
            f"device {device!r} does not exist: this machine has {len(seen['devices'])}"
        )
    if not seen["devices"][number]["usable"]:
        raise DeviceError(f"device {device!r} cannot be used: {seen['devices'][number]['why']}")
    return Place(module, number)


def is_on_device(value: Any, place: Place) -> bool:
    """Whether the value lies in the device's memory and can be read there, by DLPack."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return False
    return bool(int(value.__dlpack_device__()[0]) == place.module.device_type)


def as_matrix(value: Any, name: str, place: Place) -> Any:
    """The value as float32: where it lies if that is on the device, else a numpy array."""
    if not is_on_device(value, place):
        return as_float32(value, name)
    if is_tensor(value):
        value = value.detach().contiguous()
    number = int(value.__dlpack_device__()[1])
    if number != place.number:
        raise ValueError(
            f"{name} is on device {number} and the search runs on device {place.number}; "
            "move it there"
        )
    # 1 is the default stream: what was put into it is done before the capsule is read.
    stream = {"stream": 1} if place.module.device_type == _CUDA_TYPE else {}
    try:
        capsule = value.__dlpack__(**stream, max_version=(1, 0))  # which may be read-only
    except TypeError:  # a library of before 2024
        capsule = value.__dlpack__(**stream)
    return place.module.DeviceArray.from_dlpack(capsule, name)


def like(array: Any, value: Any) -> Any:
    """A device array as the library of `value` has them; itself where that is not known."""
    library = sys.modules.get(type(value).__module__.split(".")[0])
    read = getattr(library, "from_dlpack", None)
    if read is None:
        read = getattr(getattr(library, "dlpack", None), "from_dlpack", None)
    return array if read is None else read(array)


def workspace_of(max_workspace_bytes: Any, place: Place) -> int:
    """The bound in bytes; the module's default where none is given."""
    if max_workspace_bytes is None:
        return int(place.module.workspace_bytes)
    return min(as_count(max_workspace_bytes, "max_workspace_bytes", 1), 2**63)


_NOTHING = np.zeros((0, 1), np.float32)


def check_cpu_words(threads: Any, level: Any) -> None:
    """Refuses what the CPU would refuse; a device has no use for these two."""
    _core.dense_top_k(_NOTHING, _NOTHING, "cosine", 0, "zero", as_threads(threads), level or "")
