"""Probes: each calls the environment in one way, and yields what is wrong.

Messages that begin like Gymnasium's keep its words: programs match them.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from paddock.core.checks import (
    frame_problems,
    observation_problems,
    parameters_of,
    render_metadata_problems,
    reset_result_problems,
    reuse_problems,
    seed_default_problems,
    step_result_problems,
    takes_keyword,
)
from paddock.core.env import Env, Info
from paddock.core.problem import Problem, brief
from paddock.core.spec import EnvSpec
from paddock.errors import DeadlineExceeded, DependencyNotInstalled, EnvironmentViolation, WorkerLost
from paddock.hosting.client import HostedEnv
from paddock.hosting.failures import Frame, place_of
from paddock.seeding import np_random
from paddock.spaces import Box, Dict, Discrete, Space
from paddock.spaces.flatten import parts
from paddock.testing.watched import data_equivalence, own_copy

SEED, OTHER_SEED = 123, 456
STEPS = 100


# ── Reset: these assume only that there are two spaces ──


def reset_result(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check what ``reset()`` returns."""
    yield from reset_result_problems(env.reset(), env.observation_space)


def reset_options(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check that ``reset`` takes options."""
    if not takes_keyword(env.reset, "options"):
        text = "The `reset` method does not provide an `options` or `**kwargs` keyword argument."
        yield Problem("reset-no-options", text)
        return
    try:
        env.reset(options={})
    except TypeError as error:
        text = "The environment cannot be reset with options, even though `options` or `**kwargs` appear in the"
        yield Problem("reset-refuses", f"{text} signature. The error was: {brief(error)}", cause=error)


def old_seed_method(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check that there is no method ``seed``, as in the API before ``reset(seed=...)``."""
    if callable(getattr(env, "seed", None)):
        text = "Official support for the `seed` function is dropped. Environments are seeded by `env.reset(seed=...)`."
        yield Problem("seed-method", text)


def old_return_info(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check that ``reset`` does not have the parameter ``return_info``."""
    if "return_info" in (parameters_of(env.reset) or {}):
        text = "`return_info` is deprecated as an optional argument to `reset`, which always returns `obs, info`."
        yield Problem("return-info", text)


def reset_seeding(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check that a seed decides the first observation and the random stream, and no seed leaves the stream alone."""
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
    if not is_nondeterministic(env):
        yield from _compare_starts(f"Using `env.reset(seed={SEED})`", starts[0], starts[2])
        yield from _compare_starts(f"Using `env.reset(seed={SEED})` then `env.reset()`", starts[1], starts[3])
    if data_equivalence(starts[0].observation, starts[4].observation, exact=True):
        text = f"`env.reset(seed={SEED})` and `env.reset(seed={OTHER_SEED})` give the same observation:"
        yield Problem("seed-without-effect", f"{text} {brief(starts[0].observation)}")


def is_nondeterministic(env: Env[Any, Any]) -> bool:
    """Whether the environment is registered as nondeterministic."""
    spec = env.unwrapped.spec
    return spec is not None and spec.nondeterministic


def stream_state(env: Env[Any, Any]) -> Any:
    """Return the state of the environment's random stream; None if it has none yet."""
    inner = env.unwrapped
    # Not `np_random`: reading that makes a stream. Of a hosted environment it is all that can be read.
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
        text = f"After `env.reset(seed={SEED})`, `env.reset()` restarts the random stream:"
        yield Problem("reset-reseeds", f"{text} both left it in the same state.")


def _compare_starts(how: str, one: _Start, other: _Start) -> Iterator[Problem]:
    if data_equivalence(one.observation, other.observation, exact=True):
        return
    values = f"{brief(one.observation)} and {brief(other.observation)}"
    if data_equivalence(one.observation, other.observation):
        yield Problem("almost-equal", f"{how} observations are not equal although similar: {values}")
    else:
        text = f"{how} is non-deterministic as the observations are not equivalent: {values}"
        yield Problem("reset-nondeterministic", text)


# ── Step: these run episodes with random actions, of those that an info allows; they assume that reset works ──

_PARTS = ("observations", "rewards", "termination", "truncation", "info")


def step_results(env: Env[Any, Any], seed: int = SEED, steps: int = STEPS) -> Iterator[Problem]:
    """Check what each of ``steps`` steps returns, through the ends of episodes."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)  # only now: a reset may replace the space
    for number in range(1, steps + 1):
        result = env.step(sample_allowed(env.action_space, info))
        for problem in step_result_problems(result, env.observation_space):
            yield Problem(problem.rule, f"{problem.message} (step {number})", problem.error)
            if problem.rule == "step-result":
                return
        info = env.reset()[1] if result[2] or result[3] else result[4]


def step_determinism(env: Env[Any, Any], seed: int = SEED, *, steps: int = STEPS) -> Iterator[Problem]:
    """Check that an episode of at most ``steps`` steps goes the same way twice."""
    if is_nondeterministic(env):
        return
    first = list(_episode(env, seed, steps))
    for number, (one, other) in enumerate(zip(first, _episode(env, seed, steps), strict=False), start=1):
        found = list(_difference(one, other))
        yield from (Problem(problem.rule, f"{problem.message} (step {number})") for problem in found)
        if found:  # what follows a difference differs as well
            return
    if first and first[0][0][3]:
        yield Problem("truncates-at-once", "Environment truncates after 1 step, something has gone very wrong.")


def data_reuse(env: Env[Any, Any], seed: int = SEED) -> Iterator[Problem]:
    """Check that a reset, two steps and a reset do not return observations and infos that share memory."""
    calls: list[tuple[str, Any]] = [("env.reset() (call 1)", env.reset(seed=seed))]
    env.action_space.seed(seed)
    for _ in range(2):
        action = sample_allowed(env.action_space, calls[-1][1][1])
        observation, _reward, terminated, truncated, info = env.step(action)
        calls.append((f"env.step() (call {len(calls) + 1})", (observation, info)))
        if terminated or truncated:
            break
    calls.append((f"env.reset() (call {len(calls) + 1})", env.reset(seed=seed)))
    for (source, previous), (later_source, current) in combinations(calls, 2):
        yield from reuse_problems(previous, current, source, later_source, adjacent=False)


def _episode(env: Env[Any, Any], seed: int, steps: int) -> Iterator[tuple[Any, Any]]:
    """Yield each step's result and the random stream's state after it."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)  # only now: a reset may replace the space
    for _ in range(steps):
        result = env.step(sample_allowed(env.action_space, info))
        yield own_copy(result), stream_state(env)
        if result[2] or result[3]:
            return
        info = result[4]


def _difference(one: tuple[Any, Any], other: tuple[Any, Any]) -> Iterator[Problem]:
    (result, stream), (other_result, other_stream) = one, other
    for part, value, other_value in zip(_PARTS, result, other_result, strict=True):
        if data_equivalence(value, other_value, exact=True):
            continue
        values = f"{brief(value)} and {brief(other_value)}"
        if not data_equivalence(value, other_value):
            text = f"Deterministic step {part} are not equivalent for the same seed and action: {values}"
            yield Problem("step-nondeterministic", text)
        else:
            text = f"Step {part} are not equal although similar given the same seed and action: {values}"
            yield Problem("almost-equal", text)
    if stream != other_stream:
        text = "The `.np_random` is not properly been updated after step:"
        yield Problem("step-nondeterministic", f"{text} its state differs for the same seed and action.")


# ── Render modes and close: these make the environment again from its spec, if it has one ──


def rendering(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check the declared modes, the frame of the mode in use, and each other mode in an environment made for it."""
    yield from render_metadata_problems(env.metadata, env.render_mode)
    if env.render_mode is not None:
        env.reset()
        yield from frame_problems(env.render_mode, env.render())
    spec = _spec_of(env)
    modes = env.metadata.get("render_modes")
    modes = [mode for mode in modes if isinstance(mode, str)] if isinstance(modes, list | tuple) else []
    if spec is None:
        if modes and not isinstance(env.unwrapped, HostedEnv):  # which is somewhere else for a reason
            text = "Not able to test alternative render modes due to the environment not having a spec"
            yield Problem("render-unchecked", f"{text}: {modes}.")
        return
    for mode in modes:
        yield from _rendering_in(spec, mode)


def _rendering_in(spec: EnvSpec, mode: str) -> Iterator[Problem]:
    try:
        env = _without_checker(spec).make(render_mode=mode)
        try:
            env.reset()
            frame = env.render()
        finally:
            env.close()
    except DependencyNotInstalled as error:
        yield Problem("render-unchecked", f"Not able to test render mode {mode!r}: {error}", cause=error)
    except Exception as error:
        text = f"{spec.id} declares render mode {mode!r}, but making, resetting or rendering in it raised"
        yield Problem("render-mode-refused", f"{text} {brief(error)}.", cause=error)
    else:
        yield from frame_problems(mode, frame)


def closing(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check that an environment made from the spec can be closed, and closed again."""
    spec = _spec_of(env)
    if spec is None:
        return
    other = _without_checker(spec).make()
    try:
        other.close()
    except Exception as error:
        yield problem_of_error("close", error)
        return
    try:
        other.close()
    except Exception as error:
        text = "Calling `env.close()` on the closed environment should be allowed, but it raised an exception"
        yield Problem("close-twice", f"{text}: {brief(error)}", cause=error)


def remaking(env: Env[Any, Any]) -> Iterator[Problem]:
    """Check that the spec can be copied and makes an environment again, as the other probes here need."""
    spec = _spec_of(env)
    try:
        made = None if spec is None else _without_checker(deepcopy(spec)).make()
    except Exception as error:
        text = f"Copying `env.spec` and making an environment of the copy raised {brief(error)}."
        yield Problem("spec-broken", text, cause=error)
        return
    with suppress(Exception):  # `closing` looks at close
        if made is not None:
            made.close()


def problem_of_error(call: str, error: Exception) -> Problem:
    """Return the problem that a call of the environment raised."""
    if isinstance(error, WorkerLost | DeadlineExceeded):  # it never returned, and the error says what became of it
        return Problem("env-raised", f"`env.{call}()`: {error}", cause=error)
    if isinstance(error, EnvironmentViolation):  # what the wall says of a value, where the other rules say it of theirs
        return Problem(error.rule or "env-raised", f"`env.{call}()`: {error}", cause=error)
    place = place_of(error)
    if place is None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = Frame(last.filename, last.lineno or 0, last.name)
    return Problem("env-raised", f"`env.{call}()` raised {brief(error)} at {place}.", cause=error)


def _spec_of(env: Env[Any, Any]) -> EnvSpec | None:
    # A hosted environment stays where it is: making its spec here would run its code outside any wall.
    return None if isinstance(env.unwrapped, HostedEnv) else env.unwrapped.spec


def _without_checker(spec: EnvSpec) -> EnvSpec:
    # The guard would repeat, as warnings, what the probes find.
    return replace(spec, disable_env_checker=True)


# ── Spaces: bounds that agents cope with badly. Only check_env looks at these, the guard does not ──


_SMALLEST_IMAGE = 8
_CHANNELS = (1, 3, 4)


def limit_problems(space: Space[Any], space_type: str) -> Iterator[Problem]:
    """Check the bounds of every Box in the space. ``space_type`` is "observation" or "action"."""
    if isinstance(space, Box):
        if np.any(space.low == -np.inf):
            text = f"A Box {space_type} space minimum value is -infinity. This is probably too low."
            yield Problem("box-unbounded", f"{text} Shape {space.shape}.")
        if np.any(space.high == np.inf):
            text = f"A Box {space_type} space maximum value is infinity. This is probably too high."
            yield Problem("box-unbounded", f"{text} Shape {space.shape}.")
        if space_type == "action" and len(space.shape) == 1:
            symmetric = np.all((space.low == 0) | (np.abs(space.low) == np.abs(space.high)))
            if not (symmetric and np.all(space.low >= -1) and np.all(space.high <= 1)):
                text = "For Box action spaces, we recommend using a symmetric and normalized space"
                bounds = f"[{space.low.min()}, {space.high.max()}]"
                yield Problem("action-not-normalized", f"{text} (range=[-1, 1] or [0, 1]). This one is {bounds}.")
        if space_type == "observation":
            yield from _image(space)
    for part in parts(space):
        yield from limit_problems(part, space_type)


def _image(box: Box) -> Iterator[Problem]:
    if len(box.shape) != 3 or box.shape[2] not in _CHANNELS or min(box.shape[:2]) < _SMALLEST_IMAGE:
        return
    lowest, highest = box.low.min(), box.high.max()
    if box.dtype == np.uint8:
        fits = lowest == 0 and highest == 255
    else:
        fits = np.issubdtype(box.dtype, np.floating) and lowest >= 0 and highest <= 1
    if not fits:
        text = f"A Box observation space of shape {box.shape} looks like an image, but is {box.dtype}"
        yield Problem("image-box", f"{text} in [{lowest}, {highest}].")


# ── Random actions among those that an info allows. A mask that does not fit the action space is ignored ──


def sample_allowed(space: Space[Any], info: Info) -> Any:
    """A random action; where ``info["action_mask"]`` fits the space, one that it allows."""
    mask = fitting_mask(space, info.get("action_mask")) if isinstance(info, dict) else None
    return space.sample() if mask is None else space.sample(mask)


def fitting_mask(space: Space[Any], mask: Any) -> Any:
    """``mask`` as ``space.sample`` takes it: n numbers 0 and 1 for a Discrete, those by key for a Dict. Else None."""
    if mask is None:
        return None
    if isinstance(space, Discrete):
        try:
            numbers = np.asarray(mask)
        except ValueError:  # rows of different lengths
            return None
        if numbers.shape != (int(space.n),) or numbers.dtype.kind not in "biuf":
            return None
        allowed = numbers != 0
        fits = allowed.any() and (numbers[allowed] == 1).all()
        return allowed.astype(np.int8) if fits else None
    if isinstance(space, Dict) and isinstance(mask, dict):
        parts = {key: fitting_mask(one, mask.get(key)) for key, one in space.spaces.items()}
        return parts if any(part is not None for part in parts.values()) else None
    return None
