"""InNumpy: an environment of JAX or Torch arrays, seen in NumPy, so that the same checks fit. Neither is imported here.

An environment says what it speaks by ``metadata["jax"]`` or ``metadata["torch"]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper

_ARRAY_MAKERS = {"jax": ("jax.numpy", "asarray"), "torch": ("torch", "as_tensor")}


def in_numpy(env: Env[Any, Any]) -> Env[Any, Any]:
    """The environment, its arrays as NumPy arrays if its metadata says that they are others."""
    for library in _ARRAY_MAKERS:
        if env.metadata.get(library, False):
            return InNumpy(env, library)
    return env


class InNumpy(Wrapper[Any, Any, Any, Any]):
    """Gives actions in the environment's arrays and takes results in NumPy's."""

    def __init__(self, env: Env[Any, Any], library: str) -> None:
        super().__init__(env)
        self._library = library
        setattr(self, "reset", self._converting(env.reset))  # noqa: B010  # on the instance: keeps the signature

    def _converting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return to_numpy(method(*args, **kwargs))

        return call

    def step(self, action: Any) -> Any:
        result = self.env.step(self._own(action))
        if not isinstance(result, tuple) or len(result) != 5:
            return result
        observation, reward, terminated, truncated, info = result
        return to_numpy(observation), _plain(reward), _plain(terminated), _plain(truncated), to_numpy(info)

    def render(self) -> Any:
        return to_numpy(self.env.render())

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The environment's own: converting is no part of it."""
        return self.env.spec

    def _own(self, action: Any) -> Any:
        module, maker = _ARRAY_MAKERS[self._library]
        # Not imported: an environment whose library nobody has loaded takes NumPy.
        if module not in sys.modules or not isinstance(action, np.ndarray | np.generic):
            return action
        return getattr(sys.modules[module], maker)(action)


def to_numpy(value: Any) -> Any:
    """The value with every foreign array in it as a NumPy array."""
    if isinstance(value, np.ndarray | np.generic):
        return value
    if type(value) is dict:
        return {key: to_numpy(part) for key, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(to_numpy, value))
    if hasattr(value, "detach"):  # Torch: out of the graph and off the device first
        value = value.detach().cpu()
    return np.asarray(value) if hasattr(value, "__array__") else value


def _plain(value: Any) -> Any:
    array = to_numpy(value)
    return array.item() if isinstance(array, np.ndarray) and array.shape == () else array
