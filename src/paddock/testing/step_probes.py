"""Probes of step: each runs episodes with random actions, of those that an info allows.

They assume that reset works and returns a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from paddock.core.allowed_actions import sample_allowed
from paddock.core.env import Env
from paddock.core.problem import Problem, brief
from paddock.core.result_checks import step_result_problems
from paddock.core.reuse import reuse_problems
from paddock.testing.equivalence import data_equivalence, own_copy
from paddock.testing.reset_probes import SEED, may_vary, stream_state

STEPS = 100
_PARTS = ("observations", "rewards", "termination", "truncation", "info")


def step_results(env: Env[Any, Any], seed: int = SEED, steps: int = STEPS) -> Iterator[Problem]:
    """What each of ``steps`` steps returns, through the ends of episodes."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)  # only now: a reset may make the space anew
    for number in range(1, steps + 1):
        result = env.step(sample_allowed(env.action_space, info))
        for problem in step_result_problems(result, env.observation_space):
            yield Problem(problem.rule, f"{problem.message} (step {number})", problem.error)
            if problem.rule == "step-result":
                return
        info = env.reset()[1] if result[2] or result[3] else result[4]


def step_determinism(env: Env[Any, Any], seed: int = SEED, steps: int = STEPS) -> Iterator[Problem]:
    """Whether an episode of at most ``steps`` steps goes the same way twice."""
    if may_vary(env):
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
    """Whether a reset, two steps and a reset return observations and infos that share memory."""
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
    """Each step's result and the random stream's state after it."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)  # only now: a reset may make the space anew
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
        text = (
            "The `.np_random` is not properly been updated after step: its state differs for the same seed and action."
        )
        yield Problem("step-nondeterministic", text)
