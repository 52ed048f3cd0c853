"""Array conversion for n lanes: observations, rewards, flags and infos, a whole batch at a time.

Put it outermost: the other wrappers of lanes compute with NumPy.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from paddock.core.vector_env import VectorEnv
from paddock.core.vector_wrapper import Result, VectorWrapper
from paddock.wrappers.arrays import ConvertsArrays, Device


class ArrayConversion(ConvertsArrays, VectorWrapper[Any, Any, Any, Any, Any]):
    """Lanes whose arrays are of ``env_xp``, for an agent whose arrays are of ``target_xp``.

    Libraries are modules or their names. ``reset_mask`` and the other options are the agent's arrays too.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        env_xp: ModuleType | str,
        target_xp: ModuleType | str,
        env_device: Device | None = None,
        target_device: Device | None = None,
    ) -> None:
        super().__init__(env)
        self._set_libraries(env_xp, target_xp, env_device, target_device)

    def _on_the_way_in(self, actions: Any) -> Any:
        return self._to_env(actions)

    def _on_the_way_out(self, result: Result) -> Result:
        observations, rewards, terminations, truncations = map(self._to_agent, result[:4])
        return observations, rewards, terminations, truncations, self._info_to_agent(result[4])


class JaxToNumpy(ArrayConversion):
    """Lanes of JAX arrays for an agent of NumPy's. Observations share JAX's memory and are read-only."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env, "jax.numpy", "numpy")


class JaxToTorch(ArrayConversion):
    """Lanes of JAX arrays for an agent of tensors. They share JAX's memory: ``clone()`` before writing."""

    def __init__(self, env: VectorEnv[Any, Any, Any], device: Device | None = None) -> None:
        super().__init__(env, "jax.numpy", "torch", target_device=device)
        self.device = device


class NumpyToTorch(ArrayConversion):
    """Lanes of NumPy arrays for an agent of tensors. On the CPU they share their memory."""

    def __init__(self, env: VectorEnv[Any, Any, Any], device: Device | None = None) -> None:
        super().__init__(env, "numpy", "torch", target_device=device)
        self.device = device


class TorchToNumpy(ArrayConversion):
    """Lanes of tensors, which live on ``device``, for an agent of NumPy arrays."""

    def __init__(self, env: VectorEnv[Any, Any, Any], device: Device | None = None) -> None:
        super().__init__(env, "torch", "numpy", env_device=device)
        self.device = device
