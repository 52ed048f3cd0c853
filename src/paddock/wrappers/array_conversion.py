"""Environments of one array library for agents of another. What can't be an array stays what it is, in infos only.

What is shared and what is copied on the way: ``array_libraries``.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from types import ModuleType, NoneType
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.wrapper import Wrapper
from paddock.errors import NoArrayForm
from paddock.wrappers.array_libraries import Device, is_array, library_name, load_library, module_namespace, receiver

_SPEAKS = {"torch": "torch", "jax.numpy": "jax"}  # library: the key by which metadata say that an environment speaks it


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
        return _each(value, xp, device)
    try:
        return receiver(library_name(xp))(value, device)
    except (TypeError, BufferError) as error:
        raise NoArrayForm(f"{value!r:.80} has no form as an array of {library_name(xp)}: {error}") from error


def _each(value: np.ndarray[Any, Any], xp: ModuleType | str, device: Device | None) -> np.ndarray[Any, Any]:
    converted = np.empty(value.shape, object)
    for at in np.ndindex(value.shape):
        converted[at] = array_conversion(value[at], xp, device)
    return converted


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
    """As array_conversion, but what has no form as an array stays: an info may hold anything."""
    if type(value) is dict:
        return {key: _info_conversion(part, xp, device) for key, part in value.items()}
    try:
        return array_conversion(value, xp, device)
    except NoArrayForm:
        if type(value) in (list, tuple):
            return type(value)(_info_conversion(part, xp, device) for part in value)
        return value


def _options_conversion(value: Any, xp: str, device: Device | None) -> Any:
    """The arrays in the options of a reset; plain numbers stay, for an environment may look them up in a table."""
    if type(value) is dict:
        return {key: _options_conversion(part, xp, device) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_options_conversion(part, xp, device) for part in value)
    return _converted(value, xp, device) if is_array(value) else value


def _converted(value: Any, xp: str, device: Device | None) -> Any:
    """Hot: array_conversion, but an array goes the short way."""
    if hasattr(value, "__dlpack__") and not (isinstance(value, np.ndarray) and value.dtype.hasobject):
        return receiver(xp)(value, device)
    return array_conversion(value, xp, device)


@dataclass(frozen=True)
class Conversion:
    """Between the arrays of an environment and those of its agent. The libraries are named: this is data."""

    env_xp: str
    target_xp: str
    env_device: Device | None = None
    target_device: Device | None = None

    def __post_init__(self) -> None:
        for name, device in ((self.env_xp, self.env_device), (self.target_xp, self.target_device)):
            module_namespace(load_library(name))
            receiver(name)(np.zeros(0, np.float32), device)  # a device that is not there is told now, not at a step

    @staticmethod
    def between(
        env_xp: ModuleType | str, target_xp: ModuleType | str, env_device: Device | None, target_device: Device | None
    ) -> Conversion:
        """Of the libraries as modules or by name."""
        return Conversion(library_name(env_xp), library_name(target_xp), env_device, target_device)

    def inward(self, value: Any) -> Any:
        """An agent's action or options, as the environment takes them."""
        return _converted(value, self.env_xp, self.env_device)

    def outward(self, value: Any) -> Any:
        """What the environment returned, as the agent takes it."""
        return _converted(value, self.target_xp, self.target_device)

    def told(self, info: Info) -> Info:
        """An info, as the agent takes it."""
        return _info_conversion(info, self.target_xp, self.target_device) if info else info

    def options(self, options: Info | None) -> Info | None:
        """The options of a reset, as the environment takes them."""
        return _options_conversion(options, self.env_xp, self.env_device) if options else options

    def metadata(self, metadata: Info) -> Info:
        """The metadata of the converted environment: which arrays it speaks is said there."""
        spoken = {key: value for key, value in metadata.items() if key not in _SPEAKS.values()}
        return {**spoken, **({_SPEAKS[self.target_xp]: True} if self.target_xp in _SPEAKS else {})}

    def arguments(self) -> Info:
        """For a spec: libraries and devices as text."""
        devices = {"env_device": self.env_device, "target_device": self.target_device}
        named = {name: None if device is None else _device_text(device) for name, device in devices.items()}
        return {"env_xp": self.env_xp, "target_xp": self.target_xp, **named}


def _device_text(device: Device) -> str:
    platform, number = getattr(device, "platform", None), getattr(device, "id", None)
    return str(device) if platform is None else f"{platform}:{number}"  # a device of JAX, whose text is no name


class ArrayConversion(Wrapper[Any, Any, Any, Any]):
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
        self._conversion = Conversion.between(env_xp, target_xp, env_device, target_device)
        self._record_arguments(**self._conversion.arguments())
        self.metadata = self._conversion.metadata(env.metadata)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        conversion = self._conversion
        observation, reward, terminated, truncated, info = self.env.step(conversion.inward(action))
        return conversion.outward(observation), float(reward), bool(terminated), bool(truncated), conversion.told(info)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observation, info = self.env.reset(seed=seed, options=self._conversion.options(options))
        return self._conversion.outward(observation), self._conversion.told(info)

    def render(self) -> Any:
        return self._conversion.outward(self.env.render())

    @property
    def _env_xp(self) -> ModuleType:
        return module_namespace(load_library(self._conversion.env_xp))

    @property
    def _target_xp(self) -> ModuleType:
        return module_namespace(load_library(self._conversion.target_xp))


class JaxToNumpy(ArrayConversion):
    """An environment of JAX arrays for an agent of NumPy's. Observations share JAX's memory and are read-only."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self._record_arguments()
        super().__init__(env, "jax.numpy", "numpy")


class JaxToTorch(ArrayConversion):
    """An environment of JAX arrays for an agent of tensors. They share JAX's memory: ``clone()`` before writing."""

    def __init__(self, env: Env[Any, Any], device: Device | None = None) -> None:
        self._record_arguments(device=None if device is None else _device_text(device))
        super().__init__(env, "jax.numpy", "torch", target_device=device)
        self.device = device


class NumpyToTorch(ArrayConversion):
    """An environment of NumPy arrays for an agent of tensors. On the CPU they share their memory."""

    def __init__(self, env: Env[Any, Any], device: Device | None = None) -> None:
        self._record_arguments(device=None if device is None else _device_text(device))
        super().__init__(env, "numpy", "torch", target_device=device)
        self.device = device


class TorchToNumpy(ArrayConversion):
    """An environment of tensors, which live on ``device``, for an agent of NumPy arrays."""

    def __init__(self, env: Env[Any, Any], device: Device | None = None) -> None:
        self._record_arguments(device=None if device is None else _device_text(device))
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


# One function each under all the names that Gymnasium has for it: where a value comes from makes no difference.
torch_to_numpy, torch_to_jax, jax_to_torch = jax_to_numpy, numpy_to_jax, numpy_to_torch
