"""rollout(): play tasks with a policy, several at once, and keep what came of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from paddock.agentic.rollouts.asking import Asking, Policy
from paddock.agentic.rollouts.crew import Crew
from paddock.agentic.rollouts.playing import Job
from paddock.agentic.rollouts.progress import Tally, reporting
from paddock.agentic.rollouts.result import Rollouts
from paddock.agentic.rollouts.supply import Supply
from paddock.agentic.rollouts.work import work_of
from paddock.core.env import Env
from paddock.core.problem import kind
from paddock.core.spec import EnvSpec
from paddock.errors import PlanError
from paddock.record.trace.writer import TraceWriter
from paddock.seeding import to_seed

DEFAULT_CONCURRENCY = 8


def rollout(
    env_or_id: Any,
    policy: Policy,
    tasks: Any = None,
    *,
    concurrency: int | None = None,
    attempts: int = 1,
    timeout_s: float | None = 600.0,
    max_turns: int | None = None,
    seed: int = 0,
    trace: str | os.PathLike[str] | None = None,
    progress: bool = True,
    make_env: Callable[[Any], Env[Any, Any]] | None = None,
) -> Rollouts:
    """Play each of the ``tasks`` ``attempts`` times, ``concurrency`` (8) of them at once.

    ``env_or_id``: an id, a path, a URL, an EnvSpec, a function or class that makes environments, or an environment,
    which plays one rollout at a time. ``make_env`` makes one of a target in place of ``paddock.make``.
    ``policy(turn)``, plain or async, returns an action; in an environment of tools also text, or an assistant's message
    with tool calls, each of which is a step. It is called from several threads at once.
    ``tasks``: the name of a split, a count, or a list of indices, of (split, index) or of rows; None for all of the
    first split. For an environment without tasks: a count, or a list of seeds.
    ``timeout_s``: for one rollout; then it is an error, and its environment is left behind and replaced.
    ``max_turns``: how often the policy is asked in one rollout; None for no limit, so that a policy which repeats a
    mistake goes on until ``timeout_s``. ``trace``: where to record all steps, as JSON lines.
    ``progress``: a bar on stderr; where that is not a terminal, a line every 10 seconds.

    A rollout that fails is kept with its error and without a reward. The same ``seed`` gives the same episodes.

    >>> import paddock
    >>> from paddock.agentic import rollout
    >>> done = rollout("CartPole-v1", lambda turn: turn.number % 2, tasks=3, concurrency=2)
    >>> [one.total_return for one in done]
    [39.0, 48.0, 27.0]
    """
    _check(policy, attempts=attempts, timeout_s=timeout_s, max_turns=max_turns, concurrency=concurrency)
    supply, name, most = _supply(env_or_id, make_env, concurrency)
    plan = partial(_jobs, tasks=tasks, seed=to_seed(seed), attempts=attempts)
    tally = Tally()
    with (
        nullcontext() if trace is None else TraceWriter(trace) as writer,
        Crew(
            supply,
            Asking(policy),
            plan,
            concurrency=most,
            timeout_s=timeout_s,
            max_turns=max_turns,
            trace=writer,
            name=name,
        ) as crew,
        reporting(crew.begin(), progress) as show,
    ):
        for news in crew.results():
            for one in news:
                tally.add(one.total_return, one.turns)
            tally.under_way = crew.turns_under_way()
            show(tally)
    return Rollouts(crew.in_order(), seed=seed)


def _jobs(env: Env[Any, Any], *, tasks: Any, seed: int, attempts: int) -> list[Job]:
    work = work_of(env, tasks, seed)
    return [
        Job(place * attempts + attempt, place, attempt, one)
        for place, one in enumerate(work)
        for attempt in range(attempts)
    ]


def _supply(given: Any, make_env: Any, concurrency: int | None) -> tuple[Supply, str | None, int]:
    """Where environments come from, the name that a trace gives them, and how many there may be."""
    if isinstance(given, Env):
        if concurrency not in (None, 1) or make_env is not None:
            raise PlanError(
                f"concurrency={concurrency}: one environment plays one rollout at a time. Pass concurrency=1, or its "
                f"id or a function that makes such environments."
            )
        return Supply(None, given), None, 1
    most = DEFAULT_CONCURRENCY if concurrency is None else concurrency
    if isinstance(given, (str, os.PathLike, EnvSpec)):
        make = _make if make_env is None else make_env
        return Supply(partial(_checked, partial(make, given))), _name_of(given), most
    if not callable(given):
        raise PlanError(
            f"{type(given).__name__} is no environment. Expected an id, a path, a URL, an EnvSpec, a function that "
            f"makes environments, or an environment."
        )
    return Supply(partial(_checked, given if make_env is None else partial(make_env, given))), None, most


def _make(target: Any) -> Env[Any, Any]:
    import paddock  # the public door: what stands behind it is above this layer

    return paddock.make(target)


def _checked(make: Callable[[], Any]) -> Env[Any, Any]:
    env = make()
    if not isinstance(env, Env):
        raise PlanError(f"What makes the environments returned {kind(env)}; expected a paddock.Env.")
    return env


def _name_of(target: Any) -> str | None:
    """The target as a trace shows it: without the token that a URL may hold, and without this machine's folders."""
    if isinstance(target, EnvSpec):
        return target.id
    text = str(target)
    if "://" in text:
        parts = urlsplit(text)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return Path(text).name if isinstance(target, os.PathLike) or text.startswith((".", "/", "~")) else text


def _check(policy: Any, *, timeout_s: float | None, **counts: int | None) -> None:
    if not callable(policy):
        raise PlanError(f"policy={policy!r:.80}: expected a function of a turn.")
    if timeout_s is not None and not (isinstance(timeout_s, (int, float)) and 0 < timeout_s < float("inf")):
        raise PlanError(f"timeout_s={timeout_s!r}: expected a positive number of seconds, or None.")
    for name, count in counts.items():
        optional = count is None and name != "attempts"
        if not optional and (type(count) is not int or count < 1):
            raise PlanError(f"{name}={count!r}: expected a count of 1 or more.")
