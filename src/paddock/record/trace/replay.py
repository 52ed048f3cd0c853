"""Run recorded episodes again, and find where they differ. Infos are compared only with ``infos=True``.

They may hold clocks and names, and no agent is graded by them. Floats compare by their bits: -0.0 is not 0.0, and a NaN
equals itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.values import Dropped, Outside, canonical_bytes
from paddock.errors import InvalidTrace, NoCanonicalForm
from paddock.record.digest import known_digests
from paddock.record.trace.reader import Episode, Forms, TraceReader
from paddock.record.trace.values import as_lists, free_form, member, member_form, unfold
from paddock.record.trace.writer import describe_error
from paddock.spaces import Space


@dataclass(frozen=True)
class Difference:
    """Where a replay differs. ``step`` 0 is the reset.

    ``field`` is observation, reward, terminated, truncated, info or error; ``place`` is where in it, as in ``[2]`` or
    ``.content[0].text``, and empty for the whole.
    """

    episode: int
    step: int
    field: str
    place: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        when = "the reset" if self.step == 0 else f"step {self.step}"
        return (
            f"episode {self.episode}, {when}: {self.field}{self.place} was {self.recorded!r:.200} "
            f"and is {self.replayed!r:.200}"
        )


@dataclass(frozen=True)
class Replay:
    """How many episodes and steps were the same, and the first ``difference``, where the replay stopped.

    ``other_environment``: a sentence if the digest of the environment is not the recorded one. It may still behave the
    same: an environment behind a wall, for example, does not say which code it runs.
    """

    episodes: int
    steps: int
    difference: Difference | None
    other_environment: str | None = field(default=None, repr=False)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None


def replay(
    trace: Episode | Iterable[Episode] | str | os.PathLike[str], env: Env[Any, Any], *, infos: bool = False
) -> Replay:
    """Give ``env`` the seeds, options and actions of ``trace``, and compare. The environment stays open.

    An episode that began without a seed is an InvalidTrace: it can't be repeated. One that an error ended is run up to
    the error.

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
    known: tuple[str, ...] = ()
    if env.spec is not None:
        with suppress(NoCanonicalForm):  # a function among its arguments has no digest
            known = known_digests(env.spec)
    for episode in _episodes(trace):
        if other is None and known and episode.digest not in (None, *known):
            was = f"Episode {episode.number} was recorded from {episode.env} with digest {episode.digest}"
            other = f"{was}; this environment's is {known[0]}."
        again = _Rerun(env, episode, infos)
        for found in again.run():
            if found is not None:
                return Replay(episodes, steps + again.steps, found, other)
        episodes, steps = episodes + 1, steps + again.steps
    return Replay(episodes, steps, None, other)


def _episodes(trace: Any) -> Iterable[Episode]:
    if isinstance(trace, (str, os.PathLike)):
        return TraceReader(trace)
    return (trace,) if isinstance(trace, Episode) else trace


class _Rerun:
    """One episode, run again. ``steps``: how many were the same."""

    def __init__(self, env: Env[Any, Any], episode: Episode, infos: bool) -> None:
        if episode.seed is None:
            raise InvalidTrace(
                f"Episode {episode.number} began without a seed, so it can't be repeated. Record with seeds."
            )
        self._env, self._episode, self._infos = env, episode, infos
        # Values compare in the form of the trace, which is the same for a record of another class.
        self._typed = episode.observation_space is not None
        self.steps = 0

    def run(self) -> Iterator[Difference | None]:
        episode = self._episode
        if episode.forms is None:  # its reset failed
            return
        try:
            observation, info = self._env.reset(seed=episode.seed, options=episode.options)
        except Exception as error:
            yield self._difference(0, "error", "", None, ": ".join(describe_error(error)))
            return
        yield self._compare(0, episode.forms, observation, episode.info or {}, info)
        for at, step in enumerate(episode.steps, 1):
            try:
                result = self._env.step(self._action(step.forms, step.action))
            except Exception as error:
                yield self._difference(at, "error", "", None, ": ".join(describe_error(error)))
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
        """The action as this environment's own space has it: a record of its own class."""
        if self._episode.action_space is None or isinstance(forms.action, Outside):
            return action
        return member(self._env.action_space, forms.action)

    def _compare(self, at: int, forms: Forms, observation: Any, was: Any, info: Any) -> Difference | None:
        space: Space[Any] | None = self._env.observation_space if self._typed else None
        now = unfold(member_form(space, observation, _as_is, "observation"), _as_is)
        found = first_difference(forms.observation, now)
        if found is not None:
            return self._difference(at, "observation", *found)
        if self._infos:
            found = first_difference(was, unfold(free_form(dict(info), _as_is, "info", drop=True), _as_is))
        return None if found is None else self._difference(at, "info", *found)

    def _difference(self, at: int, field: str, place: str, was: Any, now: Any) -> Difference:
        return Difference(self._episode.number, at, field, place, was, now)


def _as_is(array: Any) -> Any:
    """Keep an array in place: nothing is written."""
    return array


def first_difference(one: Any, other: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """(place, the first's value there, the second's), or None if they are the same."""
    if isinstance(one, Outside) and isinstance(other, Outside):
        return first_difference(one.value, other.value, place)
    if isinstance(one, Dropped) and isinstance(other, Dropped):
        return None  # neither is known
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _of_arrays(one, other, place)
    one, other = as_lists(one), as_lists(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return _of_dicts(one, other, place)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{place}.length", len(one), len(other)
        parts = (first_difference(a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
        return next((found for found in parts if found is not None), None)
    return None if _same(one, other) else (place, one, other)


def _of_arrays(one: Any, other: Any, place: str) -> tuple[str, Any, Any] | None:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return place, f"{one.dtype} of shape {one.shape}", f"{other.dtype} of shape {other.shape}"
    size = one.dtype.itemsize
    rows = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size) for array in (one, other)]
    unequal = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    if not len(unequal):
        return None
    at = np.unravel_index(unequal[0], one.shape) if one.shape else ()
    return place + "".join(f"[{int(index)}]" for index in at), one[at].item(), other[at].item()


def _of_dicts(one: dict[Any, Any], other: dict[Any, Any], place: str) -> tuple[str, Any, Any] | None:
    for key in {**one, **other}:
        name = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r:.60}]"
        if key not in one or key not in other:
            return place + name, one.get(key, "nothing"), other.get(key, "nothing")
        found = first_difference(one[key], other[key], place + name)
        if found is not None:
            return found
    return None


def _same(one: Any, other: Any) -> bool:
    try:
        return canonical_bytes(one) == canonical_bytes(other)
    except NoCanonicalForm:
        return type(one) is type(other) and bool(one == other)
