"""Play episodes and count. Nothing is printed here; what the environment raises ends the command with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from paddock.cli.output import environment_code, mistake
from paddock.core.env import Env, Info
from paddock.errors import NoCanonicalForm
from paddock.making import make_vec
from paddock.record import TrajectoryDigest


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

    @property
    def mean_return(self) -> float | None:
        """The mean of the episodes' returns; None if none has ended."""
        returns = [episode.total_return for episode in self.episodes]
        return sum(returns) / len(returns) if returns else None


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
