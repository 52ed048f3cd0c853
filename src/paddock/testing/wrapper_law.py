"""check_wrapper: n lanes with a wrapper are exactly n single environments with it, in every autoreset mode.

The proof means something only if lanes get out of phase: use environments whose episodes end, at different times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.lane import Lane
from paddock.core.vector_env import AutoresetMode, VectorEnv, info_of
from paddock.errors import CheckFailed
from paddock.spaces.batch import concatenate, create_empty_array
from paddock.wrappers.many_lanes import split

Array = np.ndarray[Any, Any]


def check_wrapper(
    make_single: Callable[[int], Env[Any, Any]],
    make_vector: Callable[[AutoresetMode], VectorEnv[Any, Any, Any]],
    *,
    modes: Collection[AutoresetMode] = tuple(AutoresetMode),
    steps: int = 100,
    seed: int = 0,
    tolerance: float = 0.0,
    ignore: Collection[str] = (),
) -> None:
    """Fail with CheckFailed at the first step where lanes differ from single environments.

    ``make_single(i)`` makes lane i alone, in its wrapper; ``make_vector(mode)`` makes the lanes and puts the vector
    wrapper around them. Actions are random, and now and then lanes are reset one by one. Observations, rewards, flags
    and infos are compared, numbers within ``tolerance``; infos named in ``ignore`` are not. Under SAME_STEP the info of
    an episode's end may be at top level too.

    >>> from paddock.wrappers import ClipReward, vector
    >>> import paddock
    >>> check_wrapper(
    ...     lambda lane: ClipReward(paddock.make("CartPole-v1"), 0, 0.5),
    ...     lambda mode: vector.ClipReward(
    ...         paddock.make_vec("CartPole-v1", num_envs=3, lanes=paddock.LaneOptions(autoreset=mode)), 0, 0.5
    ...     ),
    ... )
    """
    for mode in modes:
        _Comparison(make_single, make_vector(mode), mode, tolerance, frozenset(ignore)).run(steps, seed)


class _Comparison:
    """The same calls to lanes and to single environments."""

    def __init__(
        self,
        make_single: Callable[[int], Env[Any, Any]],
        vector: VectorEnv[Any, Any, Any],
        mode: AutoresetMode,
        tolerance: float,
        ignore: frozenset[str],
    ) -> None:
        self.mode, self.vector, self.tolerance, self.ignore = mode, vector, tolerance, ignore
        self.lanes = [Lane(make_single(lane), mode) for lane in range(vector.num_envs)]
        self.last: list[Any] = [None] * vector.num_envs
        self.when = "when made"

    def run(self, steps: int, seed: int) -> None:
        try:
            single = self.lanes[0].env
            self._compare("observation_space", [self.vector.single_observation_space], [single.observation_space])
            self._compare("action_space", [self.vector.single_action_space], [single.action_space])
            self._drive(steps, seed)
        finally:
            self.vector.close()
            for lane in self.lanes:
                lane.env.close()

    def _drive(self, steps: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        actions = self.vector.single_action_space
        actions.seed(seed)
        everywhere = np.ones(len(self.lanes), np.bool_)
        self._reset(everywhere, seed)
        over, ends = ~everywhere, 0
        for time in range(1, steps + 1):
            self.when = f"step {time}"
            some = random.random(len(self.lanes)) < 0.3 if random.random() < 0.08 else ~everywhere
            if self.mode is AutoresetMode.DISABLED:
                some = some | over
            if some.any():
                self._reset(some, int(random.integers(1000)) if random.random() < 0.5 else None)
            over = self._step([actions.sample() for _ in self.lanes])
            ends += int(over.sum())
        if not ends:
            raise CheckFailed(f"{self.mode.name}: no episode ended in {steps} steps, so nothing is proved. Pass more.")

    def _reset(self, lanes: Array, seed: int | None) -> None:
        options = None if lanes.all() else {"reset_mask": lanes}
        seeds = [None if seed is None else seed + lane for lane in range(len(self.lanes))]
        infos: list[Info] = [{} for _ in self.lanes]
        for lane in np.flatnonzero(lanes).tolist():
            self.last[lane], infos[lane] = self.lanes[lane].reset(seed=seeds[lane])
        observations, vector_infos = self.vector.reset(seed=seed, options=options)
        self._compare("observation of reset", self._each(observations), self.last)
        self._compare_infos(vector_infos, infos)

    def _step(self, actions: list[Any]) -> Array:
        results = [lane.step(action) for lane, action in zip(self.lanes, actions, strict=True)]
        space = self.vector.single_action_space
        batch = concatenate(space, actions, create_empty_array(space, n=len(actions)))
        observations, rewards, terminations, truncations, infos = self.vector.step(batch)
        self.last = [result[0] for result in results]
        self._compare("observation", self._each(observations), self.last)
        self._compare("reward", rewards, [float(result[1]) for result in results])
        self._compare("terminated", terminations, [result[2] for result in results])
        self._compare("truncated", truncations, [result[3] for result in results])
        self._compare_infos(infos, [result[4] for result in results])
        return np.array([result[2] or result[3] for result in results], np.bool_)

    def _each(self, observations: Any) -> list[Any]:
        return split(self.vector.single_observation_space, observations, len(self.lanes))

    def _compare(self, what: str, found: Any, expected: list[Any]) -> None:
        for lane, (one, other) in enumerate(zip(found, expected, strict=True)):
            if not _alike(one, other, self.tolerance):
                where = f"{self.mode.name}, {self.when}, lane {lane}"
                raise CheckFailed(f"{where}: {what} is {one!r}, in the single environment {other!r}.")

    def _compare_infos(self, infos: Info, expected: list[Info]) -> None:
        found = [self._without_ignored(info_of(infos, lane)) for lane in range(len(self.lanes))]
        wanted = [self._without_ignored(info) for info in expected]
        for one, other in zip(found, wanted, strict=True):
            last = other.get("final_info", {})
            for key in (one.keys() - other.keys()) & last.keys():
                if _alike(one[key], last[key], self.tolerance):
                    del one[key]
        self._compare("info", found, wanted)

    def _without_ignored(self, info: Info) -> Info:
        return {
            key: self._without_ignored(value) if isinstance(value, dict) and key != "final_obs" else value
            for key, value in info.items()
            if key not in self.ignore
        }


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key], tolerance) for key in one)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(_alike(*pair, tolerance) for pair in zip(one, other, strict=True))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if tolerance and one.dtype.kind in "fc":
            return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True))
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    if isinstance(one, (float, np.floating)) and isinstance(other, (float, int, np.number)):
        return bool(one == other or abs(one - other) <= tolerance * (1 + abs(other)) or (one != one and other != other))
    return bool(one == other)
