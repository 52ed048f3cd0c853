"""Gymnasium's names for check_env and its parts. Each part warns or raises by the levels of `paddock.testing.RULES`.

``check_environments_match`` steps both environments; they are left where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from paddock.core.checks import INFINITE_REWARD
from paddock.core.env import Env
from paddock.core.problem import Problem, warn_user
from paddock.errors import CheckFailed
from paddock.gym.utils.passive_env_checker import (
    check_action_space,
    check_observation_space,
    data_shares_objects,
    env_render_passive_checker,
    env_reset_passive_checker,
    env_step_passive_checker,
)
from paddock.testing import data_equivalence
from paddock.testing.checker import enforce, examine, raise_or_warn
from paddock.testing.probes import (
    data_reuse,
    limit_problems,
    old_return_info,
    old_seed_method,
    reset_options,
    reset_result,
    reset_seeding,
    step_determinism,
)

__all__ = [
    "check_action_space",
    "check_env",
    "check_observation_space",
    "check_reset_options",
    "check_reset_return_info_deprecation",
    "check_reset_return_type",
    "check_reset_seed_determinism",
    "check_returned_data_not_reused",
    "check_seed_deprecation",
    "check_space_limit",
    "check_step_determinism",
    "data_equivalence",
    "data_shares_objects",
    "env_render_passive_checker",
    "env_reset_passive_checker",
    "env_step_passive_checker",
]


_P = ParamSpec("_P")


def check_env(
    env: Any, warn: bool | None = None, skip_render_check: bool = False, skip_close_check: bool = False
) -> None:
    """As ``paddock.check_env``, but it only warns of rewards that are infinite or not a number, as Gymnasium's does."""
    if warn is not None:
        warn_user("`check_env(warn=...)` parameter is now ignored.")
    problems = examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check)
    raise_or_warn(problems, only_warn=lambda one: one.rule == "reward-type" or one.message.startswith(INFINITE_REWARD))


def _enforcing(probe: Callable[_P, Iterable[Problem]]) -> Callable[_P, None]:
    """Make a check that warns of what the probe finds, or raises at the first error."""

    @wraps(probe)
    def check(*args: _P.args, **kwargs: _P.kwargs) -> None:
        enforce(probe(*args, **kwargs))

    return check


check_reset_seed_determinism = _enforcing(reset_seeding)
check_reset_options = _enforcing(reset_options)
check_step_determinism = _enforcing(step_determinism)
check_returned_data_not_reused = _enforcing(data_reuse)
check_reset_return_info_deprecation = _enforcing(old_return_info)
check_seed_deprecation = _enforcing(old_seed_method)
check_reset_return_type = _enforcing(reset_result)
check_space_limit = _enforcing(limit_problems)

_INFO_COMPARISONS = ("equivalence", "superset", "skip", "keys-equivalence", "keys-superset")


def check_environments_match(
    env_a: Env[Any, Any],
    env_b: Env[Any, Any],
    num_steps: int,
    seed: int = 0,
    skip_obs: bool = False,
    skip_rew: bool = False,
    skip_terminal: bool = False,
    skip_truncated: bool = False,
    skip_render: bool = False,
    info_comparison: str = "equivalence",
) -> None:
    """Raise CheckFailed, an AssertionError, at the first difference in ``num_steps`` random steps.

    info_comparison: "equivalence"; "superset" (b has all of a); "keys-equivalence", "keys-superset"; "skip".
    """
    if info_comparison not in _INFO_COMPARISONS:
        raise CheckFailed(f"info_comparison={info_comparison!r} is not one of {_INFO_COMPARISONS}.")
    _require(env_a.action_space == env_b.action_space, "the action spaces", env_a.action_space, env_b.action_space)
    same_space = skip_obs or env_a.observation_space == env_b.observation_space
    _require(same_space, "the observation spaces", env_a.observation_space, env_b.observation_space)
    silent = (None, "human")
    if env_a.unwrapped.render_mode in silent or env_b.unwrapped.render_mode in silent:
        skip_render = True

    skips = {"observation": skip_obs, "reward": skip_rew, "terminal": skip_terminal, "truncated": skip_truncated}

    def compare(doing: str, a: Any, b: Any, when: str) -> None:
        for part, value_a, value_b in zip(skips, a[:-1], b[:-1], strict=False):  # a reset has the first one alone
            is_flag = part in ("terminal", "truncated")  # True and np.True_ are the same flag
            same = skips[part] or (bool(value_a == value_b) if is_flag else data_equivalence(value_a, value_b))
            _require(same, f"{doing} {part}", value_a, value_b, when)
        if difference := _info_difference(a[-1], b[-1], info_comparison):
            raise CheckFailed(f"{doing} info {difference}{when}, info_a = {a[-1]}, info_b = {b[-1]}")
        if not skip_render and not np.all(env_a.render() == env_b.render()):
            raise CheckFailed(f"{doing} render is not equivalent{when}")

    env_a.action_space.seed(seed)
    compare("resetting", env_a.reset(seed=seed), env_b.reset(seed=seed), "")
    for step in range(num_steps):
        action, when = env_a.action_space.sample(), f" in step = {step}"
        result_a, result_b = env_a.step(action), env_b.step(action)
        compare("stepping", result_a, result_b, when)
        if any(map(bool, (*result_a[2:4], *result_b[2:4]))):
            compare("resetting", env_a.reset(seed=seed), env_b.reset(seed=seed), when)


def _info_difference(info_a: Any, info_b: Any, comparison: str) -> str:
    if comparison == "equivalence" and not data_equivalence(info_a, info_b):
        return "is not equivalent"
    if comparison == "superset":
        missing = [key for key in info_a if key not in info_b or not data_equivalence(info_a[key], info_b[key])]
        return f"is not a superset, key {missing[0]} differs" if missing else ""
    if comparison == "keys-equivalence" and info_a.keys() != info_b.keys():
        return "keys are not equivalent"
    if comparison == "keys-superset" and not info_b.keys() >= info_a.keys():
        return f"keys are not a superset, keys not present in info_b are: {info_a.keys() - info_b.keys()}"
    return ""


def _require(same: bool, what: str, value_a: Any, value_b: Any, when: str = "") -> None:
    if not same:
        raise CheckFailed(f"{what} is not equivalent{when}, a = {value_a}, b = {value_b}")
