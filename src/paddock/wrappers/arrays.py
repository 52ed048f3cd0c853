"""Environments of one array library for agents of another: NumPy, Torch, JAX, any library that speaks DLPack.

Memory is shared where neither side can then break what the other promises. NumPy and Torch share both ways. What comes
out of JAX is shared: read-only in NumPy; Torch has no read-only tensors, so never write to such a tensor in place. What
goes into JAX is copied: JAX computes later, when the sender may have overwritten that memory. No library is imported
before it is used.
"""

from __future__ import annotations

import importlib
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, singledispatch
from types import ModuleType, NoneType
from typing import Any, SupportsFloat, TypeAlias

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.wrapper import Wrapper
from paddock.errors import DependencyNotInstalled, NoArrayForm

Device: TypeAlias = Any  # text such as "cuda:0", or the library's own object
Receiver: TypeAlias = Callable[[Any, Device], Any]

_METADATA_KEYS = {"torch": "torch", "jax.numpy": "jax"}  # how metadata say that an environment uses a library
_PIP = {"torch": "torch", "jax": "jax", "cupy": "cupy", "dask": '"dask[array]"'}


@singledispatch
def array_conversion(value: Any, xp: ModuleType | str, device: Device | None = None) -> Any:
    """The value with each array and number in it as an array of ``xp``, on ``device`` if one is given.

    Tuples, named tuples, lists and mappings keep their types; None and text stay; anything else is a NoArrayForm.
    ``array_conversion.register(YourClass)`` adds a rule for a class of your own.

    >>> array_conversion({"at": (1, 2.5), "name": "maze"}, np)
    {'at': (array(1), array(2.5)), 'name': 'maze'}
    """
    if is_array(value):
        return _array(value, xp, device)
    raise NoArrayForm(
        f"No known conversion for ({type(value)}) to xp module ({xp}) registered: {value!r:.80}. Expected arrays, "
        f"numbers, text, tuples, lists or mappings of these; array_conversion.register(...) adds a class of your own."
    )


@array_conversion.register(numbers.Number)
@array_conversion.register(np.ndarray)
@array_conversion.register(np.generic)
def _array(value: Any, xp: ModuleType | str, device: Device | None = None) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:  # final_obs: an array for each lane that ended
        converted = np.empty(value.shape, object)
        for at in np.ndindex(value.shape):
            converted[at] = array_conversion(value[at], xp, device)
        return converted
    try:
        return receiver(library_name(xp))(value, device)
    except (TypeError, BufferError) as error:
        raise NoArrayForm(f"{value!r:.80} has no form as an array of {library_name(xp)}: {error}") from error


@array_conversion.register(Mapping)
def _mapping(value: Mapping[Any, Any], xp: ModuleType | str, device: Device | None = None) -> Any:
    return _like(value, {key: array_conversion(part, xp, device) for key, part in value.items()})


@array_conversion.register(Iterable)
def _iterable(value: Iterable[Any], xp: ModuleType | str, device: Device | None = None) -> Any:
    if is_array(value):  # those of other libraries are iterable too
        return _array(value, xp, device)
    return _like(value, [array_conversion(part, xp, device) for part in value])


@array_conversion.register(str)
@array_conversion.register(bytes)
@array_conversion.register(NoneType)
def _as_it_is(value: Any, xp: ModuleType | str, device: Device | None = None) -> Any:
    return value


def _like(value: Any, parts: Any) -> Any:
    """The parts in a container of the type of ``value``."""
    if type(value) is dict:
        return parts
    return type(value)._make(parts) if hasattr(value, "_make") else type(value)(parts)


def _info_conversion(value: Any, xp: str, device: Device | None) -> Any:
    """Like array_conversion, but what can't be an array stays as it is: an info may hold anything."""
    if type(value) is dict:
        return {key: _info_conversion(part, xp, device) for key, part in value.items()}
    try:
        return array_conversion(value, xp, device)
    except NoArrayForm:
        if type(value) in (list, tuple):
            return type(value)(_info_conversion(part, xp, device) for part in value)
        return value


def _options_conversion(value: Any, xp: str, device: Device | None) -> Any:
    """Convert the arrays in the options of a reset; plain numbers stay, an environment may look them up in a table."""
    if type(value) is dict:
        return {key: _options_conversion(part, xp, device) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_options_conversion(part, xp, device) for part in value)
    return _convert(value, xp, device) if is_array(value) else value


def _convert(value: Any, xp: str, device: Device | None) -> Any:
    """Like array_conversion, with a short way for arrays. Hot."""
    if hasattr(value, "__dlpack__") and not (isinstance(value, np.ndarray) and value.dtype.hasobject):
        return receiver(xp)(value, device)
    return array_conversion(value, xp, device)


class ConvertsArrays:
    """What ArrayConversion of one environment and that of lanes share. Libraries are text, so that it can be copied."""

    env: Any
    metadata: dict[str, Any]

    def _set_libraries(
        self, env_xp: ModuleType | str, target_xp: ModuleType | str, env_device: Device, target_device: Device
    ) -> None:
        self._of_env = library_name(env_xp), env_device
        self._of_agent = name, _ = library_name(target_xp), target_device
        for library, device in (self._of_env, self._of_agent):
            module_namespace(load_library(library))
            receiver(library)(np.zeros(0, np.float32), device)  # a missing device fails now, not at a step
        others = {key: value for key, value in self.env.metadata.items() if key not in _METADATA_KEYS.values()}
        self.metadata = {**others, **({_METADATA_KEYS[name]: True} if name in _METADATA_KEYS else {})}

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if options:
            options = _options_conversion(options, *self._of_env)
        observation, info = self.env.reset(seed=seed, options=options)
        return self._to_agent(observation), self._info_to_agent(info)

    def _to_env(self, value: Any) -> Any:
        return _convert(value, *self._of_env)

    def _to_agent(self, value: Any) -> Any:
        return _convert(value, *self._of_agent)

    def _info_to_agent(self, info: Info) -> Info:
        return _info_conversion(info, *self._of_agent) if info else info

    @property
    def _env_xp(self) -> ModuleType:
        return module_namespace(load_library(self._of_env[0]))

    @property
    def _target_xp(self) -> ModuleType:
        return module_namespace(load_library(self._of_agent[0]))


def _device_text(device: Device) -> str | None:
    platform, number = getattr(device, "platform", None), getattr(device, "id", None)
    if device is None or platform is None:
        return None if device is None else str(device)
    return f"{platform}:{number}"  # a device of JAX, whose text is not its name


class ArrayConversion(ConvertsArrays, Wrapper[Any, Any, Any, Any]):
    """``env``, whose arrays are of ``env_xp``, for an agent whose arrays are of ``target_xp``.

    Libraries are modules or their names: ``numpy``, ``"torch"``, ``"jax.numpy"``. Rewards and flags are plain numbers.
    Spaces stay as they are: they are NumPy's.
    """

    def __init__(
        self,
        env: Env[Any, Any],
        env_xp: ModuleType | str,
        target_xp: ModuleType | str,
        env_device: Device | None = None,
        target_device: Device | None = None,
    ) -> None:
        super().__init__(env)
        self._set_libraries(env_xp, target_xp, env_device, target_device)
        self._record_arguments(
            env_xp=self._of_env[0],
            target_xp=self._of_agent[0],
            env_device=_device_text(env_device),
            target_device=_device_text(target_device),
        )

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(self._to_env(action))
        return self._to_agent(observation), float(reward), bool(terminated), bool(truncated), self._info_to_agent(info)

    def render(self) -> Any:
        return self._to_agent(self.env.render())


class JaxToNumpy(ArrayConversion):
    """An environment of JAX arrays for an agent of NumPy's. Observations share JAX's memory and are read-only."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self._record_arguments()
        super().__init__(env, "jax.numpy", "numpy")


class JaxToTorch(ArrayConversion):
    """An environment of JAX arrays for an agent of tensors. They share JAX's memory: ``clone()`` before writing."""

    def __init__(self, env: Env[Any, Any], device: Device | None = None) -> None:
        self._record_arguments(device=_device_text(device))
        super().__init__(env, "jax.numpy", "torch", target_device=device)
        self.device = device


class NumpyToTorch(ArrayConversion):
    """An environment of NumPy arrays for an agent of tensors. On the CPU they share their memory."""

    def __init__(self, env: Env[Any, Any], device: Device | None = None) -> None:
        self._record_arguments(device=_device_text(device))
        super().__init__(env, "numpy", "torch", target_device=device)
        self.device = device


class TorchToNumpy(ArrayConversion):
    """An environment of tensors, which live on ``device``, for an agent of NumPy arrays."""

    def __init__(self, env: Env[Any, Any], device: Device | None = None) -> None:
        self._record_arguments(device=_device_text(device))
        super().__init__(env, "torch", "numpy", env_device=device)
        self.device = device


def jax_to_numpy(value: Any, device: Device | None = None) -> Any:
    """``array_conversion`` to NumPy."""
    return array_conversion(value, "numpy", device)


def numpy_to_jax(value: Any, device: Device | None = None) -> Any:
    """``array_conversion`` to JAX."""
    return array_conversion(value, "jax.numpy", device)


def numpy_to_torch(value: Any, device: Device | None = None) -> Any:
    """``array_conversion`` to Torch."""
    return array_conversion(value, "torch", device)


# Gymnasium's names for the same three: where a value comes from makes no difference.
torch_to_numpy, torch_to_jax, jax_to_torch = jax_to_numpy, numpy_to_jax, numpy_to_torch


def load_library(name: str) -> ModuleType:
    """The module of an array library by name: ``"numpy"``, ``"torch"``, ``"jax.numpy"``, …."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise DependencyNotInstalled(
            f"The array library {name!r} is not installed: pip install {_PIP.get(package, package)}"
        ) from error


def library_name(xp: ModuleType | str) -> str:
    """The name by which :func:`load_library` finds the library again, without a compatibility layer."""
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
    try:  # Torch has none; array_api_compat, where installed, is the namespace that other libraries expect of it
        return importlib.import_module(f"array_api_compat.{xp.__name__}")
    except ModuleNotFoundError:
        return xp


def is_array(value: Any) -> bool:
    """Whether the value is an array of any library."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__dlpack__")


@lru_cache(maxsize=64)
def receiver(name: str) -> Receiver:
    """The function that takes an array or a number, and a device or None, into the library called ``name``."""
    load_library(name)
    return _RECEIVERS.get(name) or _standard_receiver(name)


def to_numpy(array: Any, device: Device = None) -> np.ndarray[Any, Any]:
    """Convert to a NumPy array; read-only where another library relies on the memory."""
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
        try:
            tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        except ValueError:  # in reverse, or with its bytes in the other order
            tensor = torch.from_numpy(_to_native(array).copy())
    elif isinstance(array, torch.Tensor):
        tensor = array
    elif not hasattr(array, "__dlpack__") or isinstance(array, np.generic):
        tensor = torch.asarray(array)
    elif _on_cpu(array) and hasattr(array, "__array__"):
        try:
            tensor = torch.from_dlpack(np.asarray(array))  # the same memory, in half the time that JAX takes
        except (BufferError, TypeError):  # bfloat16, or a NumPy that lends nothing read-only
            tensor = torch.from_dlpack(array)
    else:
        tensor = torch.from_dlpack(array)
    return tensor if device is None else tensor.to(device)


def _to_native(array: Any) -> Any:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _to_jax(array: Any, device: Device) -> Any:
    jax: Any = sys.modules["jax"]
    place = device
    if isinstance(device, str):
        platform, _, number = device.partition(":")
        place = jax.devices(platform)[int(number or 0)]
    if isinstance(array, jax.Array):
        return array if place is None else jax.device_put(array, place)
    if hasattr(array, "__dlpack__") and not isinstance(array, (np.ndarray, np.generic)) and not _on_cpu(array):
        array = jax.numpy.from_dlpack(array.detach() if hasattr(array, "detach") else array)
    elif not isinstance(array, (bool, int, float, complex)):  # JAX chooses the type of a plain number
        array = _to_native(to_numpy(array))
    return jax.numpy.array(array) if place is None else jax.numpy.array(array, device=place)


def _on_cpu(array: Any) -> bool:
    return "cpu" in str(getattr(array, "device", "cpu")).lower()


def _standard_receiver(name: str) -> Receiver:
    """The receiver of a library of which we know nothing but the array API standard."""

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


_RECEIVERS: dict[str, Receiver] = {"numpy": to_numpy, "torch": _to_torch, "jax.numpy": _to_jax}
