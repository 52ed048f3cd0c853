"""Environments of Torch tensors on a device of your choice, and arrays from one library to another.

On the CPU a tensor and the environment's array are the same memory. With ``LaneOptions(copy=False)`` they are also the
same tensors in every step: clone what you keep.
"""

from __future__ import annotations

from operator import is_not
from typing import Any, overload

import numpy as np

from paddock.adapters.trainers import Target, check_torch_has
from paddock.core.env import Env
from paddock.core.vector_env import VectorEnv
from paddock.core.vector_wrapper import Result
from paddock.errors import WrongClass
from paddock.making import make as make_of_arrays
from paddock.wrappers import NumpyToTorch
from paddock.wrappers.arrays import Device
from paddock.wrappers.arrays import jax_to_numpy as to_numpy
from paddock.wrappers.arrays import numpy_to_jax as to_jax
from paddock.wrappers.arrays import numpy_to_torch as to_torch
from paddock.wrappers.vector import NumpyToTorch as LanesToTorch

__all__ = ["TensorLanes", "as_tensors", "make", "to_jax", "to_numpy", "to_torch"]


class TensorLanes(LanesToTorch):
    """Lanes of NumPy arrays for an agent of tensors on ``device``. Actions are tensors of any device, or arrays.

    Hot: buffers that lanes return in every step are made into tensors once.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], device: Device | None = None) -> None:
        import torch

        # Not "cpu:0" and the like: Torch takes that for another device than "cpu", and copies.
        self._here = device is None or torch.device(device).type == "cpu"
        super().__init__(env, None if self._here else device)
        self.device = device
        self._arrays: list[Any] = [None] * 4
        self._tensors: list[Any] = []

    def _on_the_way_out(self, result: Result) -> Result:
        *arrays, infos = result
        # Observations that are a dict may be the same dict, with other arrays in it.
        same = self._here and type(arrays[0]) is np.ndarray and not any(map(is_not, arrays, self._arrays))
        if not same:
            self._arrays, self._tensors = arrays, [self._to_agent(array) for array in arrays]
        observations, rewards, terminations, truncations = self._tensors
        return observations, rewards, terminations, truncations, self._info_to_agent(infos)


@overload
def make(target: Target, *, num_envs: None = None, **options: Any) -> NumpyToTorch: ...
@overload
def make(target: Target, *, num_envs: int, **options: Any) -> TensorLanes: ...
def make(
    target: Target,
    *,
    num_envs: int | None = None,
    device: Device | None = None,
    **options: Any,
) -> NumpyToTorch | TensorLanes:
    """``paddock.make``, but observations are tensors on ``device``, and so may actions be.

    ::

        envs = tensors.make("CartPole-v1", num_envs=64, device="cuda")
        observations, infos = envs.reset(seed=0)
        observations, rewards, terminations, truncations, infos = envs.step(policy(observations))
    """
    check_torch_has(device)
    return _as_tensors(make_of_arrays(target, num_envs=num_envs, **options), device)


@overload
def as_tensors(env: Env[Any, Any], device: Device | None = None) -> NumpyToTorch: ...
@overload
def as_tensors(env: VectorEnv[Any, Any, Any], device: Device | None = None) -> TensorLanes: ...
def as_tensors(
    env: Env[Any, Any] | VectorEnv[Any, Any, Any], device: Device | None = None
) -> NumpyToTorch | TensorLanes:
    """Return ``env``, one environment or lanes, with tensors on ``device``; None leaves them on the CPU."""
    check_torch_has(device)
    return _as_tensors(env, device)


def _as_tensors(env: Any, device: Device | None) -> NumpyToTorch | TensorLanes:
    if not isinstance(env, (Env, VectorEnv)):
        raise WrongClass(f"as_tensors() takes a paddock.Env or paddock.VectorEnv, got {type(env).__name__}.")
    return TensorLanes(env, device) if isinstance(env, VectorEnv) else NumpyToTorch(env, device)
