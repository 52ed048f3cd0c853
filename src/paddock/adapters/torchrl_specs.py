"""Spaces as TorchRL's specs, and batches of their members as tensors and back. Imported only where TorchRL is.

A spec has the lanes' axis in front. Discrete values count from 0 there, and from the space's ``start`` here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, TensorSpec, Unbounded

from paddock.errors import NoArrayForm
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

Array = np.ndarray[Any, Any]
# Of these torch has the types, but can't compare them, as its specs do.
_WIDER: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.uint16): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.int64),
}


@dataclass(frozen=True)
class Leaf:
    """A space whose batch is one array."""

    spec: TensorSpec
    dtype: np.dtype[Any]
    start: Array | None
    shared: bool

    def tensor(self, array: Array) -> torch.Tensor:
        """The array's own memory where it may be; torch takes no read-only or reversed arrays."""
        if self.start is not None:
            array = array - self.start
        if array.dtype in _WIDER:
            array = array.astype(_WIDER[array.dtype])
        return torch.from_numpy(np.require(array, requirements=["C", "W"]) if self.shared else array.copy())

    def array(self, tensor: torch.Tensor) -> Array:
        """What the space's lanes take."""
        array: Array = tensor.detach().cpu().numpy()
        if self.start is not None:
            array = array + self.start
        return array.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Branch:
    """A Dict or Tuple of spaces; the parts of a Tuple have the names "0", "1", …"""

    spec: TensorSpec
    parts: dict[str, Leaf | Branch]
    named: bool

    def tensor(self, batch: Any) -> TensorDictBase:
        values = batch if self.named else {str(at): part for at, part in enumerate(batch)}
        found = {name: part.tensor(values[name]) for name, part in self.parts.items()}
        return TensorDict(found, batch_size=self.spec.shape)

    def array(self, values: TensorDictBase) -> Any:
        found = {name: part.array(values.get(name)) for name, part in self.parts.items()}
        return found if self.named else tuple(found.values())


def translated(space: Space[Any], num_envs: int, *, where: str, shared: bool) -> Leaf | Branch:
    """The form of ``num_envs`` members of ``space`` on TorchRL's side. ``where`` is for the error."""
    if isinstance(space, (Dict, Tuple)):
        named = isinstance(space, Dict)
        spaces = space.spaces.items() if isinstance(space, Dict) else ((str(i), s) for i, s in enumerate(space.spaces))
        parts = {
            str(name): translated(part, num_envs, where=f"{where}[{name!r}]", shared=shared) for name, part in spaces
        }
        return Branch(Composite({name: part.spec for name, part in parts.items()}, shape=(num_envs,)), parts, named)
    if isinstance(space, (Discrete, MultiDiscrete)):
        return _counted(space, num_envs, shared)
    if isinstance(space, MultiBinary):
        return Leaf(Binary(shape=(num_envs, *space.shape), dtype=torch.int8), np.dtype(np.int8), None, shared)
    if isinstance(space, Box):
        return Leaf(_bounded(space, num_envs, where), space.dtype, None, shared)
    raise NoArrayForm(
        f"{where} is {space}, which TorchRL has no tensors for: expected Box, Discrete, MultiDiscrete, MultiBinary, or "
        f"a Dict or Tuple of those. Change it with a wrapper: TransformObservation or TransformAction."
    )


def _counted(space: Discrete | MultiDiscrete, num_envs: int, shared: bool) -> Leaf:
    numbers = np.dtype(space.dtype)
    start = np.asarray(space.start, dtype=numbers)
    shape, dtype = (num_envs, *start.shape), _torch_dtype(numbers)
    if isinstance(space, Discrete):
        spec = Categorical(int(space.n), shape=shape, dtype=dtype)
    else:
        spec = MultiCategorical(torch.from_numpy(space.nvec.astype(np.int64)), shape=shape, dtype=dtype)
    return Leaf(spec, numbers, start if start.any() else None, shared)


def _bounded(space: Box, num_envs: int, where: str) -> TensorSpec:
    if space.dtype.kind not in "biuf" or space.dtype.itemsize > 8 or space.dtype == np.uint64:
        raise NoArrayForm(f"{where} is a Box of {space.dtype}, which torch has no tensors for. Use float32, say.")
    shape, dtype = (num_envs, *space.shape), _torch_dtype(space.dtype)
    if space.dtype.kind == "f" and not np.isfinite([space.low, space.high]).any():
        return Unbounded(shape=shape, dtype=dtype)
    low, high = (torch.as_tensor(np.array(bound)).to(dtype).expand(shape) for bound in (space.low, space.high))
    return Bounded(low, high, shape=shape, dtype=dtype)


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, _WIDER.get(dtype, dtype))).dtype
