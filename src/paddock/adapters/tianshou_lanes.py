"""LanesVectorEnv: a vector environment of Tianshou over paddock's lanes. Imported only where Tianshou is installed.

Tianshou's own has a worker per environment; here one call steps them all, without workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tianshou.env import BaseVectorEnv

from paddock.adapters.trainers import Lanes, reuses_buffers
from paddock.core.env import Info
from paddock.core.lane import lane_seeds
from paddock.errors import ClosedEnvironmentError, InvalidAction, InvalidLanes, NoArrayForm
from paddock.sources.gymnasium_spaces import to_theirs
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from paddock.spaces.batch import row
from paddock.wrappers.vector import info_list

Array = np.ndarray[Any, Any]
Ids = int | Sequence[int] | Array | None
_ARRAYS = (Box, Discrete, MultiBinary, MultiDiscrete)


class LanesVectorEnv(BaseVectorEnv):  # type: ignore[misc]  # Tianshou has no types for mypy
    """``step(actions, ids)`` moves these lanes and leaves the others; ``reset(ids)`` begins episodes in them.

    Observations: float32[k, ...] and the like, k dicts where the space is a Dict. Infos: k dicts with ``env_id``.
    """

    def __init__(self, lanes: Lanes, *, seed: int | None = None) -> None:
        # Not super().__init__, which makes workers; what it sets besides follows.
        self.lanes = lanes
        self.env_num = self.wait_num = lanes.num_envs
        self.is_async, self.is_closed, self.timeout = False, False, None
        self.ready_id = list(range(lanes.num_envs))
        self.waiting_id: list[int] = []
        _check_arrays(lanes.single_observation_space, "observation_space", dicts=True)
        _check_arrays(lanes.single_action_space, "action_space", dicts=False)
        self._copy = reuses_buffers(lanes)
        self._by_key = isinstance(lanes.single_observation_space, Dict)
        self._begun = False
        self._seeds = lane_seeds(seed, lanes.num_envs)
        # One per lane, as Tianshou has it: each draws its own random actions.
        spaces = ("action_space", lanes.single_action_space), ("observation_space", lanes.single_observation_space)
        self._spaces = {name: [to_theirs(space) for _ in self.ready_id] for name, space in spaces}

    def reset(self, env_id: Ids = None, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Array]:
        """Begin an episode in these lanes, or in all. The first time begins it in the others too."""
        ids = self._checked_ids(env_id)
        if seed is not None:
            self._seeds = lane_seeds(seed, self.env_num)
        mask = self._mask(ids) if self._begun else np.ones(self.env_num, dtype=np.bool_)
        observations, infos = self.lanes.reset(
            seed=self._seeds,  # type: ignore[arg-type]  # all of ours take one per lane
            options={**(options or {}), "reset_mask": mask},
        )
        self._seeds = [None if begun else seed for seed, begun in zip(self._seeds, mask, strict=True)]
        self._begun = True
        return self._rows(observations, ids), self._infos(infos, ids, numbered=False)

    def step(self, action: Any, id: Ids = None) -> tuple[Any, Array, Array, Array, Array]:
        """Step these lanes, or all: observations, rewards, terminations, truncations, infos."""
        ids = self._checked_ids(id)
        if action is None or len(action) != len(ids):
            given = "None" if action is None else f"{len(action)}"
            raise InvalidAction(f"{given} actions for {len(ids)} lanes, expected one for each.", action=action)
        actions = np.asarray(action)
        if not self._is_all(ids):
            every = np.repeat(actions[:1], self.env_num, axis=0)  # lanes that do not move ignore theirs
            every[ids] = actions
            actions = every
            self.lanes.hold(~self._mask(ids))
        observations, rewards, terminated, truncated, infos = self.lanes.step(actions)
        flags = rewards[ids], terminated[ids], truncated[ids]
        return (self._rows(observations, ids), *flags, self._infos(infos, ids, numbered=True))

    def _is_all(self, ids: Array) -> bool:
        return len(ids) == self.env_num and np.array_equal(ids, self.ready_id)

    def _rows(self, observations: Any, ids: Array) -> Any:
        """Return the rows of these lanes; dicts if the space is a Dict, as Tianshou wants it."""
        if self._by_key:
            rows = np.empty(len(ids), dtype=object)
            rows[:] = [row(self.lanes.single_observation_space, observations, lane) for lane in ids.tolist()]
            return rows
        if self._is_all(ids):
            return observations.copy() if self._copy else observations
        return observations[ids]

    def _infos(self, infos: Info, ids: Array, *, numbered: bool) -> Array:
        each = info_list(infos, self.env_num) if infos else [{} for _ in self.ready_id]
        rows = np.empty(len(ids), dtype=object)
        for place, lane in enumerate(ids.tolist()):
            rows[place] = each[lane]
            if numbered:
                rows[place]["env_id"] = lane
        return rows

    def _checked_ids(self, ids: Ids) -> Array:
        if self.is_closed:
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")
        found = np.arange(self.env_num) if ids is None else np.atleast_1d(np.asarray(ids))
        known = found.dtype.kind in "iu" and found.ndim == 1 and found.size > 0
        if not known or found.min() < 0 or found.max() >= self.env_num or len(np.unique(found)) < len(found):
            raise InvalidLanes(f"{ids!r} are not lanes; expected different numbers from 0 to {self.env_num - 1}.")
        return found

    def _mask(self, ids: Array) -> Array:
        mask = np.zeros(self.env_num, dtype=np.bool_)
        mask[ids] = True
        return mask

    def seed(self, seed: int | list[int] | None = None) -> list[list[int] | None]:
        """Seed the next episodes, in lane i with seed + i, and the spaces that random actions are drawn from."""
        self._seeds = lane_seeds(seed, self.env_num)
        for space, one in zip(self._spaces["action_space"], self._seeds, strict=True):
            space.seed(one)
        return [None if one is None else [one] for one in self._seeds]

    def get_env_attr(self, key: str, id: Ids = None) -> list[Any]:
        """The attribute of each of these lanes; spaces are Gymnasium's."""
        ids = self._checked_ids(id).tolist()
        if key in self._spaces:
            return [self._spaces[key][lane] for lane in ids]
        if key in ("metadata", "spec"):
            return [getattr(self.lanes, key)] * len(ids)
        found = self.lanes.get_attr(key)  # type: ignore[attr-defined]
        return [found[lane] for lane in ids]

    def set_env_attr(self, key: str, value: Any, id: Ids = None) -> None:
        ids = self._checked_ids(id)
        values: Any = [value] * self.env_num
        if len(ids) < self.env_num:
            values = [value if one in ids else old for one, old in enumerate(self.lanes.get_attr(key))]  # type: ignore[attr-defined]
        self.lanes.set_attr(key, values)  # type: ignore[attr-defined]

    def render(self, **kwargs: Any) -> list[Any]:
        frames = self.lanes.render()
        return [] if frames is None else list(frames)

    def close(self) -> None:
        self.is_closed = True
        self.lanes.close()


def _check_arrays(space: Space[Any], where: str, *, dicts: bool) -> None:
    """Tianshou stacks observations, in Dict spaces too, and actions are arrays."""
    if dicts and isinstance(space, Dict):
        for name, part in space.spaces.items():
            _check_arrays(part, f"{where}[{name!r}]", dicts=True)
    elif not isinstance(space, _ARRAYS):
        raise NoArrayForm(
            f"{where} is {space}, which Tianshou does not take: expected Box, Discrete, MultiDiscrete or MultiBinary"
            f"{', or a Dict of those' if dicts else ''}. Change it with one of paddock.wrappers."
        )
