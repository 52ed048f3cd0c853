"""Recorder: a wrapper that writes a trace of all that passes. It changes nothing of it, so no spec names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsFloat

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.errors import PaddockError
from paddock.record.trace.opening import Opening
from paddock.record.trace.writer import EpisodeWriter, TraceWriter

if TYPE_CHECKING:
    import os


class Recorder(Wrapper[Any, Any, Any, Any]):
    """Every episode of ``env`` into ``trace``: a path, for a trace that ends with ``close``, or a writer of your own.

    An episode that the environment ends by raising has that as its error; one that is left for another reset simply
    ends there. Give each reset a seed: only then can the episode be replayed.

    >>> import paddock, tempfile
    >>> from paddock.record.trace import Recorder, TraceReader
    >>> path = tempfile.mkdtemp() + "/cartpole.jsonl"
    >>> with Recorder(paddock.make("CartPole-v1"), path) as env:
    ...     observation, info = env.reset(seed=1)
    ...     observation, reward, terminated, truncated, info = env.step(0)
    >>> [(episode.seed, len(episode.steps), episode.total_return) for episode in TraceReader(path)]
    [(1, 1, 1.0)]
    """

    def __init__(self, env: Env[Any, Any], trace: str | os.PathLike[str] | TraceWriter) -> None:
        super().__init__(env)
        self._owned = not isinstance(trace, TraceWriter)
        self._trace = trace if isinstance(trace, TraceWriter) else TraceWriter(trace)
        self._episode: EpisodeWriter | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._end()
        opening = Opening.of(self.env, seed=seed, options=options)
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except BaseException as error:
            self._trace.begin(opening).end(told(error))
            raise
        task = info.get("task")
        if isinstance(task, Mapping) and {"split", "index"} <= task.keys():  # only reset says which task a seed drew
            opening = replace(opening, task=dict(task))
        self._episode = self._trace.begin(opening)
        self._episode.reset(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        try:
            result = self.env.step(action)
        except BaseException as error:
            self._end(error)
            raise
        if self._episode is not None:
            self._episode.step(action, *result)
            if result[2] or result[3]:
                self._end()
        return result

    def close(self) -> None:
        try:
            self._end()
        finally:
            if self._owned:
                self._trace.close()
            self.env.close()

    def _end(self, error: BaseException | None = None) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            episode.end(None if error is None else told(error))

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        return spec


def told(error: BaseException) -> tuple[str, str]:
    """The code and the message of an error, as the end of an episode has them."""
    return (error.code if isinstance(error, PaddockError) else "ENV_ERROR"), f"{type(error).__name__}: {error}"
