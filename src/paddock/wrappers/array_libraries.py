"""One array, from one library to another: NumPy, Torch, JAX, any that speaks DLPack. None is imported before its use.

Memory is shared where neither side can then break what the other promises. NumPy and Torch share both ways. What comes
out of JAX is shared: read-only in NumPy; Torch knows no read-only tensors, so never write to such a one in place.
What goes into JAX is copied: JAX computes later, when the sender may have written something else to that memory.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from paddock.errors import DependencyNotInstalled, NoArrayForm

Device: TypeAlias = Any  # text such as "cuda:0", or the library's own object
Receiver: TypeAlias = Callable[[Any, Device], Any]

_PIP = {"torch": "torch", "jax": "jax", "cupy": "cupy", "dask": '"dask[array]"'}


def load_library(name: str) -> ModuleType:
    """The module of an array library by name: ``"numpy"``, ``"torch"``, ``"jax.numpy"``, …."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise DependencyNotInstalled(
            f"Arrays of {name!r} were asked for, which is not installed: pip install {_PIP.get(package, package)}"
        ) from error


def library_name(xp: ModuleType | str) -> str:
    """The name by which :func:`load_library` finds the library again; a compatibility layer is left out."""
    name = xp if isinstance(xp, str) else getattr(xp, "__name__", repr(xp))
    return name.removeprefix("array_api_compat.")


def module_namespace(xp: ModuleType) -> ModuleType:
    """The module in which an array library has its standard functions."""
    try:
        array = xp.empty(0)
        namespace = getattr(array, "__array_namespace__", None)
        if namespace is None and not hasattr(array, "__dlpack__"):
            raise AttributeError
    except (AttributeError, TypeError) as error:
        raise NoArrayForm(
            f"Module {xp} is not an Array API compatible module. Pass numpy, torch, jax.numpy or another."
        ) from error
    if namespace is not None:
        return namespace()  # type: ignore[no-any-return]
    try:  # Torch has none. What makes it standard, where that is installed, is what libraries over both expect
        return importlib.import_module(f"array_api_compat.{xp.__name__}")
    except ModuleNotFoundError:
        return xp


def is_array(value: Any) -> bool:
    """Whether the value is an array of any library."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__dlpack__")


@lru_cache(maxsize=64)
def receiver(name: str) -> Receiver:
    """The function that takes an array or a number, and a device or None, into the library of that name."""
    load_library(name)
    return _RECEIVERS.get(name) or _other(name)


def to_numpy(array: Any, device: Device = None) -> np.ndarray[Any, Any]:
    """As a NumPy array; one that another library may not change is read-only."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "detach"):  # Torch
        try:
            return array.numpy(force=True)  # type: ignore[no-any-return]
        except TypeError:  # bfloat16, which NumPy does not have; float32 holds each of its values
            return array.float().numpy(force=True)  # type: ignore[no-any-return]
    # Numbers, and JAX, which shares its memory this way; others may refuse it and offer DLPack alone.
    if isinstance(array, (bool, int, float, complex, np.generic)) or hasattr(array, "__array__"):
        return np.asarray(array)
    return np.from_dlpack(array)


def _to_torch(array: Any, device: Device) -> Any:
    torch: Any = sys.modules["torch"]  # `receiver` has imported it
    if isinstance(array, np.ndarray):
        tensor = _lent_to_torch(torch, array)
    elif isinstance(array, torch.Tensor):
        tensor = array
    elif hasattr(array, "__dlpack__") and not isinstance(array, np.generic):
        tensor = _shared_with_torch(torch, array)
    else:
        tensor = torch.asarray(array)
    return tensor if device is None else tensor.to(device)


def _lent_to_torch(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if array.flags.writeable:
        try:
            return torch.from_numpy(array)
        except ValueError:  # in reverse, or with its bytes in the other order
            array = _native(array)
    return torch.from_numpy(array.copy())


def _shared_with_torch(torch: Any, array: Any) -> Any:
    if _on_cpu(array) and hasattr(array, "__array__"):
        try:
            return torch.from_dlpack(np.asarray(array))  # the same memory, in half the time that JAX's own way takes
        except (BufferError, TypeError):  # bfloat16, or a NumPy that lends nothing read-only
            pass
    return torch.from_dlpack(array)


def _native(array: Any) -> Any:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _to_jax(array: Any, device: Device) -> Any:
    jax: Any = sys.modules["jax"]
    place = _jax_device(jax, device) if isinstance(device, str) else device
    if isinstance(array, jax.Array):
        return array if place is None else jax.device_put(array, place)
    if hasattr(array, "__dlpack__") and not isinstance(array, (np.ndarray, np.generic)) and not _on_cpu(array):
        array = jax.numpy.from_dlpack(array.detach() if hasattr(array, "detach") else array)
    elif not isinstance(array, (bool, int, float, complex)):  # JAX chooses the type of a plain number
        array = _native(to_numpy(array))
    return jax.numpy.array(array) if place is None else jax.numpy.array(array, device=place)


def _on_cpu(array: Any) -> bool:
    return "cpu" in str(getattr(array, "device", "cpu")).lower()


def _jax_device(jax: Any, text: str) -> Any:
    platform, _, number = text.partition(":")
    return jax.devices(platform)[int(number or 0)]


def _other(name: str) -> Receiver:
    """A library of which nothing is known but the standard."""

    def receive(array: Any, device: Device) -> Any:
        xp = load_library(name)
        if isinstance(array, np.generic) or not hasattr(array, "__dlpack__"):
            return xp.asarray(array if isinstance(array, (bool, int, float, complex)) else array.item(), device=device)
        try:
            received = xp.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError):  # read-only, or on a device that this library does not reach
            received = xp.asarray(to_numpy(array).copy())
        return received if device is None else received.to_device(device)

    return receive


_RECEIVERS: dict[str, Receiver] = {
    "numpy": to_numpy,
    "torch": _to_torch,
    "jax.numpy": _to_jax,
}
