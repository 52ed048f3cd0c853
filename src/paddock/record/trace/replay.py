"""Run recorded episodes again, and say where they went another way. Infos are not compared unless asked for.

They may hold clocks and names, and no agent is graded by them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from paddock.core.env import Env
from paddock.errors import InvalidTrace
from paddock.record.trace.compare import Difference, first_difference
from paddock.record.trace.episode import Episode, Forms
from paddock.record.trace.opening import Opening
from paddock.record.trace.reader import TraceReader
from paddock.record.trace.recorder import told
from paddock.record.trace.values import Outside, free_form, member, member_form, unfold
from paddock.spaces import Space


@dataclass(frozen=True)
class Replay:
    """How many episodes and steps were the same, and the first ``difference``, after which nothing was run.

    ``other_environment``: a sentence if the digest of the environment is not the one that was recorded. It may behave
    the same all the same: a wall, for one, tells nothing of the code behind it.
    """

    episodes: int
    steps: int
    difference: Difference | None
    other_environment: str | None = field(default=None, repr=False)

    @property
    def same(self) -> bool:
        """Whether all of it was."""
        return self.difference is None


def replay(
    trace: Episode | Iterable[Episode] | str | os.PathLike[str], env: Env[Any, Any], *, infos: bool = False
) -> Replay:
    """Give ``env`` the seeds, options and actions of ``trace``; the environment stays open.

    An episode that began without a seed is an InvalidTrace: nothing says how it has to go. One that an error ended is
    run up to there.

    >>> import paddock, tempfile
    >>> from paddock.record.trace import Recorder, replay
    >>> path = tempfile.mkdtemp() + "/cartpole.jsonl"
    >>> with Recorder(paddock.make("CartPole-v1"), path) as env:
    ...     _ = env.reset(seed=1), env.step(0), env.step(1)
    >>> replay(path, paddock.make("CartPole-v1"))
    Replay(episodes=1, steps=2, difference=None)
    """
    episodes = steps = 0
    other: str | None = None
    given = Opening.of(env, seed=None).digest
    for episode in _episodes(trace):
        if other is None and None not in (given, episode.digest) and given != episode.digest:
            was = f"Episode {episode.number} was recorded from {episode.env} with digest {episode.digest}"
            other = f"{was}; this environment's is {given}."
        again = _Again(env, episode, infos)
        for found in again.run():
            if found is not None:
                return Replay(episodes, steps + again.steps, found, other)
        episodes, steps = episodes + 1, steps + again.steps
    return Replay(episodes, steps, None, other)


def _episodes(trace: Any) -> Iterable[Episode]:
    if isinstance(trace, (str, os.PathLike)):
        return TraceReader(trace)
    return (trace,) if isinstance(trace, Episode) else trace


class _Again:
    """One episode, run again; ``steps`` of it were the same."""

    def __init__(self, env: Env[Any, Any], episode: Episode, infos: bool) -> None:
        if episode.seed is None:
            raise InvalidTrace(
                f"Episode {episode.number} began without a seed, so nothing says how it has to go. Record with seeds."
            )
        self._env, self._episode, self._infos = env, episode, infos
        # Compared in the form of the trace: what was recorded by another class has the same form.
        self._typed = episode.observation_space is not None
        self.steps = 0

    def run(self) -> Iterator[Difference | None]:
        episode = self._episode
        if episode.forms is None:  # its reset failed
            return
        try:
            observation, info = self._env.reset(seed=episode.seed, options=episode.options)
        except Exception as error:
            yield self._difference(0, "error", "", None, ": ".join(told(error)))
            return
        yield self._compare(0, episode.forms, observation, episode.info or {}, info)
        for at, step in enumerate(episode.steps, 1):
            try:
                result = self._env.step(self._action(step.forms, step.action))
            except Exception as error:
                yield self._difference(at, "error", "", None, ": ".join(told(error)))
                return
            yield self._compare(at, step.forms, result[0], step.info, result[4])
            for name, was, now in (
                ("reward", step.reward, float(result[1])),
                ("terminated", step.terminated, bool(result[2])),
                ("truncated", step.truncated, bool(result[3])),
            ):
                if first_difference(was, now) is not None:
                    yield self._difference(at, name, "", was, now)
            self.steps += 1

    def _action(self, forms: Forms, action: Any) -> Any:
        """The action as this environment's own space has it: a record of its class."""
        if self._episode.action_space is None or isinstance(forms.action, Outside):
            return action
        return member(self._env.action_space, forms.action)

    def _compare(self, at: int, forms: Forms, observation: Any, was: Any, info: Any) -> Difference | None:
        space: Space[Any] | None = self._env.observation_space if self._typed else None
        now = unfold(member_form(space, observation, _kept, "observation"), _kept)
        found = first_difference(forms.observation, now)
        if found is not None:
            return self._difference(at, "observation", *found)
        if self._infos:
            found = first_difference(was, unfold(free_form(dict(info), _kept, "info", drop=True), _kept))
        return None if found is None else self._difference(at, "info", *found)

    def _difference(self, at: int, field: str, place: str, was: Any, now: Any) -> Difference:
        return Difference(self._episode.number, at, field, place, was, now)


def _kept(array: Any) -> Any:
    """An array stands for itself: nothing is written."""
    return array
