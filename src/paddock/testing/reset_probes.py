"""Probes of reset: each calls the environment and yields what is wrong. They assume nothing but the two spaces."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from paddock.core.env import Env
from paddock.core.problem import Problem, brief
from paddock.core.result_checks import (
    observation_problems,
    parameters_of,
    reset_result_problems,
    seed_default_problems,
    takes_keyword,
)
from paddock.hosting.client import HostedEnv
from paddock.seeding import np_random
from paddock.testing.equivalence import data_equivalence, own_copy

SEED, OTHER_SEED = 123, 456


def reset_result(env: Env[Any, Any]) -> Iterator[Problem]:
    """What ``reset()`` returns."""
    yield from reset_result_problems(env.reset(), env.observation_space)


def reset_options(env: Env[Any, Any]) -> Iterator[Problem]:
    """Whether ``reset`` takes options."""
    if not takes_keyword(env.reset, "options"):
        text = "The `reset` method does not provide an `options` or `**kwargs` keyword argument."
        yield Problem("reset-no-options", text)
        return
    try:
        env.reset(options={})
    except TypeError as error:
        text = (
            "The environment cannot be reset with options, even though `options` or `**kwargs` appear in the signature."
        )
        yield Problem("reset-refuses", f"{text} The error was: {brief(error)}", cause=error)


def old_seed_method(env: Env[Any, Any]) -> Iterator[Problem]:
    """Whether there is a method ``seed``, as in the API before ``reset(seed=...)``."""
    if callable(getattr(env, "seed", None)):
        text = "Official support for the `seed` function is dropped. Environments are seeded by `env.reset(seed=...)`."
        yield Problem("seed-method", text)


def old_return_info(env: Env[Any, Any]) -> Iterator[Problem]:
    """Whether ``reset`` has the parameter ``return_info``."""
    if "return_info" in (parameters_of(env.reset) or {}):
        text = "`return_info` is deprecated as an optional argument to `reset`, which always returns `obs, info`."
        yield Problem("return-info", text)


def reset_seeding(env: Env[Any, Any]) -> Iterator[Problem]:
    """Whether a seed decides the first observations and the random stream, and no seed leaves the stream alone."""
    if not takes_keyword(env.reset, "seed"):
        text = "The `reset` method does not provide a `seed` or `**kwargs` keyword argument."
        yield Problem("reset-no-seed", text)
        return
    yield from seed_default_problems(env.reset, "reset")
    seeded, plain = {"seed": SEED}, dict[str, Any]()
    try:
        starts = [_Start.of(env, kwargs) for kwargs in (seeded, plain, seeded, plain, {"seed": OTHER_SEED})]
    except TypeError as error:
        text = "The environment cannot be reset with a random seed, even though `seed` or `kwargs` appear in the"
        yield Problem("reset-refuses", f"{text} signature. The error was: {brief(error)}", cause=error)
        return
    for start in starts:
        yield from observation_problems(start.observation, env.observation_space, "reset")
    yield from _stream_problems(starts)
    if not may_vary(env):
        yield from _start_problems(starts)
    if data_equivalence(starts[0].observation, starts[4].observation, exact=True):
        text = f"`env.reset(seed={SEED})` and `env.reset(seed={OTHER_SEED})` give the same observation:"
        yield Problem("seed-without-effect", f"{text} {brief(starts[0].observation)}")


def may_vary(env: Env[Any, Any]) -> bool:
    """Whether the environment is registered as nondeterministic."""
    spec = env.unwrapped.spec
    return spec is not None and spec.nondeterministic


def stream_state(env: Env[Any, Any]) -> Any:
    """The state of the environment's random stream; None if it has none yet."""
    inner = env.unwrapped
    # Not `np_random`: asking for that makes a stream. Elsewhere it is all that can be asked for.
    generator = inner.np_random if isinstance(inner, HostedEnv) else getattr(inner, "_np_random", None)
    return None if generator is None else deepcopy(generator.bit_generator.state)


@dataclass(frozen=True)
class _Start:
    """One reset: the observation, the stream's state after it, and the seed that the environment remembers.

    ``of_task``: that is the seed of the task that it chose, as its info says.
    """

    observation: Any
    stream: Any
    remembered_seed: Any
    of_task: bool

    @classmethod
    def of(cls, env: Env[Any, Any], kwargs: dict[str, Any]) -> _Start:
        observation, info = env.reset(**kwargs)
        inner = env.unwrapped
        seed = inner.np_random_seed if isinstance(inner, HostedEnv) else getattr(inner, "_np_random_seed", None)
        task = info.get("task") if isinstance(info, dict) else None
        of_task = isinstance(task, dict) and seed is not None and task.get("seed") == seed
        return cls(own_copy(observation), stream_state(env), seed, of_task)


def _stream_problems(starts: list[_Start]) -> Iterator[Problem]:
    first, unseeded, again, _, other = starts
    likely = "Most likely the environment reset function does not call `super().reset(seed=seed)`"
    if first.stream is None:
        text = "Expects the random number generator to have been generated given a seed was passed to reset."
        yield Problem("rng-not-seeded", f"{text} {likely}.")
        return
    if first.stream != again.stream:
        text = f"{likely} as the random generates are not same when the same seeds are passed to `env.reset`."
        yield Problem("rng-not-seeded", text)
    elif first.stream == other.stream:
        text = f"{likely} as the random number generators are not different when different seeds are passed"
        yield Problem("rng-not-seeded", f"{text} to `env.reset`.")
    if unseeded.of_task:
        return
    drew = first.stream != np_random(SEED)[0].bit_generator.state
    if unseeded.remembered_seed != first.remembered_seed:
        text = f"After `env.reset(seed={SEED})`, `env.reset()` changed the seed of the random stream"
        yield Problem("reset-reseeds", f"{text} from {first.remembered_seed} to {unseeded.remembered_seed}.")
    elif drew and unseeded.stream == first.stream:
        text = (
            f"After `env.reset(seed={SEED})`, `env.reset()` starts the random stream anew: both left it in one state."
        )
        yield Problem("reset-reseeds", text)


def _start_problems(starts: list[_Start]) -> Iterator[Problem]:
    cases = (
        (f"Using `env.reset(seed={SEED})`", starts[0].observation, starts[2].observation),
        (f"Using `env.reset(seed={SEED})` then `env.reset()`", starts[1].observation, starts[3].observation),
    )
    for how, one, other in cases:
        if not data_equivalence(one, other):
            text = f"{how} is non-deterministic as the observations are not equivalent: {brief(one)} and {brief(other)}"
            yield Problem("reset-nondeterministic", text)
        elif not data_equivalence(one, other, exact=True):
            text = f"{how} observations are not equal although similar: {brief(one)} and {brief(other)}"
            yield Problem("almost-equal", text)
