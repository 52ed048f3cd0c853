"""EnvPoolLanes: EnvPool's environments, n at a time in threads of its own, as a VectorEnv.

EnvPool takes seeds only where a pool is made, and warns of any other. So ``reset(seed=…)`` makes a new pool: it is
exact, and takes as long as making the environments does. After the end of an episode EnvPool ignores the next action
and begins anew, which is NEXT_STEP; it knows no other mode.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from paddock.core.env import Info
from paddock.core.lane_arguments import held_lanes, lane_seeds, reset_mask
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
from paddock.sources.batched_actions import admitted
from paddock.sources.borrowed import Borrowed
from paddock.sources.envpool_arrays import as_space, known_bounds, with_rows
from paddock.sources.families import installed_family
from paddock.spaces.batch import batch_space, row

Array = np.ndarray[Any, Any]

_METADATA = {"render_modes": ["rgb_array", "human"], "autoreset_mode": AutoresetMode.NEXT_STEP}
_NO_LIMIT = (1 << 31) - 1
_SEEDS = 1 << 31  # EnvPool's are of 32 bits, with a sign
_NOT_NEWS = ("env_id", "players")  # which lane it is: the row says so
_OURS = {
    "seed": "reset(seed=…)",
    "env_seed": "reset(seed=[…])",
    "batch_size": "all lanes, in step",
    "env_type": "paddock's own",
    "gym_reset_return_info": "always so",
    "max_num_players": "one a lane",
}


def spec_of(id: str) -> EnvSpec:
    """Ours for a task of EnvPool's."""
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
    """``num_envs`` lanes of a task of EnvPool's. Other arguments are EnvPool's, ``num_threads`` for one.

    Actions are always validated: EnvPool would read memory by them. Results are EnvPool's own arrays, uncopied, but for
    what has another dtype than its space; rewards: float64[n]; terminations, truncations: bool[n].
    """

    metadata: dict[str, Any] = _METADATA
    takes_lane_options: ClassVar[bool] = False  # the threads are as many as EnvPool finds right, unless one says

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
        _check(task, AutoresetMode(autoreset_mode), statistics, arguments)
        self.num_envs, self.render_mode, self.task = num_envs, render_mode, task
        if threads is not None:
            arguments["num_threads"] = threads
        arguments["max_episode_steps"] = _NO_LIMIT if max_episode_steps is None else max_episode_steps
        self._arguments = {**arguments, "num_envs": num_envs}
        theirs = _task_spec(task, self._arguments)
        with _no_words_about_bounds():
            self.single_observation_space = known_bounds(theirs.gymnasium_observation_space)
            self.single_action_space = known_bounds(theirs.gymnasium_action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.copy = copy
        self._pool: Any = None
        self._seen: Any = None
        self._all, self._none = np.ones(num_envs, np.bool_), np.zeros(num_envs, np.bool_)
        self._steps, self._episodes = np.zeros(num_envs, np.int32), np.zeros(num_envs, np.int64)
        self._ended = self._none
        self._held: Array | None = None  # the lanes that move, where some do not
        self._name = uuid4().hex

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self.closed:
            raise ClosedEnvironmentError("This environment is closed. Make a new one.")
        mask, _ = reset_mask(options, self.num_envs, begun=self._pool is not None)
        if self._sent is not None:
            self._pool.recv()  # what nobody came for
        self._sent, self._held = None, None
        if seed is not None or self._pool is None:
            self._make_pool(lane_seeds(seed, self.num_envs), mask)
            if seed is not None and not isinstance(seed, (list, tuple, np.ndarray)):
                self._np_random, self._np_random_seed = np_random(seed)  # type: ignore[arg-type]
        lanes = np.flatnonzero(mask).astype(np.int32)
        seen, told = self._pool.reset(lanes)
        self._episodes[lanes] += 1
        self._ended = self._ended & ~mask
        return self._taken(seen, lanes), self._told(told, lanes, mask)

    def _make_pool(self, seeds: list[int | None], mask: Array) -> None:
        if not mask.all():
            raise InvalidSeed(
                "EnvPool takes seeds only where all lanes begin. Drop the seed, or options['reset_mask']."
            )
        drawn = self.np_random.integers(_SEEDS, size=self.num_envs).tolist() if None in seeds else seeds
        chosen = [new if old is None else old for old, new in zip(seeds, drawn, strict=True)]
        if max(chosen) >= _SEEDS:
            raise InvalidSeed(f"EnvPool's seeds are below 2**31, and a lane has {max(chosen)}. Choose a smaller seed.")
        import envpool

        self._pool = None  # its threads end before others begin
        rendering = {} if self.render_mode is None else {"render_mode": self.render_mode}
        self._pool = envpool.make(self.task, env_type="gymnasium", seed=chosen, **rendering, **self._arguments)
        with _no_words_about_bounds():
            self._pool.observation_space  # noqa: B018 - made when first asked for, and that is now
        self._ended = self._none

    def send(self, actions: Any) -> None:
        if self._pool is None:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        self._sent = admitted(self, actions)
        if self._held is None:
            self._pool.send(self._sent)
        else:
            self._pool.send(self._sent[self._held], self._held)

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._take_sent()
        lanes, self._held = self._held, None
        seen, rewards, terminations, truncations, told = self._pool.recv()
        if lanes is None:
            self._episodes += self._ended
            self._ended = terminations | truncations
            rewards = rewards.astype(np.float64)
            return self._taken(seen, None), rewards, terminations, truncations, self._told(told, None, self._all)
        moved = self._none.copy()
        moved[lanes] = True
        self._episodes += self._ended & moved
        rewards, terminations, truncations = (
            with_rows(np.zeros(self.num_envs, dtype), lanes, part)
            for part, dtype in ((rewards, np.float64), (terminations, np.bool_), (truncations, np.bool_))
        )
        self._ended = (self._ended & ~moved) | terminations | truncations
        return self._taken(seen, lanes), rewards, terminations, truncations, self._told(told, lanes, moved)

    def hold(self, lanes: Array) -> None:
        held = held_lanes(lanes, self.num_envs)
        if len(held) == self.num_envs:
            raise InvalidLanes("hold() leaves no lane that moves. Do not step then.")
        self._held = np.flatnonzero(~lanes).astype(np.int32) if held else None

    def _taken(self, seen: Any, lanes: Array | None) -> Any:
        if lanes is None or len(lanes) == self.num_envs:
            self._seen = as_space(self.observation_space, seen)
        else:
            self._seen = with_rows(self._seen, lanes, as_space(None, seen))
        return self._seen

    def _told(self, told: Info, lanes: Array | None, mask: Array) -> Info:
        if lanes is None:
            self._steps = told["elapsed_step"]
        else:
            self._steps = with_rows(self._steps, lanes, told["elapsed_step"])
        whole = lanes is None or len(lanes) == self.num_envs
        infos: Info = {}
        for key, value in told.items():
            if key not in _NOT_NEWS:
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
        """Where the lanes' names come from, in place of chance."""
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


class EnvPoolEnv(Borrowed):
    """One environment of EnvPool's: a pool of one lane. For wrappers, walls and servers; a pool of many is faster."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # paddock shows them: EnvPool needs OpenCV for that

    def __init__(self, task: str, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__(EnvPoolLanes(task, 1, render_mode=render_mode, **{"num_threads": 1, **arguments}))
        self.render_mode = render_mode
        self.observation_space = self.inner.single_observation_space
        self.action_space = self.inner.single_action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seen, infos = self.inner.reset(seed=self._seed_now(seed), options=options)
        return row(self.observation_space, seen, 0), _own(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        # The guard has looked at it; as an array of one it is looked at again, for EnvPool reads memory by it.
        seen, rewards, terminations, truncations, infos = self.inner.step(np.asarray(action)[None])
        ended = bool(terminations[0]), bool(truncations[0])
        return row(self.observation_space, seen, 0), float(rewards[0]), *ended, _own(infos)

    def render(self) -> Any:
        frames = self.inner.render()
        return None if frames is None else frames[0]


def _own(infos: Info) -> Info:
    return {key: value[0] for key, value in infos.items() if not key.startswith("_") and isinstance(value, np.ndarray)}


@contextmanager
def _no_words_about_bounds() -> Iterator[None]:
    """Without Gymnasium's warnings that bounds are rounded: nobody but EnvPool could write others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _check(task: str, mode: AutoresetMode, statistics: bool, arguments: Info) -> None:
    for name in arguments:
        if name in _OURS:
            raise PlanError(f"{name}= is not to be passed on to EnvPool: {_OURS[name]}.")
    if mode is not AutoresetMode.NEXT_STEP:
        raise PlanError(
            f"EnvPool begins anew at the step after the end (NextStep) and has no {mode.value}. Pass backend='loop', "
            f"with which each lane of {task!r} is a pool of one."
        )
    if statistics:
        raise PlanError(
            "EnvPool has no statistics of episodes. Wrap the lanes: wrappers.vector.RecordEpisodeStatistics."
        )


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
            f"batch. Lanes here have one each: use envpool.make itself."
        )
    return found
