"""What a client believes of a reply: everything (TrustingReader), or only what it has checked (Judge, by WallRules).

A lie is an EnvironmentViolation with the path of the field. A Judge only judges: the code that sent the request kills
the worker. Hot: ``Judge.step`` runs once per step, so the honest case comes first.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from paddock import errors as e
from paddock.core.env import Info
from paddock.core.spec import EnvSpec
from paddock.core.spec_json import MAX_JSON_BYTES, decode_spec
from paddock.errors import EnvFailed, EnvironmentViolation, PaddockError, WorkerLost
from paddock.hosting.failures import MESSAGE_LIMIT, TRACE_LIMIT, to_error
from paddock.hosting.messages import JSON_BYTES, Description, Failed, Limits, Outcome
from paddock.hosting.untrusted import (
    ValueCheck,
    decode_object,
    describe_value,
    is_open_object,
    member_test,
    read_space,
    violation,
    wrong_place,
)
from paddock.sandbox.plain_text import shorten, strip_escapes
from paddock.sandbox.policy import CALL_S, INFO_KB, REWARD_RANGE, START_S
from paddock.spaces import Space

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy


# Frames from behind a wall. The head may be as large as elsewhere: one holds the infos of many lanes.
WALLED_LIMITS = Limits(depth=48, text_bytes=1 << 24, json_bytes=1 << 18, odd_keys=1 << 8)


class WallRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker behind a wall may say, and how long it may take. The defaults are those of the default policy.

    >>> from paddock import Policy
    >>> WallRules.of(Policy(call_s=2.0)).call_s
    2.0
    """

    reward_range: tuple[float, float] = REWARD_RANGE
    info_bytes: int = INFO_KB * 1024
    info_depth: int = 8
    info_entries: int = 4096
    value_bytes: int = 1 << 26  # of an attribute, or of what a call returns
    value_depth: int = 16
    value_entries: int = 1 << 16
    space_bytes: int = 1 << 28  # a picture, or a value of a space that came from behind the wall: what a frame may hold
    lanes_bytes: int = 1 << 30  # the values of all lanes together, which this side allocates
    ordered: bool = False  # after the end of an episode only a reset is allowed, whatever the far end says
    call_s: float = CALL_S
    start_s: float = START_S
    frames: Limits = WALLED_LIMITS
    server: bool = False  # the far end is a server: unlike a worker, it may report on its workers and sessions

    @classmethod
    def of(cls, policy: Policy) -> WallRules:
        """The rules that a policy asks for."""
        return cls(
            reward_range=policy.reward_range,
            info_bytes=policy.info_kb * 1024,
            call_s=policy.call_s,
            start_s=policy.start_s,
        )


StepResult = tuple[Any, Any, Any, Any, Info]


class TrustingReader:
    """Believes everything: for a worker that runs the caller's own code."""

    ends: tuple[type[PaddockError], ...] = ()  # errors after which the far end must be killed

    def failure(self, reply: Failed) -> PaddockError:
        return to_error(reply)

    def reset(self, value: Any) -> tuple[Any, Info]:
        observation, info = value
        return observation, info

    def step(self, value: Any) -> StepResult:
        (result,) = value
        if isinstance(result, Failed):
            raise to_error(result)
        observation, reward, terminated, truncated, info = result
        return observation, reward, terminated, truncated, info

    def state(self, value: Any) -> tuple[Any, Any, Any]:
        episode_id, step_count, public = value
        return episode_id, step_count, public

    def render(self, value: Any, mode: str | None) -> Any:
        return value

    def snapshot(self, value: Any) -> bytes:
        return value  # type: ignore[no-any-return]

    def value(self, value: Any, name: str) -> Any:
        return value

    def attribute_kind(self, value: Any) -> str:
        return value  # type: ignore[no-any-return]


TRUSTING = TrustingReader()


_NAME_CHARACTERS = 200
_PICTURES = {"rgb_array": (3,), "depth_array": (2, 3)}  # modes with the dimensions of a picture
_REAL = "biuf"


class Judge:
    """Checks what an untrusted worker says about one environment, which observes ``observation_space``.

    ``lane``: it is one of several, so an info may hold the last observation of the previous episode.
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
            raise violation("reset()", f"{describe_value(value)} came back, expected an observation and an info")
        return self.observation(value[0]), self.info(value[1])

    def step(self, value: Any) -> StepResult:
        """The five results of one environment. Hot."""
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
        raise violation("step()", f"{describe_value(value)} came back, expected the five results of one step")

    @property
    def takes_json(self) -> bool:
        """Whether every JSON object is an observation."""
        return is_open_object(self.space)

    def outcome(self, outcome: Outcome) -> StepResult:
        """The five results of one environment that ``takes_json``. Hot."""
        observation = decode_object(outcome.observation, JSON_BYTES, self.rules.frames.depth)
        if not self.low <= outcome.reward <= self.high:
            self._check_reward(outcome.reward)
        return observation, outcome.reward, outcome.terminated, outcome.truncated, {}

    def observation(self, value: Any, path: str = "observation") -> Any:
        """A member of the space, of its very type and dtype."""
        if not self._is_member(value):
            raise violation(*wrong_place(self.space, value, path))
        return value

    def _check_reward(self, reward: Any) -> None:
        if type(reward) not in (float, int) and not isinstance(reward, (np.floating, np.integer)):
            raise violation("reward", f"{describe_value(reward)} is not a number", rule="reward-type")
        # As Python's own number: a bound that float32 can't hold would become infinite in the comparison.
        number = reward.item() if isinstance(reward, np.generic) else reward
        if not self.low <= number <= self.high:
            raise out_of_range(reward, self.rules.reward_range)

    def info(self, value: Any, path: str = "info") -> Info:
        """A bounded dict with text keys. In a lane the entry ``final_obs`` is an observation."""
        if type(value) is not dict:
            raise violation(path, f"{describe_value(value)} is not a dict")
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
            raise violation("state()", f"{describe_value(value)} came back, expected three parts")
        episode_id, step_count, public = value
        if episode_id is not None:
            if type(episode_id) is not str or len(episode_id) > _NAME_CHARACTERS:
                raise violation("state().episode_id", f"{describe_value(episode_id)} is not a name")
            episode_id = strip_escapes(episode_id)
        if step_count is not None and not (type(step_count) is int and 0 <= step_count < 1 << 63):
            raise violation("state().step_count", f"{describe_value(step_count)} is not a count")
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
            if type(value) is not np.ndarray:
                problem = f"{describe_value(value)} is not an array, which the mode {mode!r} requires"
                raise violation("render()", problem)
            if value.dtype.kind not in _REAL or value.ndim not in _PICTURES[mode]:
                shape = f"{value.dtype} of shape {value.shape}"
                problem = f"an array of {shape} is not a picture, which the mode {mode!r} requires"
                raise violation("render()", problem)
        if mode is not None and mode.startswith("ansi") and type(value) not in (str, list, tuple):
            raise violation("render()", f"{describe_value(value)} is not text, which the mode {mode!r} requires")
        return check.read(value)

    def snapshot(self, value: Any) -> bytes:
        if type(value) is not bytes:
            raise violation("snapshot()", f"{describe_value(value)} came back, expected bytes")
        return value

    def value(self, value: Any, name: str) -> Any:
        if name == "np_random" and not isinstance(value, np.random.Generator):
            raise violation(name, f"{describe_value(value)} is not a random generator")
        if name == "np_random_seed" and type(value) is not int and not isinstance(value, np.integer):
            raise violation(name, f"{describe_value(value)} is not a seed")
        if name.startswith("set_wrapper_attr(") and type(value) is not bool:
            raise violation(name, f"{describe_value(value)} is not a bool")
        return self._read(value, name)

    def attribute_kind(self, value: Any) -> str:
        if value not in ("", "value", "callable") or type(value) is not str:
            raise violation("has_wrapper_attr()", f"{describe_value(value)} came back, expected whether there is one")
        return value

    def _read(self, value: Any, path: str) -> Any:
        rules = self.rules
        check = ValueCheck(
            path, max_bytes=rules.value_bytes, depth=rules.value_depth, entries=rules.value_entries, wide=True
        )
        return check.read(value)


ReplyReader: TypeAlias = "TrustingReader | Judge"


def finite_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The range without infinity: a reward must be finite, and NaN is in no range."""
    low, high = reward_range
    return max(low, -sys.float_info.max), min(high, sys.float_info.max)


def out_of_range(reward: Any, reward_range: tuple[float, float]) -> EnvironmentViolation:
    """The error for a reward that is a number outside the declared range."""
    low, high = reward_range
    rule = "" if -np.inf < reward < np.inf else "reward-not-finite"
    return violation(
        "reward", f"{describe_value(reward)} is not a finite number within {low:g} and {high:g}", rule=rule
    )


def _check_flag(flag: Any, name: str) -> None:
    if type(flag) is not bool and type(flag) is not np.bool_:
        raise violation(name, f"{describe_value(flag)} is not a bool")


# What a worker says its environment is. All of it is data; nothing is loaded.


_MODE_CHARACTERS = 64
_MODES = 64


def check_description(value: Any, rules: WallRules) -> Description:
    """The description with its text made plain, or EnvironmentViolation; ``check_spaces`` does the spaces."""
    try:
        described = msgspec.convert(value, Description)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise violation("description", f"it is malformed: {shorten(str(error), 200)}") from None
    metadata = _metadata(described.metadata, rules)
    mode = described.render_mode
    if mode is not None and (len(mode) > _MODE_CHARACTERS or strip_escapes(mode) != mode):
        raise violation("render_mode", f"{describe_value(mode)} is not the name of a mode")
    spec = None if described.spec is None else _spec_text(described.spec, rules)
    return msgspec.structs.replace(described, metadata=metadata, spec=spec, custom=shorten(described.custom, 200))


def check_spaces(described: Description, rules: WallRules) -> tuple[Space[Any], Space[Any]]:
    """The observation and the action space, rebuilt here within bounds."""
    return (
        read_space(described.observation_space, "observation_space", limit=rules.space_bytes),
        read_space(described.action_space, "action_space", limit=rules.space_bytes),
    )


def check_spec(described: Description) -> EnvSpec | None:
    """The spec without the code that it names, so that making it imports nothing of the worker's choice.

    None for an id that ``make`` would take for a module or a folder.
    """
    try:
        spec = None if described.spec is None else decode_spec(described.spec)
    except Exception as error:  # InvalidSpec, and what a space in its arguments may raise
        raise violation("spec", f"it is malformed: {shorten(str(error), 300)}") from None
    if spec is None or ":" in spec.id or spec.id.startswith("."):
        return None
    return replace(spec, entry_point=None, vector_entry_point=None, additional_wrappers=())


def _metadata(metadata: dict[str, Any], rules: WallRules) -> dict[str, Any]:
    check = ValueCheck(
        "metadata", max_bytes=rules.info_bytes, depth=rules.info_depth, entries=rules.info_entries, wide=True
    )
    metadata = check.read(metadata)
    modes = metadata.get("render_modes", [])
    if type(modes) not in (list, tuple) or len(modes) > _MODES or not all(type(mode) is str for mode in modes):
        raise violation("metadata['render_modes']", f"{describe_value(modes)}, expected a list of names")
    fps = metadata.get("render_fps")
    numeric = isinstance(fps, (int, float, np.integer, np.floating)) and math.isfinite(fps) and fps >= 0
    if fps is not None and not numeric:
        raise violation("metadata['render_fps']", f"{describe_value(fps)}, expected a number")
    return metadata


def _spec_text(text: str, rules: WallRules) -> str:
    """The spec's JSON with its text made plain: JSON can hide an escape sequence behind letters."""
    if len(text) > MAX_JSON_BYTES:
        raise violation("spec", f"it has more than {MAX_JSON_BYTES} bytes")
    check = ValueCheck("spec", max_bytes=4 * MAX_JSON_BYTES, depth=rules.value_depth, entries=rules.value_entries)
    try:
        return json.dumps(check.read(json.loads(text)))
    except EnvironmentViolation:
        raise
    except Exception as error:  # not JSON, or nested past Python's limit
        raise violation("spec", f"it is not JSON: {shorten(str(error), 200)}") from None


# Failures that a worker behind a wall reports: plain, cut, and never with a code that only this side may use.


# What may go wrong with making, asking and the environment itself. This side knows what became of the worker, of the
# connection and of calls: a worker that claims to be lost, or busy, only has an error of its own.
_THEIRS = (
    *(e.UnregisteredEnv, e.DeprecatedEnv, e.RegistrationError, e.InvalidSpec, e.PlanError, e.InvalidManifest),
    *(e.DependencyNotInstalled, e.UnsupportedMode, e.InvalidMetadata, e.VideoNotWritten, e.InvalidKeys),
    *(e.ResetNeeded, e.InvalidAction, e.InvalidState, e.InvalidKernel, e.InvalidSnapshot, e.SnapshotUnsupported),
    *(e.InvalidSeed, e.InvalidSpace, e.InvalidLanes, e.MissingArgument, e.CustomSpaceError, e.CheckFailed),
    *(e.DeprecatedWrapper, e.NoCanonicalForm, e.NoArrayForm, e.NotTransferable, e.BadFrame, e.NotPermitted),
    *(e.ClosedEnvironmentError, e.EnvFailed, e.InvalidTool, e.InvalidTask, e.ToolFailed, e.EpisodeFailed),
)
_CODES = frozenset(code for cls, code, _, _ in e.table() if issubclass(cls, _THEIRS))
# What a server may report beside that, about its workers and sessions.
_SERVERS = (
    *(e.WorkerLost, e.DeadlineExceeded, e.EnvironmentViolation, e.SessionGone, e.Superseded, e.IdempotencyConflict),
    *(e.OutOfOrder, e.CapacityReached, e.RateLimited, e.Draining, e.StorageFull, e.Unauthenticated, e.Forbidden),
)
_CODES_OF_SERVERS = _CODES | {code for cls, code, _, _ in e.table() if issubclass(cls, _SERVERS)}
# NumPy's is a subclass with a name of its own.
_OUT_OF_MEMORY = ("MemoryError", "_ArrayMemoryError")
# As Python shows the file of an OSError: at the end, in quotes. One with an escape in it is left alone.
_FILE = re.compile(r"""(?P<quote>['"])(?P<path>/[^'"\\\n]{1,1000})(?P=quote)\s*\Z""")
_WHY = {
    "FileNotFoundError": "It exists here, but not behind the wall",
    "PermissionError": "The wall may hide it",
}


def walled_error(reply: Failed, *, lane: int | None = None, server: bool = False) -> PaddockError:
    """The error to raise for an untrusted failure. A worker that reports that memory is used up counts as lost.

    ``server``: the reply comes from a server, which speaks for its worker.
    """
    message = shorten(reply.message, MESSAGE_LIMIT)
    if reply.error_type in _OUT_OF_MEMORY:
        place = "" if lane is None else f"lane {lane}: "
        return WorkerLost(f"{place}ran out of memory: {message or 'MemoryError'}", lane=lane, cause="memory")
    cleaned = msgspec.structs.replace(
        reply,
        code=reply.code if reply.code in (_CODES_OF_SERVERS if server else _CODES) else EnvFailed.code,
        message=message if server else message + _advice(reply.error_type, message),
        error_type=shorten(reply.error_type, 100),
        trace=strip_escapes(reply.trace[-TRACE_LIMIT:]),
    )
    return to_error(cleaned, lane=lane)


def _advice(error_type: str, message: str) -> str:
    """How to permit the file that it misses, if it exists. The worker chose the text, so the file is not opened."""
    found = _FILE.search(message) if error_type in _WHY else None
    if found is None or not os.path.lexists(found["path"]):
        return ""
    grant = f"read = [{json.dumps(found['path'], ensure_ascii=False)}]"
    return (
        f" {_WHY[error_type]}: if it may be read, ask for it with {grant} under [permissions] in paddock.toml, "
        f"or Policy(read=…)."
    )
