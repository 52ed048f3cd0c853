"""Rules that only a run shows: what the environment says, judged as the wall will judge it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from paddock.core.allowed_actions import sample_allowed
from paddock.core.env import Env
from paddock.errors import EnvironmentViolation
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.wall_values import ValueCheck
from paddock.sandbox.policy import DEFAULT, Policy
from paddock.testing.finding import Finding
from paddock.testing.in_numpy import in_numpy
from paddock.testing.secure.found import finding
from paddock.testing.secure.info_rules import answers_in

STEPS = 100
_SEED = 123


def find_at_run_time(env: Env[Any, Any], policy: Policy = DEFAULT, *, steps: int = STEPS) -> list[Finding]:
    """What rewards and infos of some steps break, each rule once. What the environment raises ends it quietly.

    For an environment that follows the API: ``find`` tells where one does not.
    """
    found: dict[str, Finding] = {}
    try:
        for rule, message in _broken(in_numpy(env), policy, steps):
            found.setdefault(rule, finding(rule, message))
    except EnvironmentViolation as error:  # it is behind a wall already, which refused
        rule = "reward-outside" if error.path == "reward" else "info-refused"
        # One that is not a finite number is in no range: `find` has told what is wrong.
        if error.path.startswith(("reward", "info")) and not error.rule:
            found.setdefault(rule, finding(rule, str(error)))
    except Exception:  # `find` has told of it, with its place
        return list(found.values())
    return list(found.values())


def _broken(env: Env[Any, Any], policy: Policy, steps: int) -> Iterator[tuple[str, str]]:
    rules = WallRules.of(policy)
    _, info = env.reset(seed=_SEED)
    env.action_space.seed(_SEED)
    yield from _info(info, rules, "reset")
    low, high = policy.reward_range
    for number in range(1, steps + 1):
        _, reward, terminated, truncated, info = env.step(sample_allowed(env.action_space, info))
        if math.isfinite(reward) and not low <= float(reward) <= high:
            yield "reward-outside", f"The reward {reward!r} of step {number} is not in [{low:g}, {high:g}]."
        yield from _info(info, rules, f"step {number}")
        if terminated or truncated:
            _, info = env.reset()
            yield from _info(info, rules, "reset")


def _info(info: Any, rules: WallRules, when: str) -> Iterator[tuple[str, str]]:
    check = ValueCheck("info", max_bytes=rules.info_bytes, depth=rules.info_depth, entries=rules.info_entries)
    try:
        check.read(info)
    except EnvironmentViolation as error:
        yield "info-refused", f"{error} ({when})"
    for path in answers_in(info):
        yield "info-tells", f"{path} ({when}) sounds like what the agent is to find out."
