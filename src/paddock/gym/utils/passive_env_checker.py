"""Gymnasium's names for the passive checks. Unlike the guard, they let results of the old API pass, with a warning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.checks import (
    box_problems,
    observation_problems,
    render_and_check,
    reset_result_problems,
    reset_signature_problems,
    reuse_problems,
    space_problems,
    step_result_problems,
)
from paddock.core.checks import shares_objects as _shares_objects
from paddock.core.env import ActType, Env, ObsType
from paddock.core.problem import Problem, raise_or_warn, warn_user
from paddock.spaces import Box, Space

__all__ = [
    "check_action_space",
    "check_observation_space",
    "env_render_passive_checker",
    "env_reset_passive_checker",
    "env_step_passive_checker",
]


def check_space(space: Space[Any], space_type: str, check_box_space_fn: Callable[[Box], None]) -> None:
    """Raise or warn if the space, or one inside it, is malformed; each Box goes to ``check_box_space_fn``."""

    def check_box(box: Box) -> tuple[Problem, ...]:
        check_box_space_fn(box)
        return ()

    raise_or_warn(space_problems(space, space_type, check_box))


check_observation_space: Callable[[Space[Any]], None] = partial(
    check_space,
    space_type="observation",
    check_box_space_fn=lambda box: raise_or_warn(box_problems(box, "observation")),
)
check_action_space: Callable[[Space[Any]], None] = partial(
    check_space, space_type="action", check_box_space_fn=lambda box: raise_or_warn(box_problems(box, "action"))
)


def check_obs(obs: Any, observation_space: Space[Any], method_name: str) -> None:
    """Raise or warn if the observation does not fit its space."""
    raise_or_warn(observation_problems(obs, observation_space, method_name))


def data_shares_objects(data_1: Any, data_2: Any) -> bool:
    """Whether changing one changes the other."""
    return _shares_objects(data_1, data_2)


def env_data_reuse_passive_checker(
    previous_data: tuple[Any, dict[str, Any]], data: tuple[Any, dict[str, Any]], previous_source: str, source: str
) -> None:
    """Warn if two (observation, info) share an object."""
    raise_or_warn(reuse_problems(previous_data, data, previous_source, source))


def env_reset_passive_checker(env: Env[ObsType, Any], **kwargs: Any) -> tuple[ObsType, dict[str, Any]]:
    """Call ``env.reset(**kwargs)`` and check its signature and result."""
    why = "Current gymnasium version requires that `Env.reset` can be passed"  # programs look for how it begins
    raise_or_warn(reset_signature_problems(env.reset, why))
    result = env.reset(**kwargs)
    problems = reset_result_problems(result, env.observation_space)
    # Only a warning: environments from before `(obs, info)` still run under Gymnasium.
    raise_or_warn(replace(one, error=None) if one.rule == "reset-result" else one for one in problems)
    return result


def env_step_passive_checker(
    env: Env[ObsType, ActType], action: ActType
) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
    """Call ``env.step(action)`` and check its result, which may be the four of the older API."""
    result: Any = env.step(action)
    step = result
    if isinstance(result, tuple) and len(result) == 4:
        warn_user(
            "Core environment is written in old step API which returns one bool instead of two. "
            "It is recommended to rewrite the environment with new step API.",
            DeprecationWarning,
        )
        observation, reward, done, info = result
        if not isinstance(done, bool | np.bool_):
            warn_user(f"Expects `done` signal to be a boolean, actual type: {type(done)}")
        step = observation, reward, bool(done), False, info
    raise_or_warn(step_result_problems(step, env.observation_space))
    return result  # type: ignore[no-any-return]


env_render_passive_checker = render_and_check
