"""Gymnasium's names for check_env and its parts. Each part warns or raises by the levels of `paddock.testing.RULES`.

``check_environments_match`` steps both environments; they are left where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.checks import INFINITE_REWARD
from paddock.core.env import Env
from paddock.core.problem import warn_user
from paddock.errors import CheckFailed
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


def check_env(
    env: Any, warn: bool | None = None, skip_render_check: bool = False, skip_close_check: bool = False
) -> None:
    """As ``paddock.check_env``, but it only warns of rewards that are infinite or not a number, as Gymnasium's does."""
    if warn is not None:
        warn_user("`check_env(warn=...)` parameter is now ignored.")
    problems = examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check)
    raise_or_warn(problems, only_warn=lambda one: one.rule == "reward-type" or one.message.startswith(INFINITE_REWARD))


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

    skipped = {"observation": skip_obs, "reward": skip_rew, "terminal": skip_terminal, "truncated": skip_truncated}
    pair = _Pair(env_a, env_b, {name for name, skip in skipped.items() if skip}, skip_render, info_comparison)
    env_a.action_space.seed(seed)
    pair.reset(seed, "")
    for step in range(num_steps):
        if pair.step(env_a.action_space.sample(), f" in step = {step}"):
            pair.reset(seed, f" in step = {step}")


@dataclass(frozen=True)
class _Pair:
    a: Env[Any, Any]
    b: Env[Any, Any]
    skip: set[str]
    skip_render: bool
    info_comparison: str

    def reset(self, seed: int, when: str) -> None:
        result_a, result_b = self.a.reset(seed=seed), self.b.reset(seed=seed)
        self._compare("resetting", ("observation",), result_a, result_b, when)

    def step(self, action: Any, when: str) -> bool:
        """Step both; whether either ended."""
        result_a, result_b = self.a.step(action), self.b.step(action)
        self._compare("stepping", ("observation", "reward", "terminal", "truncated"), result_a, result_b, when)
        return any(bool(flag) for flag in (*result_a[2:4], *result_b[2:4]))

    def _compare(self, doing: str, parts: tuple[str, ...], a: Any, b: Any, when: str) -> None:
        for part, value_a, value_b in zip(parts, a[:-1], b[:-1], strict=True):
            if part in self.skip:
                continue
            is_flag = part in ("terminal", "truncated")  # True and np.True_ are the same flag
            same = bool(value_a == value_b) if is_flag else data_equivalence(value_a, value_b)
            _require(same, f"{doing} {part}", value_a, value_b, when)
        info_a, info_b, difference = a[-1], b[-1], ""
        if self.info_comparison == "equivalence" and not data_equivalence(info_a, info_b):
            difference = "is not equivalent"
        elif self.info_comparison == "superset":
            missing = [key for key in info_a if key not in info_b or not data_equivalence(info_a[key], info_b[key])]
            difference = f"is not a superset, key {missing[0]} differs" if missing else ""
        elif self.info_comparison == "keys-equivalence" and info_a.keys() != info_b.keys():
            difference = "keys are not equivalent"
        elif self.info_comparison == "keys-superset" and not info_b.keys() >= info_a.keys():
            missing = info_a.keys() - info_b.keys()
            difference = f"keys are not a superset, keys not present in info_b are: {missing}"
        if difference:
            raise CheckFailed(f"{doing} info {difference}{when}, info_a = {info_a}, info_b = {info_b}")
        if not self.skip_render and not np.all(self.a.render() == self.b.render()):
            raise CheckFailed(f"{doing} render is not equivalent{when}")


def _require(same: bool, what: str, value_a: Any, value_b: Any, when: str = "") -> None:
    if not same:
        raise CheckFailed(f"{what} is not equivalent{when}, a = {value_a}, b = {value_b}")
