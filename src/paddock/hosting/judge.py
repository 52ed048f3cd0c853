"""The judge of what a far end says: a reply becomes the values that its caller gets, or an error.

With WallRules nothing is believed that was not checked: a lie is an EnvironmentViolation with the path of the field,
and the code that sent the request kills the far end. Without rules (the caller's own code runs there) all of it is.
Results in shared memory are copied before they are checked: a worker can write there at any time.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from paddock.core.env import Info
from paddock.core.spec import EnvSpec
from paddock.core.spec_json import SPEC_LIMITS, decode_spec
from paddock.core.vector_env import lane_infos_from_wire
from paddock.errors import BadFrame, EnvironmentViolation, PaddockError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.failures import to_error, walled_error
from paddock.hosting.layout import FLAGS, Block, StepLayout
from paddock.hosting.messages import JSON_BYTES, Description, Failed, Limits, Outcome
from paddock.hosting.untrusted import (
    Bounds,
    Test,
    ValueCheck,
    are_bits,
    check_size,
    decode_object,
    demand,
    describe_value,
    member_test,
    not_a_member,
    read_space,
    violation,
)
from paddock.sandbox.plain_text import shorten, strip_escapes
from paddock.sandbox.policy import CALL_S, INFO_KB, REWARD_RANGE, START_S, Policy
from paddock.spaces import Box, Discrete, Space
from paddock.spaces.batch import batch_space
from paddock.spaces.json_data import NotJson, read_json
from paddock.spaces.json_form import from_json
from paddock.spaces.rows import each, layout

# Frames from behind a wall. The head may be as large as elsewhere: one holds the infos of many lanes.
WALLED_LIMITS = Limits(depth=48, text_bytes=1 << 24, json_bytes=1 << 18, odd_keys=1 << 8)


class WallRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker behind a wall may say, and how long it may take. The defaults are those of the default policy.

    >>> from paddock import Policy
    >>> WallRules.of(Policy(call_s=2.0)).call_s
    2.0
    """

    reward_range: tuple[float, float] = REWARD_RANGE
    info: Bounds = Bounds(INFO_KB * 1024, depth=8, entries=4096)
    value: Bounds = Bounds(1 << 26, depth=16, entries=1 << 16)  # an attribute, or what a call returns
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
            info=cls().info._replace(bytes=policy.info_kb * 1024),
            call_s=policy.call_s,
            start_s=policy.start_s,
        )


_RULES = WallRules()
_UNMADE = Discrete(1)  # stands in for the observation space until the environment is made
_NAME_CHARACTERS = 200
_PICTURES = {"rgb_array": (3,), "depth_array": (2, 3)}  # modes with the dimensions of a picture
_REAL = "biuf"
# Attributes whose type is known, whatever the environment is.
_ATTRIBUTES: dict[str, tuple[Test, str]] = {
    "np_random": (lambda value: isinstance(value, np.random.Generator), "a random generator"),
    "np_random_seed": (lambda value: type(value) is int or isinstance(value, np.integer), "a seed"),
}


class Judge:
    """Reads the replies about one environment, which observes ``observation_space``. No ``rules``: it is trusted.

    ``lane``: it is one of several, so an info may hold the last observation of the previous episode. ``count``: it is
    so many lanes that the far end holds as one, whose results are arrays with a row for each. A lane observes members
    of ``observation_space``, and may bring as much of everything as an environment by itself.
    """

    def __init__(
        self,
        observation_space: Space[Any] = _UNMADE,
        rules: WallRules | None = _RULES,
        *,
        lane: int | None = None,
        count: int | None = None,
    ) -> None:
        self.rules, self._lane, self._count = rules, lane, count
        self._rules = rules or _RULES  # of the checks, which no one makes without rules
        low, high = self._rules.reward_range  # without infinity: a reward is finite, and NaN is in no range
        self._low, self._high = max(low, -sys.float_info.max), min(high, sys.float_info.max)
        self._mode: str | None = None
        self.layout: StepLayout | None = None  # of its steps, if the far end takes rows
        self._numbers: list[tuple[str, Space[Any], Test]] = []  # of lanes
        if count is not None:
            flags = Box(0, 1, (count,), np.bool_)
            for name, space in (("reward", self.reward_space(count)), ("terminated", flags), ("truncated", flags)):
                self._numbers.append((name, space, member_test(space)))
        self.observe(observation_space)

    def reward_space(self, count: int) -> Space[Any]:
        """What the rewards of so many environments may be, as an array."""
        return Box(self._low, self._high, (count,), np.float64)

    def observe(self, observation_space: Space[Any]) -> None:
        """Expect members of this space from now on; of lanes, one for each."""
        self.space = self._batch = observation_space
        if self.rules is not None:
            self._is_member = self._fits = member_test(observation_space)
            if self._count is not None:
                self._batch = batch_space(observation_space, self._count)
                self._fits = member_test(self._batch)

    @property
    def ends(self) -> tuple[type[PaddockError], ...]:
        """Errors after which the far end must be killed."""
        return () if self.rules is None else (EnvironmentViolation, WorkerLost)

    def read(self, request: m.Request, reply: m.StepReply) -> Any:
        """What the caller of a request gets for the reply; raises what it says, or what is wrong with it. Hot."""
        if type(reply) is m.Rows:
            try:
                if type(request) is not m.StepRows or self.layout is None or reply.rows is None:
                    raise BadFrame("rows came that were not asked for")
                (info,) = ({},) if reply.notes is None else read_notes(reply.notes, [0], loose=False).get(0, ({},))
                return self.step([[*self.layout.take_result(reply.rows, plain=reply.plain), info]])
            except BadFrame as error:
                raise violation("step()", str(error)) from None
        if type(reply) is Failed:
            raise self.failure(reply)
        kind, value = type(request), reply.value  # type: ignore[union-attr]
        if kind is m.Step or kind is m.StepRows:
            return self.step(value)
        if kind is m.Reset:
            return self.reset(value)
        if kind is m.Make:
            return self.make(value)
        if self.rules is None:
            return value
        if kind is m.Call:
            return self._call(request, value)  # type: ignore[arg-type]
        read = _READERS.get(kind)
        return None if read is None else read(self, value)

    def failure(self, reply: Failed) -> PaddockError:
        """The error that a failure stands for."""
        if self.rules is None:
            return to_error(reply, lane=self._lane)
        return walled_error(reply, lane=self._lane, server=self.rules.server)

    # Making

    def make(self, value: Any) -> Description:
        """What the environment is."""
        described = read_description(value, self.rules)
        self._mode = described.render_mode
        return described

    def spaces(
        self, described: Description, own: tuple[Space[Any], Space[Any]] | None = None, *, rows: bool = True
    ) -> tuple[Space[Any], Space[Any]]:
        """The spaces of the environment that was made, by which its steps are read from now on.

        ``own``: those of a user's own class, which have no form on the wire. ``rows``: steps may be sent as rows.
        """
        spaces = own or read_spaces(described, self.rules, count=self._count)
        self.observe(spaces[0])
        if described.rows and rows:
            self.layout = StepLayout(layout(spaces[0]), layout(spaces[1]), self._count)
        return spaces

    # Stepping

    def request_step(self, action: Any) -> m.Request:
        """The request for a step: as rows if the far end takes them and they hold the very action. Hot."""
        if self.layout is not None:
            rows = self.layout.actions.pack(action)
            if rows is not None:
                return m.StepRows([], None, type(action) is int, rows)
        return m.Step([0], [action])

    def step(self, value: Any) -> tuple[Any, Any, Any, Any, Info]:
        """The five results of a step. Hot."""
        if type(value) is not list or len(value) != 1 or type(value[0]) is not list or len(value[0]) != 5:
            if type(value) is list and len(value) == 1 and type(value[0]) is Failed:
                raise self.failure(value[0])
            raise violation("step()", f"{describe_value(value)} came back, expected the five results of one step")
        observation, reward, terminated, truncated, info = value[0]
        if self.rules is None:
            return observation, reward, terminated, truncated, info
        if not self._fits(observation):
            raise not_a_member(self._batch, observation, "observation")
        self.check_numbers(reward, terminated, truncated)
        if type(info) is not dict or info:
            info = self.info(info)
        return observation, reward, terminated, truncated, info

    def check_numbers(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Raise EnvironmentViolation unless these are the other results of a step. Hot."""
        if self._count is not None:
            for (name, space, fits), value in zip(self._numbers, (reward, terminated, truncated), strict=True):
                if not fits(value):
                    raise not_a_member(space, value, name)
            return
        if not (type(reward) is float and self._low <= reward <= self._high):
            self._check_reward(reward)
        if type(terminated) is not bool and type(terminated) is not np.bool_:
            raise violation("terminated", f"{describe_value(terminated)} is not a bool")
        if type(truncated) is not bool and type(truncated) is not np.bool_:
            raise violation("truncated", f"{describe_value(truncated)} is not a bool")

    def _check_reward(self, reward: Any) -> None:
        if type(reward) not in (float, int) and not isinstance(reward, (np.floating, np.integer)):
            raise violation("reward", f"{describe_value(reward)} is not a number", rule="reward-type")
        # As Python's own number: a bound that float32 can't hold would become infinite in the comparison.
        number = reward.item() if isinstance(reward, np.generic) else reward
        if not self._low <= number <= self._high:
            low, high = self._rules.reward_range
            problem = f"{describe_value(reward)} is not a finite number within {low:g} and {high:g}"
            raise violation("reward", problem, rule="" if -math.inf < number < math.inf else "reward-not-finite")

    def outcome(self, outcome: Outcome) -> tuple[Any, Any, Any, Any, Info]:
        """The five results of one environment whose observations may be any JSON object. Hot."""
        observation = decode_object(outcome.observation, JSON_BYTES, self._rules.frames.depth)
        self.check_numbers(outcome.reward, outcome.terminated, outcome.truncated)
        return observation, outcome.reward, outcome.terminated, outcome.truncated, {}

    def reset(self, value: Any) -> tuple[Any, Info]:
        """Observation and info."""
        demand(type(value) is list and len(value) == 2, "reset()", value, "an observation and an info")
        return self.observation(value[0]), self.info(value[1])

    def observation(self, value: Any) -> Any:
        """A member of the space, of its very type and dtype; of lanes, one for each."""
        if self.rules is not None and not self._fits(value):
            raise not_a_member(self._batch, value, "observation")
        return value

    def info(self, value: Any) -> Info:
        """A bounded dict with text keys. In lanes ``final_obs`` is an observation, or for each lane one or None."""
        if self.rules is None:
            return value  # type: ignore[no-any-return]
        demand(type(value) is dict, "info", value, "a dict")
        count, bounds, final = self._count, self.rules.info, {}
        if "final_obs" in value and (count is not None or self._lane is not None):
            value = dict(value)
            final["final_obs"] = self._per_lane(self._final, value.pop("final_obs"), "info['final_obs']")
        if count is not None:
            bounds = Bounds(bounds.bytes * count, bounds.depth + 1, bounds.entries * count)
        read: Info = ValueCheck("info", bounds).read(value)
        if final:
            read = {**final, **read}
        return read if count is None else lane_infos_from_wire(read, count)

    def _final(self, value: Any, path: str) -> Any:
        ended = self._count is None or value is not None
        if ended and not self._is_member(value):
            raise not_a_member(self.space, value, path)
        return value

    def _per_lane(self, read: Callable[[Any, str], Any], value: Any, path: str) -> Any:
        """What ``read`` makes of the value; of lanes, a list of what it makes of each lane's."""
        if self._count is None:
            return read(value, path)
        complete = type(value) in (list, tuple) and len(value) == self._count
        demand(complete, path, value, f"a value for each of {self._count} lanes")
        return [read(one, f"{path}[{lane}]") for lane, one in enumerate(value)]

    # Asking

    def state(self, value: Any) -> Any:
        """Episode id, step count, and what the environment shows; of lanes, these for each."""
        return self._per_lane(self._state, value, "state()")

    def _state(self, value: Any, path: str) -> tuple[str | None, int | None, Any]:
        demand(type(value) is list and len(value) == 3, path, value, "three parts")
        episode_id, step_count, public = value
        if episode_id is not None:
            named = type(episode_id) is str and len(episode_id) <= _NAME_CHARACTERS
            demand(named, f"{path}.episode_id", episode_id, "a name")
            episode_id = strip_escapes(episode_id)
        if step_count is not None:
            counted = type(step_count) is int and 0 <= step_count < 1 << 63
            demand(counted, f"{path}.step_count", step_count, "a count")
        return episode_id, step_count, ValueCheck(f"{path}.public", self._rules.value, wide=True).read(public)

    def render(self, value: Any, mode: str | None) -> Any:
        """A picture or several, or text; in the mode "ansi" text keeps its colours. Of lanes, a tuple of these."""
        if value is None:
            return None
        ansi = mode is not None and mode.startswith("ansi")

        def read(one: Any, path: str) -> Any:
            if mode in _PICTURES:
                picture = type(one) is np.ndarray and one.dtype.kind in _REAL and one.ndim in _PICTURES[mode]
                demand(picture, path, one, f"a picture, which the mode {mode!r} requires")
            if ansi:
                demand(type(one) in (str, list, tuple), path, one, f"text, which the mode {mode!r} requires")
            bounds = Bounds(self._rules.space_bytes, depth=2, entries=self._rules.value.entries)
            return ValueCheck(path, bounds, colours=ansi).read(one)

        found = self._per_lane(read, value, "render()")
        return found if self._count is None else tuple(found)

    def snapshot(self, value: Any) -> bytes:
        """What Restore takes."""
        demand(type(value) is bytes, "snapshot()", value, "bytes")
        return value  # type: ignore[no-any-return]

    def value(self, value: Any, name: str) -> Any:
        """What the attribute ``name`` is, or returned; of lanes, one for each."""
        fits, expected = _ATTRIBUTES.get(name, (lambda value: True, "anything"))
        self._per_lane(lambda one, path: demand(fits(one), path, one, expected), value, name)
        return ValueCheck(name, self._rules.value, wide=True).read(value)

    def _call(self, request: m.Call, value: Any) -> Any:
        if self._count is not None:
            return self._call_lanes(request, value)
        if request.how == "has":
            known = type(value) is str and value in ("", "value", "callable")
            demand(known, "has_wrapper_attr()", value, "whether there is one")
            return value
        if request.how == "set":  # what setting returns is not the attribute's value
            demand(type(value) is bool, f"set_wrapper_attr({request.name!r})", value, "a bool")
            return value
        return self.value(value, request.name)

    def _call_lanes(self, request: m.Call, value: Any) -> Any:
        """What a method of all lanes returned."""
        if request.name == "reset":
            return self.reset(list(value) if type(value) is tuple else value)
        return tuple(self.value(value, request.args[0])) if request.name in ("call", "get_attr") else None


_READERS: dict[type, Callable[[Judge, Any], Any]] = {
    m.State: Judge.state,
    m.Render: lambda judge, value: judge.render(value, judge._mode),
    m.Snapshot: Judge.snapshot,
}


# Rows that a worker shares: results of many environments at once


class Breach(Exception):
    """What a worker said about a row, for which it must be killed."""

    def __init__(self, row: int, error: PaddockError) -> None:
        super().__init__(str(error))
        self.row, self.error = row, error


class RowJudge:
    """Reads the rows that a worker shares: as they are if it is trusted, else a copy that was checked.

    ``judges``: one per row, of its environment.
    """

    def __init__(self, step_layout: StepLayout, judges: Sequence[Judge]) -> None:
        self._judges, first = judges, judges[0]
        self._copy = copy = None if first.rules is None else Block(step_layout)
        self._tests: list[tuple[Test, Any]] = []  # of all rows at once, if their environments are alike
        if copy is not None and copy.observations is not None and all(one.space == first.space for one in judges):
            self._tests = [
                (member_test(batch_space(first.space, len(judges))), copy.observations),
                (member_test(first.reward_space(len(judges))), copy.rewards),
                (are_bits, copy.flags),
            ]

    def read(self, block: Block, rows: Sequence[int]) -> Block:
        """The results of these rows; Breach for a lie. Hot: runs once per step and worker."""
        copy = self._copy
        if copy is None:
            return block
        copy.copy_results(block)
        if self._tests and len(rows) == block.rows:
            for fit, values in self._tests:
                if not fit(values):
                    break
            else:
                return copy
        for row in rows:
            try:
                _check_row(self._judges[row], copy, row)
            except EnvironmentViolation as error:
                raise Breach(row, error) from None
        return copy


def _check_row(judge: Judge, block: Block, row: int) -> None:
    numbers = block.rewards[row].item(), FLAGS[block.terminations[row]], FLAGS[block.truncations[row]]
    judge.check_numbers(*numbers)
    if block.observations is not None:  # else it is in the notes of the reply
        # A bool stays an array: as a scalar it would hide which byte it is.
        judge.observation(each(lambda a: a[row, ...] if a.dtype == np.bool_ else a[row], block.observations))


def read_notes(notes: Any, rows: Sequence[int], *, loose: bool) -> dict[int, tuple[Any, ...]]:
    """What a step's reply says about its rows, by row: (info,), (info, observation) or (Failed,).

    ``loose``: observations have no fixed size, so the reply holds one for each row that was stepped. BadFrame for a
    reply that paddock's own workers would not send.
    """
    if not isinstance(notes, list) or not all(type(one) is list and one and type(one[0]) is int for one in notes):
        raise BadFrame("Step: the reply is not a list of notes.")
    found = {one[0]: tuple(one[1:]) for one in notes}
    if not found.keys() <= set(rows) or (loose and len(found) < len(rows)):
        raise BadFrame("Step: the reply has notes about other environments than those that were asked for.")
    for note in found.values():
        failed = len(note) == 1 and isinstance(note[0], m.Failed)
        if not failed and not (len(note) == 1 + loose and isinstance(note[0], dict)):
            raise BadFrame("Step: a note of the reply is neither an info nor a failure.")
    return found


# What a worker says its environment is. All of it is data; nothing is loaded.


_MODE_CHARACTERS = 64
_MODES = 64


def read_description(value: Any, rules: WallRules | None) -> Description:
    """The Description in the reply to a Make; with rules its text is made plain. ``read_spaces`` does the spaces."""
    try:
        described = msgspec.convert(value, Description)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise violation("description", f"it is malformed: {shorten(str(error), 200)}") from None
    if rules is None:
        return described
    metadata = _read_metadata(described.metadata, rules)
    mode = described.render_mode
    named = mode is None or (len(mode) <= _MODE_CHARACTERS and strip_escapes(mode) == mode)
    demand(named, "render_mode", mode, "the name of a mode")
    spec = None if described.spec is None else _read_spec_text(described.spec, rules)
    return msgspec.structs.replace(described, metadata=metadata, spec=spec, custom=shorten(described.custom, 200))


def _read_metadata(metadata: dict[str, Any], rules: WallRules) -> dict[str, Any]:
    read: dict[str, Any] = ValueCheck("metadata", rules.info, wide=True).read(metadata)
    modes, fps = read.get("render_modes", []), read.get("render_fps")
    named = type(modes) in (list, tuple) and len(modes) <= _MODES and all(type(mode) is str for mode in modes)
    demand(named, "metadata['render_modes']", modes, "a list of names")
    numeric = fps is None or (isinstance(fps, (int, float, np.integer, np.floating)) and 0 <= fps < math.inf)
    demand(bool(numeric), "metadata['render_fps']", fps, "a number")
    return read


def _read_spec_text(text: str, rules: WallRules) -> str:
    """The spec's JSON with its text made plain: JSON can hide an escape sequence behind letters."""
    try:
        value = read_json(text, SPEC_LIMITS)
    except NotJson as error:
        raise violation("spec", f"it is malformed: {error}") from None
    return json.dumps(ValueCheck("spec", rules.value).read(value))


def read_spaces(
    described: Description, rules: WallRules | None, *, count: int | None = None
) -> tuple[Space[Any], Space[Any]]:
    """The observation and the action space; with rules within bounds, which hold for ``count`` lanes together too."""
    observations, actions = described.observation_space, described.action_space
    if rules is None:
        if observations is None or actions is None:
            raise BadFrame(f"The environment's spaces are of its own classes ({described.custom}): no wire form.")
        return from_json(observations), from_json(actions)
    spaces = (
        read_space(observations, "observation_space", limit=rules.space_bytes),
        read_space(actions, "action_space", limit=rules.space_bytes),
    )
    if count is not None:
        check_size(spaces[0], "observation_space", limit=rules.lanes_bytes, count=count)
        check_size(spaces[1], "action_space", limit=rules.lanes_bytes, count=count)
    return spaces


def read_spec(described: Description, rules: WallRules | None) -> EnvSpec | None:
    """What makes the environment again. With rules it names no code, so that making it imports nothing.

    None for an id that ``make`` would take for a module or a folder.
    """
    if described.spec is None or rules is None:
        return None if described.spec is None else decode_spec(described.spec)
    try:
        spec = decode_spec(described.spec)
    except Exception as error:  # InvalidSpec, and what a space in its arguments may raise
        raise violation("spec", f"it is malformed: {shorten(str(error), 300)}") from None
    if ":" in spec.id or spec.id.startswith("."):
        return None
    return replace(spec, entry_point=None, vector_entry_point=None, additional_wrappers=())
