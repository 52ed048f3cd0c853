"""Evaluate a policy while it is trained, and record each episode with the number of training steps in a trace.

The trace is like any other: it can be replayed and scored again, and ``paddock bench plot`` draws its curve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paddock.core.env import Env
from paddock.making import make
from paddock.record.trace.writer import EpisodeWriter, Opening, TraceWriter, describe_error

if TYPE_CHECKING:
    import os

    from typing_extensions import Self


class Evaluations:
    """Plays ``episodes`` at each ``evaluate``, in an environment of its own; each episode has the next seed.

    ``target``: what ``make`` takes, or an environment, which stays yours. ``trace``: a new file, sealed by ``close``.

    >>> import paddock, tempfile
    >>> path = tempfile.mkdtemp() + "/training.jsonl"
    >>> with Evaluations("CartPole-v1", path, episodes=2) as evaluations:
    ...     returns = evaluations.evaluate(lambda observation: 0, training_steps=1000)
    >>> len(returns)
    2
    """

    def __init__(
        self,
        target: Any,
        trace: str | os.PathLike[str],
        *,
        episodes: int = 10,
        seed: int = 0,
        about: dict[str, Any] | None = None,
        **make_kwargs: Any,
    ) -> None:
        self._owned = not isinstance(target, Env)
        self._env: Env[Any, Any] = make(target, **make_kwargs) if self._owned else target
        self._episodes, self._next_seed, self._about = episodes, seed, dict(about or {})
        self._round = 0
        try:
            self._trace = TraceWriter(trace, seal=True)
        except BaseException:
            self._close_env()
            raise

    def evaluate(self, policy: Callable[[Any], Any], training_steps: int) -> list[float]:
        """Play, and return the returns. ``policy`` maps an observation to an action."""
        about = {**self._about, "training_steps": int(training_steps), "evaluation": self._round}
        self._round += 1
        return [self._play(policy, about) for _ in range(self._episodes)]

    def close(self) -> None:
        """Seal the trace, and close the environment unless it is yours."""
        self._trace.close()
        self._close_env()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _play(self, policy: Callable[[Any], Any], about: dict[str, Any]) -> float:
        seed, self._next_seed = self._next_seed, self._next_seed + 1
        episode = self._trace.begin(Opening.of(self._env, seed=seed, about=about))
        try:
            total = self._steps(policy, episode, seed)
        except BaseException as error:
            episode.end(describe_error(error))
            raise
        episode.end()
        return total

    def _steps(self, policy: Callable[[Any], Any], episode: EpisodeWriter, seed: int) -> float:
        observation, info = self._env.reset(seed=seed)
        episode.reset(observation, info)
        total, over = 0.0, False
        while not over:
            action = policy(observation)
            observation, reward, terminated, truncated, info = self._env.step(action)
            episode.step(action, observation, reward, terminated, truncated, info)
            total, over = total + float(reward), bool(terminated or truncated)
        return total

    def _close_env(self) -> None:
        if self._owned:
            self._env.close()
