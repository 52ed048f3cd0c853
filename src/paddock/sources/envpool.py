"""EnvPoolLanes: EnvPool's environments, n at a time in threads of its own, as a VectorEnv.

EnvPool takes seeds only when a pool is made. So ``reset(seed=…)`` makes a new pool: it is exact, and takes as long as
making the environments does. After the end of an episode EnvPool ignores the next action and restarts, which is
NEXT_STEP; it has no other mode.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

import paddock.spaces as ours
from paddock.core.env import Info
from paddock.core.lane import lane_seeds, masked_lanes, reset_mask
from paddock.core.spec import EnvSpec
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import (
    ClosedEnvironmentError,
    CustomSpaceError,
    DependencyNotInstalled,
    InvalidLanes,
    InvalidSeed,
    NameNotFound,
    PlanError,
    ResetNeeded,
    SnapshotUnsupported,
)
from paddock.seeding import np_random
from paddock.sources.families import installed_family
from paddock.sources.foreign import ForeignEnv, check_actions, to_ours
from paddock.spaces.batch import batch_space, row

Array = np.ndarray[Any, Any]

_METADATA = {"render_modes": ["rgb_array", "human"], "autoreset_mode": AutoresetMode.NEXT_STEP}
_NO_LIMIT = (1 << 31) - 1
_SEEDS = 1 << 31  # EnvPool's are of 32 bits, with a sign
_LANE_NUMBERS = ("env_id", "players")  # left out of infos: the row says which lane it is
_OURS = {
    "seed": "reset(seed=…)",
    "env_seed": "reset(seed=[…])",
    "batch_size": "all lanes, in step",
    "env_type": "paddock's own",
    "gym_reset_return_info": "always so",
    "max_num_players": "one per lane",
}


def spec_of(id: str) -> EnvSpec:
    """Return our spec for a task of EnvPool."""
    theirs = _task_spec(id, {})
    return EnvSpec(
        id,
        entry_point="paddock.sources.envpool:EnvPoolEnv",
        vector_entry_point="paddock.sources.envpool:EnvPoolLanes",
        reward_threshold=getattr(theirs.config, "reward_threshold", None),
        max_episode_steps=getattr(theirs.config, "max_episode_steps", None),
        kwargs={"task": id},
    )


class EnvPoolLanes(VectorEnv[Any, Any, Array]):
    """``num_envs`` lanes of a task of EnvPool. Other arguments are EnvPool's: ``num_threads``, say.

    Actions are always validated: EnvPool would read memory by them. Results are EnvPool's own arrays, uncopied unless
    the dtype differs from the space's; rewards: float64[n]; terminations, truncations: bool[n].
    """

    metadata: dict[str, Any] = _METADATA
    takes_lane_options: ClassVar[bool] = False  # EnvPool chooses the number of threads, unless you do

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int | None = None,
        statistics: bool = False,
        **arguments: Any,
    ) -> None:
        for name in arguments:
            if name in _OURS:
                raise PlanError(f"{name}= can't be passed on to EnvPool: {_OURS[name]}.")
        if AutoresetMode(autoreset_mode) is not AutoresetMode.NEXT_STEP:
            raise PlanError(
                f"EnvPool restarts a lane at the step after the end (NextStep) and has no "
                f"{AutoresetMode(autoreset_mode).value}. Pass backend='loop', which makes a pool of one per lane."
            )
        if statistics:
            raise PlanError("EnvPool counts no episodes. Wrap the lanes: wrappers.vector.RecordEpisodeStatistics.")
        self.num_envs, self.render_mode, self.task = num_envs, render_mode, task
        if threads is not None:
            arguments["num_threads"] = threads
        arguments["max_episode_steps"] = _NO_LIMIT if max_episode_steps is None else max_episode_steps
        self._arguments = {**arguments, "num_envs": num_envs}
        theirs = _task_spec(task, self._arguments)
        with _quiet_bounds():
            self.single_observation_space = to_our_space(theirs.gymnasium_observation_space)
            self.single_action_space = to_our_space(theirs.gymnasium_action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.copy = copy
        self._pool: Any = None
        self._observations: Any = None
        self._all, self._none = np.ones(num_envs, np.bool_), np.zeros(num_envs, np.bool_)
        self._steps, self._episodes = np.zeros(num_envs, np.int32), np.zeros(num_envs, np.int64)
        self._ended = self._none
        self._moving: Array | None = None  # the lanes that move, if some are held
        self._name = uuid4().hex

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self.closed:
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")
        mask, _ = reset_mask(options, self.num_envs, begun=self._pool is not None)
        if self._sent is not None:
            self._pool.recv()  # results that were never received
        self._sent, self._moving = None, None
        if seed is not None or self._pool is None:
            self._make_pool(lane_seeds(seed, self.num_envs), mask)
            if seed is not None and not isinstance(seed, (list, tuple, np.ndarray)):
                self._np_random, self._np_random_seed = np_random(seed)  # type: ignore[arg-type]
        lanes = np.flatnonzero(mask).astype(np.int32)
        observations, raw_infos = self._pool.reset(lanes)
        self._episodes[lanes] += 1
        self._ended = self._ended & ~mask
        return self._merge(observations, lanes), self._infos(raw_infos, lanes, mask)

    def _make_pool(self, seeds: list[int | None], mask: Array) -> None:
        if not mask.all():
            raise InvalidSeed("EnvPool takes seeds only when all lanes begin. Drop the seed, or options['reset_mask'].")
        drawn = self.np_random.integers(_SEEDS, size=self.num_envs).tolist() if None in seeds else seeds
        chosen = [new if old is None else old for old, new in zip(seeds, drawn, strict=True)]
        if max(chosen) >= _SEEDS:
            raise InvalidSeed(f"EnvPool's seeds are below 2**31, and a lane has {max(chosen)}. Choose a smaller seed.")
        import envpool

        self._pool = None  # its threads end before others begin
        rendering = {} if self.render_mode is None else {"render_mode": self.render_mode}
        self._pool = envpool.make(self.task, env_type="gymnasium", seed=chosen, **rendering, **self._arguments)
        with _quiet_bounds():
            self._pool.observation_space  # noqa: B018 - made when first asked for, and that is now
        self._ended = self._none

    def send(self, actions: Any) -> None:
        if self._pool is None:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        self._sent = check_actions(self, actions)
        if self._moving is None:
            self._pool.send(self._sent)
        else:
            self._pool.send(self._sent[self._moving], self._moving)

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._take_sent()
        lanes, self._moving = self._moving, None
        observations, rewards, terminations, truncations, raw_infos = self._pool.recv()
        if lanes is None:
            moved = self._all
            self._episodes += self._ended
            self._ended = terminations | truncations
            rewards = rewards.astype(np.float64)
        else:
            moved = self._none.copy()
            moved[lanes] = True
            self._episodes += self._ended & moved
            rewards, terminations, truncations = (
                with_rows(np.zeros(self.num_envs, dtype), lanes, part)
                for part, dtype in ((rewards, np.float64), (terminations, np.bool_), (truncations, np.bool_))
            )
            self._ended = (self._ended & ~moved) | terminations | truncations
        infos = self._infos(raw_infos, lanes, moved)
        return self._merge(observations, lanes), rewards, terminations, truncations, infos

    def hold(self, lanes: Array) -> None:
        held = masked_lanes(lanes, self.num_envs)
        if len(held) == self.num_envs:
            raise InvalidLanes("hold() leaves no lane that moves. Don't step then.")
        self._moving = np.flatnonzero(~lanes).astype(np.int32) if held else None

    def _merge(self, observations: Any, lanes: Array | None) -> Any:
        """Return all lanes' observations, with new ones for these lanes."""
        if lanes is None or len(lanes) == self.num_envs:
            self._observations = as_space(self.observation_space, observations)
        else:
            self._observations = with_rows(self._observations, lanes, observations)
        return self._observations

    def _infos(self, raw_infos: Info, lanes: Array | None, mask: Array) -> Info:
        steps = raw_infos["elapsed_step"]
        self._steps = steps if lanes is None else with_rows(self._steps, lanes, steps)
        whole = lanes is None or len(lanes) == self.num_envs
        infos: Info = {}
        for key, value in raw_infos.items():
            if key not in _LANE_NUMBERS:
                infos[key] = value if whole else with_rows(None, lanes, value, self.num_envs)
                infos[f"_{key}"] = mask
        return infos

    def state(self) -> tuple[State, ...]:
        begun = self._pool is not None
        return tuple(
            State(f"{self._name}-{lane}-{self._episodes[lane]}" if begun else None, int(self._steps[lane]))
            for lane in range(self.num_envs)
        )

    def name_episodes(self, names: Callable[[], str]) -> None:
        """Take the episodes' names from here instead of drawing them."""
        self._name = names()

    def snapshot(self) -> bytes:
        raise SnapshotUnsupported("EnvPool can't save its lanes. Repeat the actions from the seed instead.")

    def restore(self, snapshot: bytes) -> None:
        raise SnapshotUnsupported("EnvPool's lanes can't go on from a snapshot. Repeat the actions from the seed.")

    def render(self) -> tuple[Any, ...] | None:
        if self._pool is None:
            raise ResetNeeded("Cannot call `env.render()` before calling `env.reset()`.")
        if self.render_mode == "human":
            self._pool.render()
            return None
        return tuple(self._pool.render(np.arange(self.num_envs, dtype=np.int32)))

    def close_extras(self, **kwargs: Any) -> None:
        self._pool = None


class EnvPoolEnv(ForeignEnv):
    """One environment of EnvPool: a pool of one lane. For wrappers, walls and servers; a pool of many is faster."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # paddock shows them: EnvPool needs OpenCV for that

    def __init__(self, task: str, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__(EnvPoolLanes(task, 1, render_mode=render_mode, **{"num_threads": 1, **arguments}))
        self.render_mode = render_mode
        self.observation_space = self.inner.single_observation_space
        self.action_space = self.inner.single_action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, infos = self.inner.reset(seed=self._seed_now(seed), options=options)
        return row(self.observation_space, observations, 0), _first_infos(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        # The guard has checked it; as an array of one it is checked again, because EnvPool reads memory by it.
        observations, rewards, terminations, truncations, infos = self.inner.step(np.asarray(action)[None])
        ended = bool(terminations[0]), bool(truncations[0])
        return row(self.observation_space, observations, 0), float(rewards[0]), *ended, _first_infos(infos)

    def render(self) -> Any:
        frames = self.inner.render()
        return None if frames is None else frames[0]


def _first_infos(infos: Info) -> Info:
    return {key: value[0] for key, value in infos.items() if not key.startswith("_") and isinstance(value, np.ndarray)}


@contextmanager
def _quiet_bounds() -> Iterator[None]:
    """Silence Gymnasium's warnings that bounds are rounded: only EnvPool could write others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _task_spec(task: str, arguments: Info) -> Any:
    installed_family("envpool", task)
    import envpool

    if task not in envpool.list_all_envs():
        raise NameNotFound(f"EnvPool has no task {task!r}. All: envpool.list_all_envs().")
    try:
        found = envpool.make_spec(task, **arguments)
    except ImportError as error:
        raise DependencyNotInstalled(f"EnvPool's {task!r} needs more than EnvPool: {error}") from error
    if getattr(found.config, "max_num_players", 1) > 1:
        raise CustomSpaceError(
            f"EnvPool's {task!r} has {found.config.max_num_players} players, which come and go among the rows of a "
            f"batch. Lanes here have one player each: use envpool.make itself."
        )
    return found


def to_our_space(space: Any) -> ours.Space[Any]:
    """Return our space for one of EnvPool, with infinities where it means them.

    EnvPool writes "no bound" for floats as the smallest positive number and the largest one.
    """
    if isinstance(space, dict):
        raise CustomSpaceError(
            f"EnvPool's tasks with several actions at once ({', '.join(map(str, space))}) can't be lanes here."
        )
    return _without_bounds(to_ours(space))


def _without_bounds(space: ours.Space[Any]) -> ours.Space[Any]:
    if isinstance(space, ours.Dict):
        return ours.Dict({key: _without_bounds(part) for key, part in space.spaces.items()}, sort_keys=False)
    if isinstance(space, ours.Box) and space.dtype is not None and space.dtype.kind == "f":
        limits = np.finfo(space.dtype)
        free = (np.abs(space.low) == limits.tiny) & (space.high == limits.max)
        if free.any():
            low, high = np.where(free, -np.inf, space.low), np.where(free, np.inf, space.high)
            return ours.Box(low.astype(space.dtype), high.astype(space.dtype), space.shape, space.dtype)
    return space


def as_space(space: ours.Space[Any], value: Any) -> Any:
    """Return the batch with its space's dtype and shape: the same arrays if they fit."""
    if isinstance(space, ours.Dict):
        return {key: as_space(part, value[key]) for key, part in space.spaces.items()}
    if value.dtype == space.dtype and value.shape == space.shape:
        return value
    return value.reshape(space.shape).astype(space.dtype)


def with_rows(batch: Any, lanes: Any, rows: Any, num_envs: int = 0) -> Any:
    """Return a copy of the batch with these lanes' rows; without a batch, zeros elsewhere."""
    if isinstance(rows, dict):
        return {key: with_rows(batch and batch[key], lanes, part, num_envs) for key, part in rows.items()}
    whole = np.zeros((num_envs, *rows.shape[1:]), rows.dtype) if batch is None else batch.copy()
    whole[lanes] = rows.reshape(len(lanes), *whole.shape[1:])
    return whole
