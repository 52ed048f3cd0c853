"""LanesEnv: a TorchRL ``EnvBase`` over lanes, and spaces as TorchRL's specs. Imported only where TorchRL is installed.

TorchRL resets lanes that ended and lets the others go on, so the lanes are made without autoreset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from paddock.adapters.trainers import Lanes, reuses_buffers
from paddock.core.env import Info
from paddock.core.lane import lane_seeds
from paddock.errors import InvalidSpace, NoArrayForm
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

Array = np.ndarray[Any, Any]
_TORCHRLS_OWN = {"action", "reward", "done", "terminated", "truncated", "next", "_reset", "_step"}


class LanesEnv(EnvBase):  # type: ignore[misc]  # TorchRL has no types for mypy
    """``batch_size=[n]``: each step moves n lanes. ``reward``: float32[n, 1]; ``done`` and its reasons: bool[n, 1].

    ``set_seed`` says what the next episodes begin with, in lane i seed + i. ``reset`` takes ``seed`` and ``options``.
    """

    def __init__(self, lanes: Lanes, *, device: torch.device | str | None = None, seed: int | None = None) -> None:
        count = lanes.num_envs
        super().__init__(device=torch.device("cpu" if device is None else device), batch_size=[count])
        self.lanes = lanes
        shared = not reuses_buffers(lanes)
        self._observation_form = translate(
            lanes.single_observation_space, count, where="observation_space", shared=shared
        )
        self._action_form = translate(lanes.single_action_space, count, where="action_space", shared=shared)
        self._by_key = isinstance(lanes.single_observation_space, Dict)
        self._terminated, self._truncated = np.zeros((2, count), dtype=np.bool_)
        self._now: dict[str, Any] = {}
        self._seeds: list[int | None] = lane_seeds(seed, count)
        self._adopt_specs()

    def _adopt_specs(self) -> None:
        shape = (*self.batch_size, 1)
        spec = (
            self._observation_form.spec
            if self._by_key
            else Composite(observation=self._observation_form.spec, shape=self.batch_size)
        )
        if taken := _TORCHRLS_OWN & set(spec.keys()):
            raise InvalidSpace(
                f"observation_space has the key {min(taken)!r}, which is TorchRL's own. Rename it with a wrapper: "
                f"TransformObservation."
            )
        flag = Categorical(2, shape=shape, dtype=torch.bool)
        self.observation_spec = spec.to(self.device)
        self.full_action_spec = Composite(action=self._action_form.spec, shape=self.batch_size).to(self.device)
        self.reward_spec = Unbounded(shape=shape, device=self.device)
        names = ("done", "terminated", "truncated")
        self.done_spec = Composite({name: flag.clone() for name in names}, shape=self.batch_size).to(self.device)

    def _reset(
        self, tensordict: TensorDictBase | None, seed: int | None = None, options: Info | None = None
    ) -> TensorDictBase:
        if seed is not None:
            self._set_seed(seed)
        asked = None if tensordict is None else tensordict.get("_reset", None)
        mask = np.ones(self.lanes.num_envs, dtype=np.bool_) if asked is None else _mask(asked)
        if mask.any():
            batch, _ = self.lanes.reset(
                seed=self._seeds,  # type: ignore[arg-type]  # all of ours take one per lane
                options={**(options or {}), "reset_mask": mask},
            )
            self._seeds = [None if begun else seed for seed, begun in zip(self._seeds, mask, strict=True)]
            self._terminated, self._truncated = self._terminated & ~mask, self._truncated & ~mask
            self._now = self._observation_fields(batch)
        return self._with_flags(**self._now)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        actions = self._action_form.array(tensordict.get("action"))
        moving = tensordict.get("_step", None)
        if moving is None:
            batch, rewards, self._terminated, self._truncated, _ = self.lanes.step(actions)
        else:
            mask = _mask(moving)
            self.lanes.hold(~mask)
            batch, rewards, terminated, truncated, _ = self.lanes.step(actions)
            # Lanes that do not move stay as they were, those that ended too.
            self._terminated = np.where(mask, terminated, self._terminated)
            self._truncated = np.where(mask, truncated, self._truncated)
        self._now = self._observation_fields(batch)
        return self._with_flags(**self._now, reward=torch.from_numpy(rewards.astype(np.float32)).unsqueeze(-1))

    def _observation_fields(self, batch: Any) -> dict[str, Any]:
        observations = self._observation_form.tensor(batch)
        return dict(observations.items()) if self._by_key else {"observation": observations}

    def _with_flags(self, **entries: Any) -> TensorDictBase:
        for name, flags in (
            ("done", self._terminated | self._truncated),
            ("terminated", self._terminated),
            ("truncated", self._truncated),
        ):
            entries[name] = torch.from_numpy(np.array(flags)).unsqueeze(-1)
        return TensorDict(entries, batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._seeds = lane_seeds(seed, self.lanes.num_envs)

    def close(self, *, raise_if_closed: bool = True) -> None:
        self.lanes.close()
        super().close(raise_if_closed=raise_if_closed)


def _mask(asked: torch.Tensor) -> Array:
    """Return bool[n]: TorchRL's masks have the shape of its flags."""
    mask: Array = asked.cpu().numpy().reshape(-1).astype(np.bool_, copy=False)
    return mask


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


def translate(space: Space[Any], num_envs: int, *, where: str, shared: bool) -> Leaf | Branch:
    """Return TorchRL's form of ``num_envs`` members of ``space``; ``where`` is for the error.

    A spec has the lanes' axis in front. Discrete values count from 0 there, and from the space's ``start`` here.
    """
    if isinstance(space, (Dict, Tuple)):
        named = isinstance(space, Dict)
        spaces = space.spaces.items() if isinstance(space, Dict) else ((str(i), s) for i, s in enumerate(space.spaces))
        parts = {
            str(name): translate(part, num_envs, where=f"{where}[{name!r}]", shared=shared) for name, part in spaces
        }
        return Branch(Composite({name: part.spec for name, part in parts.items()}, shape=(num_envs,)), parts, named)
    if isinstance(space, (Discrete, MultiDiscrete)):
        start = np.asarray(space.start, dtype=space.dtype)
        shape, dtype = (num_envs, *start.shape), _torch_dtype(start.dtype)
        if isinstance(space, Discrete):
            spec = Categorical(int(space.n), shape=shape, dtype=dtype)
        else:
            spec = MultiCategorical(torch.from_numpy(space.nvec.astype(np.int64)), shape=shape, dtype=dtype)
        return Leaf(spec, start.dtype, start if start.any() else None, shared)
    if isinstance(space, MultiBinary):
        return Leaf(Binary(shape=(num_envs, *space.shape), dtype=torch.int8), np.dtype(np.int8), None, shared)
    if isinstance(space, Box):
        return Leaf(_bounded_spec(space, num_envs, where), space.dtype, None, shared)
    raise NoArrayForm(
        f"{where} is {space}, which TorchRL has no tensors for: expected Box, Discrete, MultiDiscrete, MultiBinary, or "
        f"a Dict or Tuple of those. Change it with a wrapper: TransformObservation or TransformAction."
    )


def _bounded_spec(space: Box, num_envs: int, where: str) -> TensorSpec:
    if space.dtype.kind not in "biuf" or space.dtype.itemsize > 8 or space.dtype == np.uint64:
        raise NoArrayForm(
            f"{where} is a Box of {space.dtype}, which torch has no tensors for. Use float32, for example."
        )
    shape, dtype = (num_envs, *space.shape), _torch_dtype(space.dtype)
    if space.dtype.kind == "f" and not np.isfinite([space.low, space.high]).any():
        return Unbounded(shape=shape, dtype=dtype)
    low, high = (torch.as_tensor(np.array(bound)).to(dtype).expand(shape) for bound in (space.low, space.high))
    return Bounded(low, high, shape=shape, dtype=dtype)


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, _WIDER.get(dtype, dtype))).dtype
