"""Wall: everything that an untrusted worker says of its environment, checked by the side that is to believe it.

A lie is an EnvironmentViolation with the path of the field. The wall only judges: whoever asked stops the worker. Hot:
``step`` runs once a step, so the honest case comes first and nothing is built for a message that nobody will see.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.errors import EnvironmentViolation, PaddockError, WorkerLost
from paddock.hosting.messages import Failed
from paddock.hosting.reply_reader import StepResult
from paddock.hosting.wall_failure import walled_error
from paddock.hosting.wall_members import member_test, shown, violation, wrong_place
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.wall_values import ValueCheck
from paddock.sandbox.plain_text import plain
from paddock.spaces import Space

_NAME_CHARACTERS = 200
_PICTURES = {"rgb_array": (3,), "depth_array": (2, 3)}  # modes with the dimensions of a picture
_REAL = "biuf"


class Wall:
    """For one environment, whose observations are of ``observation_space``.

    ``lane``: it is one of several, so an info may hold the last observation of the episode before.
    """

    ends: tuple[type[PaddockError], ...] = (EnvironmentViolation, WorkerLost)

    def __init__(
        self, observation_space: Space[Any], rules: WallRules | None = None, *, lane: int | None = None
    ) -> None:
        self.rules = rules or WallRules()
        self.space, self._lane = observation_space, lane
        self._is_member = member_test(observation_space)
        self.low, self.high = finite_range(self.rules.reward_range)

    def failure(self, reply: Failed) -> PaddockError:
        return walled_error(reply, lane=self._lane, server=self.rules.server)

    def reset(self, value: Any) -> tuple[Any, Info]:
        if type(value) is not list or len(value) != 2:
            raise violation("reset()", f"{shown(value)} came back, expected an observation and an info")
        return self.observation(value[0]), self.info(value[1])

    def step(self, value: Any) -> StepResult:
        """What came back of one environment. Hot."""
        if type(value) is list and len(value) == 1 and type(result := value[0]) is list and len(result) == 5:
            observation, reward, terminated, truncated, info = result
            if not self._is_member(observation):
                raise violation(*wrong_place(self.space, observation, "observation"))
            if not (type(reward) is float and self.low <= reward <= self.high):
                self._check_reward(reward)
            if type(terminated) is not bool:
                _check_flag(terminated, "terminated")
            if type(truncated) is not bool:
                _check_flag(truncated, "truncated")
            if type(info) is not dict or info:
                info = self.info(info)
            return observation, reward, terminated, truncated, info
        if type(value) is list and len(value) == 1 and type(value[0]) is Failed:
            raise self.failure(value[0])
        raise violation("step()", f"{shown(value)} came back, expected the five results of one step")

    def observation(self, value: Any, path: str = "observation") -> Any:
        """A member of the space, and nothing but."""
        if not self._is_member(value):
            raise violation(*wrong_place(self.space, value, path))
        return value

    def _check_reward(self, reward: Any) -> None:
        if type(reward) not in (float, int) and not isinstance(reward, (np.floating, np.integer)):
            raise violation("reward", f"{shown(reward)} is no number", rule="reward-type")
        # As Python's own: a bound that float32 can't hold would become infinite in the comparison.
        number = reward.item() if isinstance(reward, np.generic) else reward
        if not self.low <= number <= self.high:
            raise out_of_range(reward, self.rules.reward_range)

    def info(self, value: Any, path: str = "info") -> Info:
        """A dict with text keys, bounded. In a lane the entry ``final_obs`` is an observation."""
        if type(value) is not dict:
            raise violation(path, f"{shown(value)} is no dict")
        if not value:
            return value
        rules = self.rules
        final = self._lane is not None and "final_obs" in value
        rest = {key: one for key, one in value.items() if key != "final_obs"} if final else value
        check = ValueCheck(path, max_bytes=rules.info_bytes, depth=rules.info_depth, entries=rules.info_entries)
        read: Info = check.read(rest)
        return {"final_obs": self.observation(value["final_obs"], f"{path}['final_obs']"), **read} if final else read

    def state(self, value: Any) -> tuple[Any, Any, Any]:
        if type(value) is not list or len(value) != 3:
            raise violation("state()", f"{shown(value)} came back, expected three parts")
        episode_id, step_count, public = value
        if episode_id is not None:
            if type(episode_id) is not str or len(episode_id) > _NAME_CHARACTERS:
                raise violation("state().episode_id", f"{shown(episode_id)} is no name")
            episode_id = plain(episode_id)
        if step_count is not None and not (type(step_count) is int and 0 <= step_count < 1 << 63):
            raise violation("state().step_count", f"{shown(step_count)} is no count")
        return episode_id, step_count, self._read(public, "state().public")

    def render(self, value: Any, mode: str | None) -> Any:
        """A picture or several, or text; in the mode "ansi" text keeps its colours."""
        rules = self.rules
        if value is None:
            return None
        check = ValueCheck(
            "render()",
            max_bytes=rules.space_bytes,
            depth=2,
            entries=rules.value_entries,
            colours=mode is not None and mode.startswith("ansi"),
        )
        if mode in _PICTURES:
            _check_picture(value, mode)
        if mode is not None and mode.startswith("ansi") and type(value) not in (str, list, tuple):
            raise violation("render()", f"{shown(value)} is no text, as the mode {mode!r} says")
        return check.read(value)

    def snapshot(self, value: Any) -> bytes:
        if type(value) is not bytes:
            raise violation("snapshot()", f"{shown(value)} came back, expected bytes")
        return value

    def value(self, value: Any, name: str) -> Any:
        if name == "np_random" and not isinstance(value, np.random.Generator):
            raise violation(name, f"{shown(value)} is no random generator")
        if name == "np_random_seed" and type(value) is not int and not isinstance(value, np.integer):
            raise violation(name, f"{shown(value)} is no seed")
        if name.startswith("set_wrapper_attr(") and type(value) is not bool:
            raise violation(name, f"{shown(value)} is no bool")
        return self._read(value, name)

    def found(self, value: Any) -> str:
        if value not in ("", "value", "callable") or type(value) is not str:
            raise violation("has_wrapper_attr()", f"{shown(value)} came back, expected whether there is one")
        return value

    def _read(self, value: Any, path: str) -> Any:
        rules = self.rules
        check = ValueCheck(
            path, max_bytes=rules.value_bytes, depth=rules.value_depth, entries=rules.value_entries, wide=True
        )
        return check.read(value)


def finite_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The range without infinity: a reward is always finite, and NaN is in no range."""
    low, high = reward_range
    return max(low, -sys.float_info.max), min(high, sys.float_info.max)


def out_of_range(reward: Any, reward_range: tuple[float, float]) -> EnvironmentViolation:
    """What to raise for a reward that is a number but not one that was declared."""
    low, high = reward_range
    rule = "" if -np.inf < reward < np.inf else "reward-not-finite"
    return violation("reward", f"{shown(reward)} is not a finite number within {low:g} and {high:g}", rule=rule)


def _check_picture(value: Any, mode: str) -> None:
    if type(value) is not np.ndarray:
        raise violation("render()", f"{shown(value)} is no array, as the mode {mode!r} says")
    if value.dtype.kind not in _REAL or value.ndim not in _PICTURES[mode]:
        shape = f"{value.dtype} of shape {value.shape}"
        raise violation("render()", f"an array of {shape} is no picture, as the mode {mode!r} says")


def _check_flag(flag: Any, name: str) -> None:
    if type(flag) is not bool and type(flag) is not np.bool_:
        raise violation(name, f"{shown(flag)} is no bool")
