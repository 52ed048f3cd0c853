"""Gymnasium's names for check_env and its parts. Each part warns or raises by the levels of `paddock.testing.RULES`."""

from __future__ import annotations

from typing import Any

from paddock.core.env import Env
from paddock.core.result_checks import INFINITE_REWARD
from paddock.core.warning import warn_user
from paddock.gym.utils.passive_env_checker import (
    check_action_space,
    check_observation_space,
    data_shares_objects,
    env_render_passive_checker,
    env_reset_passive_checker,
    env_step_passive_checker,
)
from paddock.spaces import Space
from paddock.testing import data_equivalence
from paddock.testing.checking import enforce, judge
from paddock.testing.examine import examine
from paddock.testing.reset_probes import old_return_info, old_seed_method, reset_options, reset_result, reset_seeding
from paddock.testing.space_limits import limit_problems
from paddock.testing.step_probes import data_reuse, step_determinism

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


def check_env(
    env: Any, warn: bool | None = None, skip_render_check: bool = False, skip_close_check: bool = False
) -> None:
    """As ``paddock.check_env``; but of infinite rewards and those that are no numbers it only warns, as Gymnasium's."""
    if warn is not None:
        warn_user("`check_env(warn=...)` parameter is now ignored.")
    problems = examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check)
    judge(problems, only_warn=lambda one: one.rule == "reward-type" or one.message.startswith(INFINITE_REWARD))


def check_reset_seed_determinism(env: Env[Any, Any]) -> None:
    """The same seed gives the same start."""
    enforce(reset_seeding(env))


def check_reset_options(env: Env[Any, Any]) -> None:
    """``reset`` takes options."""
    enforce(reset_options(env))


def check_step_determinism(env: Env[Any, Any], seed: int = 123) -> None:
    """The same seed and actions give the same episode."""
    enforce(step_determinism(env, seed))


def check_returned_data_not_reused(env: Env[Any, Any], seed: int = 123) -> None:
    """No two calls return data that share memory."""
    enforce(data_reuse(env, seed))


def check_reset_return_info_deprecation(env: Env[Any, Any]) -> None:
    """``reset`` has no parameter ``return_info``."""
    enforce(old_return_info(env))


def check_seed_deprecation(env: Env[Any, Any]) -> None:
    """There is no method ``seed``."""
    enforce(old_seed_method(env))


def check_reset_return_type(env: Env[Any, Any]) -> None:
    """``reset`` returns an observation in its space and a dict."""
    enforce(reset_result(env))


def check_space_limit(space: Space[Any], space_type: str) -> None:
    """The bounds of each Box are finite and, for actions, normalized."""
    enforce(limit_problems(space, space_type))
