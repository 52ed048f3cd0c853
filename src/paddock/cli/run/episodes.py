"""Play episodes and count. Nothing is printed here; what the environment raises ends the command with its place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from paddock.cli.output import environment_code, mistake
from paddock.core.env import Env, Info
from paddock.core.vector_env import VectorEnv
from paddock.errors import NoCanonicalForm
from paddock.making import make_vec
from paddock.record import TrajectoryDigest
from paddock.record.digest import ABOUT_LANES
from paddock.record.trace.writer import EpisodeWriter, Opening, TraceWriter
from paddock.spaces import concatenate, create_empty_array, iterate
from paddock.wrappers.vector import info_list

if TYPE_CHECKING:
    from paddock.bench.statistics import Figures


class Episode(NamedTuple):
    """How one episode went."""

    seed: int
    total_return: float
    length: int
    ended: str


class Play(NamedTuple):
    """Episodes, the time spent inside the environment, and the digest of all that passed, or why there is none.

    ``interrupted``: by Ctrl-C, in an episode that is not among them.
    """

    episodes: list[Episode]
    seconds: float
    digest: str | None
    no_digest: str | None
    interrupted: bool = False

    @property
    def steps(self) -> int:
        """Steps of all episodes."""
        return sum(episode.length for episode in self.episodes)

    @property
    def steps_per_second(self) -> float:
        """Steps by the time spent in reset and step; the policy and the digest do not count."""
        return self.steps / self.seconds if self.seconds else 0.0

    def figures(self, salt: str) -> Figures | None:
        """Return the statistics of the returns, if there are any. Without a digest ``salt`` seeds the intervals."""
        from paddock.bench.statistics import describe

        returns = [episode.total_return for episode in self.episodes]
        return describe(returns, digest=self.digest or salt) if returns else None


def play(
    env: Env[Any, Any],
    policy: PolicyMaker,
    *,
    seed: int,
    episodes: int = 1,
    on_episode: Callable[[int], None] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> Play:
    """Play; episode i begins with ``seed + i``. The callbacks get the number of episodes, or steps, so far."""
    player = _Player(env, on_step)
    with environment_code(lambda: "the action space"):
        player.choose = policy(env, seed)
    done: list[Episode] = []
    try:
        for number in range(episodes):
            done.append(player.episode(seed + number))
            if on_episode is not None:
                on_episode(number + 1)
    except KeyboardInterrupt:
        return Play(done, player.seconds, None, "the run was interrupted", interrupted=True)
    return Play(done, player.seconds, player.digest(), player.no_digest)


class _Player:
    """The loop over one environment, and what it sums up."""

    choose: Choose

    def __init__(self, env: Env[Any, Any], on_step: Callable[[int], None] | None) -> None:
        self._env, self._on_step = env, on_step
        self._digest = TrajectoryDigest()
        self.no_digest: str | None = None
        self.seconds = 0.0

    def episode(self, seed: int) -> Episode:
        length = 0
        with environment_code(lambda: f"step {length + 1} of the episode with seed {seed}"):
            seen = self._begin(seed)
            total, ended = 0.0, ""
            while not ended:
                seen, reward, ended = self._step(*seen)
                total += reward
                length += 1
                if self._on_step is not None:
                    self._on_step(length)
        return Episode(seed, total, length, ended)

    def digest(self) -> str | None:
        return None if self.no_digest is not None else self._digest.hexdigest()

    def _begin(self, seed: int) -> tuple[Any, Any]:
        with environment_code(lambda: f"reset with seed {seed}"):
            began = perf_counter()
            observation, info = self._env.reset(seed=seed)
            self.seconds += perf_counter() - began
            self._record(self._digest.reset, seed, observation)
            return observation, info

    def _step(self, observation: Any, info: Any) -> tuple[tuple[Any, Any], float, str]:
        action = self.choose(observation, info)
        began = perf_counter()
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.seconds += perf_counter() - began
        self._record(self._digest.step, action, observation, reward, terminated, truncated)
        return (observation, info), float(reward), _ENDED[bool(terminated), bool(truncated)]

    def _record(self, add: Callable[..., None], *values: Any) -> None:
        if self.no_digest is None:
            try:
                add(*values)
            except NoCanonicalForm as error:  # such an environment can be run, but its runs can't be compared
                self.no_digest = str(error)


def play_lanes(
    lanes: VectorEnv[Any, Any, Any],
    policy: PolicyMaker,
    *,
    seed: int,
    episodes: int,
    trace: TraceWriter | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> Play:
    """Play the same seeds in n lanes; lane k's policy has the seed ``seed + k``.

    The digest is over those of the episodes, in their order.
    """
    player = _LanePlayer(lanes, seed, episodes, trace)
    with environment_code(lambda: "the action space"):
        ones: list[Any] = [_OneLaneOf(lanes) for _ in range(lanes.num_envs)]
        player.choose = [policy(one, seed + lane) for lane, one in enumerate(ones)]
    try:
        with environment_code(lambda: f"step {player.steps} of {lanes.num_envs} lanes"):
            for _ in player.run():
                if on_episode is not None:
                    on_episode(len(player.done))
    except KeyboardInterrupt:
        return Play(player.in_order(), player.seconds, None, "the run was interrupted", interrupted=True)
    return Play(player.in_order(), player.seconds, player.digest(), player.no_digest)


class _OneLaneOf:
    """What policies and traces need to know of an environment, for one lane of a batch. It can't be played."""

    def __init__(self, lanes: VectorEnv[Any, Any, Any]) -> None:
        self.observation_space = lanes.single_observation_space
        self.action_space = deepcopy(lanes.single_action_space)
        self.unwrapped = lanes.unwrapped
        self.spec = lanes.spec
        if self.spec is not None:
            kwargs = {name: value for name, value in self.spec.kwargs.items() if name not in ABOUT_LANES}
            self.spec = replace(self.spec, kwargs=kwargs)


class _LanePlayer:
    """The loop over n lanes, each of which begins the next episode when its own has ended."""

    choose: list[Choose]

    def __init__(self, lanes: VectorEnv[Any, Any, Any], seed: int, episodes: int, trace: TraceWriter | None) -> None:
        self._lanes, self._seed, self._episodes, self._trace = lanes, seed, episodes, trace
        self._one: Any = _OneLaneOf(lanes)
        self._next = 0
        self._running: list[_Running | None] = [None] * lanes.num_envs
        self.done: dict[int, tuple[Episode, TrajectoryDigest]] = {}
        self.no_digest: str | None = None
        self.seconds, self.steps = 0.0, 0

    def run(self) -> Iterator[None]:
        """Play all; yields after each episode."""
        ended = np.ones(self._lanes.num_envs, bool)
        seen: list[Any] = []
        infos: list[Any] = []
        while len(self.done) < self._episodes:
            if ended.any():
                seen, infos = self._begin(ended)
            actions = [choose(one, info) for choose, one, info in zip(self.choose, seen, infos, strict=True)]
            space = self._lanes.single_action_space
            batch = concatenate(space, actions, create_empty_array(space, self._lanes.num_envs))
            began = perf_counter()
            observations, rewards, terminated, truncated, raw = self._lanes.step(batch)
            self.seconds += perf_counter() - began
            self.steps += 1
            seen, infos = self._split(observations, raw)
            ended = terminated | truncated
            for lane, running in enumerate(self._running):
                result = seen[lane], float(rewards[lane]), bool(terminated[lane]), bool(truncated[lane])
                if running is not None:
                    self._record(running, running.digest.step, actions[lane], *result)
                    running.step(actions[lane], *result, infos[lane])
                    if ended[lane]:
                        self.done[running.number] = running.episode(result[2:]), running.digest
                        self._running[lane] = None
                        yield

    def in_order(self) -> list[Episode]:
        return [self.done[number][0] for number in sorted(self.done)]

    def digest(self) -> str | None:
        if self.no_digest is not None:
            return None
        digests = [bytes.fromhex(self.done[number][1].hexdigest()) for number in sorted(self.done)]
        return hashlib.sha256(b"".join(digests)).hexdigest()

    def _begin(self, ended: Any) -> tuple[list[Any], list[Any]]:
        """Reset the lanes that ended. One for which no episode is left plays on, and nobody looks."""
        fresh = np.flatnonzero(ended).tolist()[: self._episodes - self._next]
        seeds: Any = [None] * len(ended)  # a seed for each lane, which the signature of Gymnasium doesn't mention
        for lane in fresh:
            seeds[lane] = self._seed + self._next
            self._running[lane] = _Running(self._next, self._seed + self._next)
            self._next += 1
        began = perf_counter()
        options = None if ended.all() else {"reset_mask": ended}
        observations, raw = self._lanes.reset(seed=seeds, options=options)
        self.seconds += perf_counter() - began
        seen, infos = self._split(observations, raw)
        for lane in fresh:
            running = self._running[lane]
            assert running is not None
            self._record(running, running.digest.reset, running.seed, seen[lane])
            if self._trace is not None:
                running.begin(self._trace, self._one, seen[lane], infos[lane])
        return seen, infos

    def _split(self, observations: Any, infos: Any) -> tuple[list[Any], list[Any]]:
        rows = [deepcopy(one) for one in iterate(self._lanes.observation_space, observations)]
        return rows, info_list(infos, self._lanes.num_envs)

    def _record(self, running: _Running, add: Callable[..., None], *values: Any) -> None:
        if self.no_digest is None:
            try:
                add(*values)
            except NoCanonicalForm as error:
                self.no_digest = str(error)


class _Running:
    """An episode that a lane plays."""

    def __init__(self, number: int, seed: int) -> None:
        self.number, self.seed = number, seed
        self.digest = TrajectoryDigest()
        self._total, self._length = 0.0, 0
        self._writer: EpisodeWriter | None = None

    def begin(self, trace: TraceWriter, lane: Any, observation: Any, info: Info) -> None:
        self._writer = trace.begin(Opening.of(lane, seed=self.seed), number=self.number)
        self._writer.reset(observation, info)

    def step(self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool, info: Info) -> None:
        self._total, self._length = self._total + reward, self._length + 1
        if self._writer is not None:
            self._writer.step(action, observation, reward, terminated, truncated, info)
            if terminated or truncated:
                self._writer.end()

    def episode(self, flags: Any) -> Episode:
        return Episode(self.seed, self._total, self._length, _ENDED[flags])


_ENDED = {
    (False, False): "",
    (True, False): "terminated",
    (False, True): "truncated",
    (True, True): "terminated and truncated",
}


Choose: TypeAlias = Callable[[Any, Any], Any]  # an action for an observation and its info; not the wall's Policy
PolicyMaker: TypeAlias = "Callable[[Env[Any, Any], int], Choose]"


def random_policy(env: Env[Any, Any], seed: int) -> Choose:
    """Sample the action space, whose stream starts at ``seed``, within the mask of the info if there is one."""
    from paddock.testing.probes import sample_allowed

    actions = env.action_space
    actions.seed(seed)
    return lambda observation, info: sample_allowed(actions, info)


POLICIES: dict[str, PolicyMaker] = {"random": random_policy}


@contextmanager
def open_policy(name: str, isolation: str | None) -> Iterator[PolicyMaker]:
    """Yield the policy of this name, or of a Python file, whose agent runs behind a wall until the block ends."""
    if name in POLICIES:
        if isolation is not None:
            raise mistake(f"--policy-isolation applies to agents in a file; {name!r} is paddock's own.")
        yield POLICIES[name]
        return
    if not name.endswith(".py"):
        raise mistake(f"--policy {name}: expected one of {', '.join(sorted(POLICIES))}, or a file such as ./agent.py.")
    if not Path(name).is_file():
        raise mistake(f"--policy {name}: there is no such file.")
    agents: list[Any] = []

    def agent(env: Env[Any, Any], seed: int) -> Choose:
        from paddock.making.agents import make_agent

        one = make_agent(name, env.observation_space, env.action_space, seed=seed, isolation=isolation)
        agents.append(one)
        return lambda observation, info: one(observation)

    try:
        yield agent
    finally:
        for one in agents:
            if hasattr(one, "close"):
                one.close()


class FirstLane(Env[Any, Any]):
    """Lane 0 of a batch as one environment, for the demo. All lanes take its actions, and have seeds of their own."""

    def __init__(self, target: str, num_envs: int) -> None:
        self._lanes = make_vec(target, num_envs=num_envs)
        self.observation_space = self._lanes.single_observation_space
        self.action_space = self._lanes.single_action_space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, _ = self._lanes.reset(seed=seed, options=options)
        return observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        actions = np.full(self._lanes.num_envs, action)
        observations, rewards, terminated, truncated, _ = self._lanes.step(actions)
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def close(self) -> None:
        self._lanes.close()
