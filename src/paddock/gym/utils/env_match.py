"""Whether two environments go the same way for the same seed and actions. Both are stepped; they end where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import CheckFailed
from paddock.testing import data_equivalence

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
        for difference in _info_differences(a[-1], b[-1], self.info_comparison):
            raise CheckFailed(f"{doing} info {difference}{when}, info_a = {a[-1]}, info_b = {b[-1]}")
        if not self.skip_render and not np.all(self.a.render() == self.b.render()):
            raise CheckFailed(f"{doing} render is not equivalent{when}")


def _info_differences(a: dict[str, Any], b: dict[str, Any], comparison: str) -> Iterator[str]:
    if comparison == "equivalence" and not data_equivalence(a, b):
        yield "is not equivalent"
    elif comparison == "superset":
        missing = [key for key in a if key not in b or not data_equivalence(a[key], b[key])]
        if missing:
            yield f"is not a superset, key {missing[0]} differs"
    elif comparison == "keys-equivalence" and a.keys() != b.keys():
        yield "keys are not equivalent"
    elif comparison == "keys-superset" and not b.keys() >= a.keys():
        yield f"keys are not a superset, keys not present in info_b are: {a.keys() - b.keys()}"


def _require(same: bool, what: str, value_a: Any, value_b: Any, when: str = "") -> None:
    if not same:
        raise CheckFailed(f"{what} is not equivalent{when}, a = {value_a}, b = {value_b}")
