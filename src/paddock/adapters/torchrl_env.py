"""LanesEnv: a TorchRL ``EnvBase`` over lanes. Imported only where TorchRL is.

TorchRL resets lanes that ended, all others go on: the lanes are made without autoreset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from paddock.adapters.torchrl_specs import translated
from paddock.adapters.trainer_lanes import Lanes, reuses_buffers
from paddock.core.env import Info
from paddock.core.lane_arguments import lane_seeds
from paddock.errors import InvalidSpace
from paddock.spaces import Dict

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
        self._seen = translated(lanes.single_observation_space, count, where="observation_space", shared=shared)
        self._chosen = translated(lanes.single_action_space, count, where="action_space", shared=shared)
        self._by_key = isinstance(lanes.single_observation_space, Dict)
        self._terminated, self._truncated = np.zeros((2, count), dtype=np.bool_)
        self._now: dict[str, Any] = {}
        self._seeds: list[int | None] = lane_seeds(seed, count)
        self._adopt_specs()

    def _adopt_specs(self) -> None:
        shape = (*self.batch_size, 1)
        seen = self._seen.spec if self._by_key else Composite(observation=self._seen.spec, shape=self.batch_size)
        taken = _TORCHRLS_OWN & set(seen.keys())
        if taken:
            raise InvalidSpace(
                f"observation_space has the key {min(taken)!r}, which is TorchRL's own. Rename it with a wrapper: "
                f"TransformObservation."
            )
        flag = Categorical(2, shape=shape, dtype=torch.bool)
        self.observation_spec = seen.to(self.device)
        self.full_action_spec = Composite(action=self._chosen.spec, shape=self.batch_size).to(self.device)
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
                seed=self._seeds,  # type: ignore[arg-type]  # all of ours take one a lane
                options={**(options or {}), "reset_mask": mask},
            )
            self._seeds = [None if begun else seed for seed, begun in zip(self._seeds, mask, strict=True)]
            self._terminated, self._truncated = self._terminated & ~mask, self._truncated & ~mask
            self._now = self._observed(batch)
        return self._told(**self._now)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        actions = self._chosen.array(tensordict.get("action"))
        moving = tensordict.get("_step", None)
        if moving is None:
            batch, rewards, self._terminated, self._truncated, _ = self.lanes.step(actions)
        else:
            batch, rewards = self._step_some(actions, _mask(moving))
        self._now = self._observed(batch)
        return self._told(**self._now, reward=torch.from_numpy(rewards.astype(np.float32)).unsqueeze(-1))

    def _step_some(self, actions: Any, moving: Array) -> tuple[Any, Array]:
        """Lanes that are not to move are what they were, those that ended too."""
        self.lanes.hold(~moving)
        batch, rewards, terminated, truncated, _ = self.lanes.step(actions)
        self._terminated = np.where(moving, terminated, self._terminated)
        self._truncated = np.where(moving, truncated, self._truncated)
        return batch, rewards

    def _observed(self, batch: Any) -> dict[str, Any]:
        seen = self._seen.tensor(batch)
        return dict(seen.items()) if self._by_key else {"observation": seen}

    def _told(self, **entries: Any) -> TensorDictBase:
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
        """Close the lanes; a second time is fine."""
        self.lanes.close()
        super().close(raise_if_closed=raise_if_closed)


def _mask(asked: torch.Tensor) -> Array:
    """TorchRL's masks have the form of its flags."""
    mask: Array = asked.cpu().numpy().reshape(-1).astype(np.bool_, copy=False)
    return mask
