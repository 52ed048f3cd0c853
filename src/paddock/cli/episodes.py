"""Play episodes and count. Knows nothing of printing; what the environment raises ends the command with its place."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.failures import environment_code
from paddock.cli.policies import Choose, PolicyMaker
from paddock.errors import NoCanonicalForm
from paddock.record import TrajectoryDigest

if TYPE_CHECKING:
    from paddock.core.env import Env


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
    """Play; episode i begins with ``seed + i``. The callbacks hear how many episodes, or steps of one, are done."""
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
