"""BatchWall: what a far end says of n lanes at once, checked by the side that is to believe it; whole arrays at a time.

A lie is an EnvironmentViolation that names the field, and the lane where that is known. Hot: ``step`` runs once a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode
from paddock.errors import EnvironmentViolation, PaddockError
from paddock.hosting.messages import Failed
from paddock.hosting.rows import empty, taken
from paddock.hosting.wall import Wall, out_of_range
from paddock.hosting.wall_failure import walled_error
from paddock.hosting.wall_members import shown, violation, wrong_place
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.wall_values import ValueCheck
from paddock.spaces import Dict, Space, Tuple
from paddock.spaces.batch import batch_space, iterate
from paddock.vector.hosted_lanes import lane_infos_from_wire
from paddock.vector.lane_rows import Leaf, are_bits, between, leaves

Array = np.ndarray[Any, Any]
Result = tuple[Any, Array, Array, Array, Info]


class BatchWall:
    """For ``num_envs`` lanes, each of which observes members of ``single``."""

    ends = Wall.ends

    def __init__(self, single: Space[Any], num_envs: int, rules: WallRules) -> None:
        self._single, self._count, self._rules = single, num_envs, rules
        self._batch = batch_space(single, num_envs)
        self._wall = Wall(single, rules)
        template = empty(single, num_envs)
        self._leaves: list[Leaf] | None = None if template is None else list(leaves(single, template))
        low, high = np.full(num_envs, self._wall.low), np.full(num_envs, self._wall.high)
        self._rewards_fit = between(low, high)

    def failure(self, reply: Failed) -> PaddockError:
        """The error to raise for a failure."""
        return walled_error(reply, server=self._rules.server)

    def reset(self, value: Any) -> tuple[Any, Info]:
        """Observations and infos."""
        if type(value) not in (list, tuple) or len(value) != 2:
            raise violation("reset()", f"{shown(value)} came back, expected observations and infos")
        return self.observations(value[0]), self.infos(value[1])

    def step(self, value: Any) -> Result:
        """The five results of the one environment that all lanes are."""
        if type(value) is not list or len(value) != 1:
            raise violation("step()", f"{shown(value)} came back, expected the results of one step")
        result = value[0]
        if type(result) is Failed:
            raise self.failure(result)
        if type(result) is not list or len(result) != 5:
            raise violation("step()", f"{shown(result)} came back, expected five results")
        observations, rewards, terminations, truncations, infos = result
        self._check_rewards(rewards)
        self._check_flags(terminations, "terminated")
        self._check_flags(truncations, "truncated")
        read = self.infos(infos) if type(infos) is not dict or infos else infos
        return self.observations(observations), rewards, terminations, truncations, read

    def observations(self, value: Any) -> Any:
        """A member of the single space for each lane."""
        if self._leaves is None:
            return self._loose(value)
        arrays = list(_arrays(self._single, value, "observation"))
        for leaf, array in zip(self._leaves, arrays, strict=True):
            expected = leaf.values
            if type(array) is not np.ndarray or array.dtype != expected.dtype or array.shape != expected.shape:
                raise violation(
                    leaf.path, f"{shown(array)}, expected {expected.dtype}{list(expected.shape)}, a row for each lane"
                )
            if not leaf.all_fit(array):
                raise self._accused(leaf, array)
        return value

    def _accused(self, leaf: Leaf, array: Array) -> EnvironmentViolation:
        for lane in range(self._count):
            part = array[lane : lane + 1]
            if leaf.some_fit(part):
                continue
            if part.dtype == np.bool_ and not are_bits(part):
                return violation(f"lane {lane}: {leaf.path}", "a byte of it is no bool")
            path, problem = wrong_place(leaf.space, taken(array, lane), leaf.path)
            return violation(f"lane {lane}: {path}", problem)
        return violation(leaf.path, "it is not within the declared space")

    def _loose(self, value: Any) -> Any:
        """Values without a fixed size, looked at one by one."""
        try:
            each = list(iterate(self._batch, value))
        except Exception:  # a nesting that the space does not have
            each = []
        if len(each) != self._count:
            raise violation("observation", f"{shown(value)}, expected an observation for each of {self._count} lanes")
        for lane, one in enumerate(each):
            self._wall.observation(one, f"lane {lane}: observation")
        return value

    def _check_rewards(self, rewards: Any) -> None:
        if type(rewards) is not np.ndarray or rewards.dtype != np.float64 or rewards.shape != (self._count,):
            raise violation("reward", f"{shown(rewards)}, expected float64[{self._count}]")
        if not self._rewards_fit(rewards):
            (lane, *_) = np.flatnonzero(~((rewards >= self._wall.low) & (rewards <= self._wall.high))).tolist()
            raise out_of_range(rewards[lane], self._rules.reward_range)

    def _check_flags(self, flags: Any, name: str) -> None:
        if type(flags) is not np.ndarray or flags.dtype != np.bool_ or flags.shape != (self._count,):
            raise violation(name, f"{shown(flags)}, expected bool[{self._count}]")
        if not are_bits(flags):
            raise violation(name, "a byte of it is no bool")

    def infos(self, value: Any) -> Info:
        """The infos of all lanes; each may bring as much as one alone."""
        if type(value) is not dict:
            raise violation("info", f"{shown(value)} is no dict")
        rules, final = self._rules, value.get("final_obs")
        rest = {key: one for key, one in value.items() if key != "final_obs"} if final is not None else value
        check = ValueCheck(
            "info",
            max_bytes=rules.info_bytes * self._count,
            depth=rules.info_depth + 1,
            entries=rules.info_entries * self._count,
        )
        read: Info = check.read(rest)
        if final is not None:
            read = {"final_obs": self._final(final), **read}
        return lane_infos_from_wire(read, self._count)

    def _final(self, value: Any) -> list[Any]:
        if type(value) is not list or len(value) != self._count:
            raise violation("info['final_obs']", f"{shown(value)}, expected an entry for each of {self._count} lanes")
        for lane, one in enumerate(value):
            if one is not None:
                self._wall.observation(one, f"lane {lane}: info['final_obs']")
        return value

    def states(self, value: Any) -> tuple[State, ...]:
        """The state of each lane."""
        return tuple(State(*self._wall.state(one)) for one in self._one_a_lane(value, "state()"))

    def frames(self, value: Any, mode: str | None) -> tuple[Any, ...] | None:
        """A picture or text a lane."""
        if value is None:
            return None
        return tuple(self._wall.render(one, mode) for one in self._one_a_lane(value, "render()"))

    def values(self, value: Any, name: str) -> tuple[Any, ...]:
        """What the attribute is, or returned, in each lane."""
        self._one_a_lane(value, name)
        if name in ("np_random", "np_random_seed"):
            return tuple(self._wall.value(one, name) for one in value)
        return tuple(self._wall.value(value, name))

    def snapshot(self, value: Any) -> bytes:
        """Bytes."""
        return self._wall.snapshot(value)

    def _one_a_lane(self, value: Any, name: str) -> Any:
        if type(value) not in (list, tuple) or len(value) != self._count:
            raise violation(name, f"{shown(value)}, expected a value for each of {self._count} lanes")
        return value


def checked_mode(metadata: dict[str, Any]) -> AutoresetMode:
    """When ended lanes begin anew, as the far end says it."""
    try:
        return AutoresetMode(metadata.get("autoreset_mode"))
    except ValueError:
        said = shown(metadata.get("autoreset_mode"))
        raise violation("metadata['autoreset_mode']", f"{said} is no way for lanes to begin anew") from None


def _arrays(space: Space[Any], value: Any, path: str) -> Iterator[Any]:
    """The leaves of a value that is to be nested as the space is, in the space's order."""
    if isinstance(space, Dict):
        if type(value) is not dict or value.keys() != space.spaces.keys():
            raise violation(path, f"{shown(value)}, expected a dict with the keys of {space}")
        for key, part in space.spaces.items():
            yield from _arrays(part, value[key], f"{path}[{key!r}]")
    elif isinstance(space, Tuple):
        if type(value) is not tuple or len(value) != len(space.spaces):
            raise violation(path, f"{shown(value)}, expected a tuple of {len(space.spaces)}")
        for index, part in enumerate(space.spaces):
            yield from _arrays(part, value[index], f"{path}[{index}]")
    else:
        yield value
