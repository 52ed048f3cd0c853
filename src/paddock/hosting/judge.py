"""The judge of what a far end says: a reply becomes the values that its caller gets, or an error.

With WallRules nothing is believed that was not checked: a lie is an EnvironmentViolation with the path of the field,
and the code that sent the request kills the far end. Without rules (the caller's own code runs there) all of it is.
Results in shared memory are copied before they are checked: a worker can write there at any time.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import ge, le
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from paddock.core.env import Info
from paddock.core.spec import EnvSpec
from paddock.core.spec_json import MAX_JSON_BYTES, decode_spec
from paddock.core.vector_env import lane_infos_from_wire
from paddock.errors import BadFrame, EnvironmentViolation, PaddockError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.failures import to_error, walled_error
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.messages import JSON_BYTES, Description, Failed, Limits, Outcome
from paddock.hosting.untrusted import (
    ValueCheck,
    decode_object,
    describe_value,
    is_open_object,
    member_test,
    quote_key,
    read_space,
    violation,
    wrong_place,
)
from paddock.sandbox.plain_text import shorten, strip_escapes
from paddock.sandbox.policy import CALL_S, INFO_KB, REWARD_RANGE, START_S
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.batch import batch_space, iterate
from paddock.spaces.json_form import from_json
from paddock.spaces.rows import layout, take_row

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy

Array = np.ndarray[Any, Any]


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


_RULES = WallRules()
_NAME_CHARACTERS = 200
_PICTURES = {"rgb_array": (3,), "depth_array": (2, 3)}  # modes with the dimensions of a picture
_REAL = "biuf"
UNMADE = Discrete(1)  # stands in for the observation space until the environment is made


class Judge:
    """Reads the replies about one environment, which observes ``observation_space``. No ``rules``: it is trusted.

    ``lane``: it is one of several, so an info may hold the last observation of the previous episode.
    """

    def __init__(
        self, observation_space: Space[Any] = UNMADE, rules: WallRules | None = _RULES, *, lane: int | None = None
    ) -> None:
        self.rules, self._lane = rules, lane
        self._mode: str | None = None
        self.layout: StepLayout | None = None  # of its steps, if the far end takes rows
        self.observe(observation_space)

    def observe(self, observation_space: Space[Any]) -> None:
        """Expect members of this space from now on."""
        self.space = observation_space
        if self.rules is not None:
            self._is_member = member_test(observation_space)
            self.low, self.high = finite_range(self.rules.reward_range)

    @property
    def ends(self) -> tuple[type[PaddockError], ...]:
        """Errors after which the far end must be killed."""
        return () if self.rules is None else (EnvironmentViolation, WorkerLost)

    def read(self, request: m.Request, reply: m.StepReply) -> Any:
        """What the caller of a request gets for the reply; raises what it says, or what is wrong with it. Hot."""
        if type(reply) is Failed:
            raise self.failure(reply)
        if type(reply) is m.Rows:
            try:
                if type(request) is not m.StepRows or self.layout is None or reply.rows is None:
                    raise BadFrame("rows came that were not asked for")
                (info,) = ({},) if reply.notes is None else read_notes(reply.notes, [0], loose=False).get(0, ({},))
                return self.step([[*self.layout.take_result(reply.rows, plain=reply.plain), info]])
            except BadFrame as error:
                raise violation("step()", str(error)) from None
        kind, value = type(request), reply.value  # type: ignore[union-attr]
        if kind is m.Step or kind is m.StepRows:
            return self.step(value)
        if kind is m.Reset:
            return self.reset(value)
        if kind is m.Call:
            return self._call(request, value)  # type: ignore[arg-type]
        if kind is m.State:
            return self.state(value)
        if kind is m.Render:
            return self.render(value, self._mode)
        if kind is m.Snapshot:
            return self.snapshot(value)
        return self.make(value) if kind is m.Make else None

    def failure(self, reply: Failed) -> PaddockError:
        """The error that a failure stands for."""
        if self.rules is None:
            return to_error(reply, lane=self._lane)
        return walled_error(reply, lane=self._lane, server=self.rules.server)

    def make(self, value: Any) -> Description:
        """What the environment is."""
        described = read_description(value) if self.rules is None else check_description(value, self.rules)
        self._mode = described.render_mode
        return described

    def spaces(
        self, described: Description, own: tuple[Space[Any], Space[Any]] | None = None, *, rows: bool = True
    ) -> tuple[Space[Any], Space[Any]]:
        """The spaces of the environment that was made, by which its steps are read from now on.

        ``own``: those of a user's own class, which have no form on the wire. ``rows``: steps may be sent as rows.
        """
        spaces = own or (read_spaces(described) if self.rules is None else check_spaces(described, self.rules))
        self.observe(spaces[0])
        if described.rows and rows:
            self.layout = StepLayout(layout(spaces[0]), layout(spaces[1]), described.num_envs)
        return spaces

    def spec(self, described: Description) -> EnvSpec | None:
        """What makes the environment again."""
        if self.rules is not None:
            return check_spec(described)
        return None if described.spec is None else decode_spec(described.spec)

    def request_step(self, action: Any) -> m.Request:
        """The request for a step: as rows if the far end takes them and they hold the very action. Hot."""
        if self.layout is not None:
            rows = self.layout.actions.pack(action)
            if rows is not None:
                return m.StepRows([], None, type(action) is int, rows)
        return m.Step([0], [action])

    def _call(self, request: m.Call, value: Any) -> Any:
        if request.how == "has":
            return self.attribute_kind(value)
        # What setting returns is not the attribute's value.
        return self.value(value, f"set_wrapper_attr({request.name!r})" if request.how == "set" else request.name)

    def reset(self, value: Any) -> tuple[Any, Info]:
        """Observation and info."""
        if type(value) is not list or len(value) != 2:
            raise violation("reset()", f"{describe_value(value)} came back, expected an observation and an info")
        return self.observation(value[0]), self.info(value[1])

    def step(self, value: Any) -> tuple[Any, Any, Any, Any, Info]:
        """The five results of one environment. Hot."""
        if type(value) is list and len(value) == 1 and type(result := value[0]) is list and len(result) == 5:
            observation, reward, terminated, truncated, info = result
            if self.rules is None:
                return observation, reward, terminated, truncated, info
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
        raise self._no_result(value)

    def _no_result(self, value: Any) -> PaddockError:
        if type(value) is list and len(value) == 1 and type(value[0]) is Failed:
            return self.failure(value[0])
        return violation("step()", f"{describe_value(value)} came back, expected the five results of one step")

    @property
    def takes_json(self) -> bool:
        """Whether every JSON object is an observation."""
        return is_open_object(self.space)

    def outcome(self, outcome: Outcome) -> tuple[Any, Any, Any, Any, Info]:
        """The five results of one environment that ``takes_json``. Hot."""
        observation = decode_object(outcome.observation, JSON_BYTES, (self.rules or _RULES).frames.depth)
        if not self.low <= outcome.reward <= self.high:
            self._check_reward(outcome.reward)
        return observation, outcome.reward, outcome.terminated, outcome.truncated, {}

    def observation(self, value: Any, path: str = "observation") -> Any:
        """A member of the space, of its very type and dtype."""
        if self.rules is not None and not self._is_member(value):
            raise violation(*wrong_place(self.space, value, path))
        return value

    def _check_reward(self, reward: Any) -> None:
        if type(reward) not in (float, int) and not isinstance(reward, (np.floating, np.integer)):
            raise violation("reward", f"{describe_value(reward)} is not a number", rule="reward-type")
        # As Python's own number: a bound that float32 can't hold would become infinite in the comparison.
        number = reward.item() if isinstance(reward, np.generic) else reward
        if not self.low <= number <= self.high:
            raise out_of_range(reward, self.rules or _RULES)

    def info(self, value: Any, path: str = "info") -> Info:
        """A bounded dict with text keys. In a lane the entry ``final_obs`` is an observation."""
        rules = self.rules
        if rules is None:
            return value  # type: ignore[no-any-return]
        if type(value) is not dict:
            raise violation(path, f"{describe_value(value)} is not a dict")
        if not value:
            return value
        final = self._lane is not None and "final_obs" in value
        rest = {key: one for key, one in value.items() if key != "final_obs"} if final else value
        check = ValueCheck(path, max_bytes=rules.info_bytes, depth=rules.info_depth, entries=rules.info_entries)
        read: Info = check.read(rest)
        return {"final_obs": self.observation(value["final_obs"], f"{path}['final_obs']"), **read} if final else read

    def state(self, value: Any) -> Any:
        """Episode id, step count, and what the environment shows."""
        if self.rules is None:
            return tuple(value)
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
        if value is None or rules is None:
            return value
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
        """What Restore takes."""
        if self.rules is not None and type(value) is not bytes:
            raise violation("snapshot()", f"{describe_value(value)} came back, expected bytes")
        return value  # type: ignore[no-any-return]

    def value(self, value: Any, name: str) -> Any:
        """What the attribute ``name`` is, or returned."""
        if self.rules is None:
            return value
        if name == "np_random" and not isinstance(value, np.random.Generator):
            raise violation(name, f"{describe_value(value)} is not a random generator")
        if name == "np_random_seed" and type(value) is not int and not isinstance(value, np.integer):
            raise violation(name, f"{describe_value(value)} is not a seed")
        if name.startswith("set_wrapper_attr(") and type(value) is not bool:
            raise violation(name, f"{describe_value(value)} is not a bool")
        return self._read(value, name)

    def attribute_kind(self, value: Any) -> str:
        """Whether there is such an attribute, and whether it can be called."""
        if self.rules is None:
            return value  # type: ignore[no-any-return]
        if value not in ("", "value", "callable") or type(value) is not str:
            raise violation("has_wrapper_attr()", f"{describe_value(value)} came back, expected whether there is one")
        return value

    def _read(self, value: Any, path: str) -> Any:
        rules = self.rules or _RULES
        check = ValueCheck(
            path, max_bytes=rules.value_bytes, depth=rules.value_depth, entries=rules.value_entries, wide=True
        )
        return check.read(value)


class LanesJudge(Judge):
    """Reads the replies about ``count`` lanes that the far end holds as one environment, whole arrays at a time.

    Each lane observes members of ``single``, and may bring as much of everything as an environment by itself.
    """

    def __init__(self, count: int, rules: WallRules, single: Space[Any] = UNMADE) -> None:
        self._count = count
        super().__init__(single, rules)

    def observe(self, observation_space: Space[Any]) -> None:
        super().observe(observation_space)
        self._batch = batch_space(observation_space, self._count)
        self._tests = RowTests([observation_space] * self._count, self.rules or _RULES)

    def step(self, value: Any) -> tuple[Any, Array, Array, Array, Info]:
        """The five results of all lanes. Hot."""
        if type(value) is not list or len(value) != 1 or type(value[0]) not in (list, tuple) or len(value[0]) != 5:
            raise self._no_result(value)
        observations, rewards, terminations, truncations, infos = value[0]
        if type(rewards) is not np.ndarray or rewards.dtype != np.float64 or rewards.shape != (self._count,):
            raise violation("reward", f"{describe_value(rewards)}, expected float64[{self._count}]")
        if not self._tests.rewards_fit(rewards):
            (lane, *_) = np.flatnonzero(~((rewards >= self.low) & (rewards <= self.high))).tolist()
            raise out_of_range(rewards[lane], self.rules or _RULES)
        for flags, name in ((terminations, "terminated"), (truncations, "truncated")):
            if type(flags) is not np.ndarray or flags.dtype != np.bool_ or flags.shape != (self._count,):
                raise violation(name, f"{describe_value(flags)}, expected bool[{self._count}]")
            if not are_bits(flags):
                raise violation(name, "a byte of it is not a bool")
        infos = self.info(infos) if type(infos) is not dict or infos else infos
        return self.observation(observations), rewards, terminations, truncations, infos

    def observation(self, value: Any, path: str = "observation") -> Any:
        """A member of the single space for each lane."""
        if self._tests.leaves is None:
            try:
                each = list(iterate(self._batch, value))
            except Exception:  # a nesting that the space does not have
                each = []
            if len(each) != self._count:
                raise violation(
                    path, f"{describe_value(value)}, expected an observation for each of {self._count} lanes"
                )
            for lane, one in enumerate(each):
                super().observation(one, f"lane {lane}: {path}")
            return value
        for leaf, array in zip(self._tests.leaves[0], _arrays(self.space, value, path), strict=True):
            shape = (self._count, *leaf.shape)
            if type(array) is not np.ndarray or array.dtype != leaf.dtype or array.shape != shape:
                raise violation(
                    leaf.path, f"{describe_value(array)}, expected {leaf.dtype}{list(shape)}, a row for each lane"
                )
            if not leaf.all_fit(array):
                for lane in range(self._count):
                    if (found := leaf.problem(array, lane)) is not None:
                        raise violation(f"lane {lane}: {found[0]}", found[1])
        return value

    def info(self, value: Any, path: str = "info") -> Info:
        """The infos of all lanes."""
        if type(value) is not dict:
            raise violation(path, f"{describe_value(value)} is not a dict")
        rules, count, final = self.rules or _RULES, self._count, value.get("final_obs")
        rest = {key: one for key, one in value.items() if key != "final_obs"} if final is not None else value
        check = ValueCheck(
            path,
            max_bytes=rules.info_bytes * count,
            depth=rules.info_depth + 1,
            entries=rules.info_entries * count,
        )
        read: Info = check.read(rest)
        if final is not None:
            final_path = f"{path}['final_obs']"
            if type(final) is not list or len(final) != count:
                raise violation(final_path, f"{describe_value(final)}, expected an entry for each of {count} lanes")
            for lane, one in enumerate(final):
                if one is not None:
                    super().observation(one, f"lane {lane}: {final_path}")
            read = {"final_obs": final, **read}
        return lane_infos_from_wire(read, count)

    def state(self, value: Any) -> Any:
        return tuple(super(LanesJudge, self).state(one) for one in self._one_per_lane(value, "state()"))

    def render(self, value: Any, mode: str | None) -> Any:
        if value is None:
            return None
        return tuple(super(LanesJudge, self).render(one, mode) for one in self._one_per_lane(value, "render()"))

    def _call(self, request: m.Call, value: Any) -> Any:
        if request.name == "reset":
            return self.reset(list(value) if type(value) is tuple else value)
        if request.name not in ("call", "get_attr"):
            return None
        name = request.args[0]
        self._one_per_lane(value, name)
        if name in ("np_random", "np_random_seed"):
            return tuple(self.value(one, name) for one in value)
        return tuple(self.value(value, name))

    def _one_per_lane(self, value: Any, name: str) -> Any:
        if type(value) not in (list, tuple) or len(value) != self._count:
            raise violation(name, f"{describe_value(value)}, expected a value for each of {self._count} lanes")
        return value


def _arrays(space: Space[Any], value: Any, path: str) -> Iterator[Any]:
    """The leaves of a value that must be nested like the space, in the space's order."""
    if isinstance(space, Dict):
        if type(value) is not dict or value.keys() != space.spaces.keys():
            raise violation(path, f"{describe_value(value)}, expected a dict with the keys of {space}")
        for key, part in space.spaces.items():
            yield from _arrays(part, value[key], f"{path}[{key!r}]")
    elif isinstance(space, Tuple):
        if type(value) is not tuple or len(value) != len(space.spaces):
            raise violation(path, f"{describe_value(value)}, expected a tuple of {len(space.spaces)}")
        for index, part in enumerate(space.spaces):
            yield from _arrays(part, value[index], f"{path}[{index}]")
    else:
        yield value


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


class Breach(Exception):
    """What a worker said about a row, for which it must be killed."""

    def __init__(self, row: int, error: PaddockError) -> None:
        super().__init__(str(error))
        self.row, self.error = row, error


# Rows: results of many environments at once. dtypes and shapes are those of the layout, so only values are tested.


Test = Callable[[Array], bool]

_BITS = b"\0\1"
# Up to this many numbers, bounds are repeated for each row: that makes comparing faster.
_FEW = 4096
# Up to this many, Python's own numbers compare faster than NumPy's arrays.
_A_HANDFUL = 16


class RowJudge:
    """Reads the rows that a worker shares: as they are without rules, else a copy that was checked.

    ``spaces``: what each row's environment declared.
    """

    def __init__(self, step_layout: StepLayout, spaces: Sequence[Space[Any]], rules: WallRules | None) -> None:
        self._copy = None if rules is None else Block(step_layout)
        self._tests = None if rules is None else RowTests(spaces, rules)

    def read(self, block: Block, rows: Sequence[int]) -> Block:
        """The results of these rows; Breach for a lie. Hot: runs once per step and worker."""
        if self._copy is None or self._tests is None:
            return block
        self._copy.copy_results(block)
        if len(rows) != block.rows or not self._tests.all_fit(self._copy):
            for row in rows:
                if (error := self._tests.problem(self._copy, row)) is not None:
                    raise Breach(row, error)
        return self._copy


class RowTests:
    """Tests of rows by the spaces that each row's environment declared."""

    def __init__(self, spaces: Sequence[Space[Any]], rules: WallRules) -> None:
        self._rules, count = rules, len(spaces)
        self._low, self._high = finite_range(rules.reward_range)
        self.rewards_fit = _between(np.full(count, self._low), np.full(count, self._high))
        self.leaves: list[list[Leaf]] | None = None  # of each row, or of the first if all are alike
        if layout(spaces[0]) is not None:
            alike = all(space == spaces[0] for space in spaces)
            self.leaves = [list(_leaves(space, count)) for space in (spaces[:1] if alike else spaces)]

    def all_fit(self, block: Block) -> bool:
        """Whether nothing is wrong with any row; False may be a false alarm."""
        if block.flags.tobytes().translate(None, _BITS) or not self.rewards_fit(block.rewards):
            return False
        if self.leaves is not None and len(self.leaves) == 1:
            for leaf in self.leaves[0]:  # noqa: SIM110 - faster than all() over a generator
                if not leaf.all_fit(leaf.of(block.observations)):
                    return False
            return True
        return all(self.problem(block, row) is None for row in range(block.rows))

    def problem(self, block: Block, row: int) -> EnvironmentViolation | None:
        """What is wrong with this row, if anything. Slow."""
        if self.leaves is not None:
            for leaf in self.leaves[row if len(self.leaves) > 1 else 0]:
                if (found := leaf.problem(leaf.of(block.observations), row)) is not None:
                    return violation(*found)
        if not self._low <= block.rewards[row] <= self._high:
            return out_of_range(block.rewards[row], self._rules)
        for name, flags in (("terminated", block.terminations), ("truncated", block.truncations)):
            if flags[row] > 1:
                return violation(name, f"{flags[row]} is not a bool")
        return None


class Leaf(NamedTuple):
    """The tests of one array of the observations, with a row for each environment."""

    keys: tuple[str | int, ...]  # where it is among the observations
    path: str
    space: Space[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of one row
    all_fit: Test  # of the whole array
    some_fit: Test  # of some of its rows

    def of(self, observations: Any) -> Array:
        """The array among observations that are nested like the space."""
        for key in self.keys:
            observations = observations[key]
        return observations  # type: ignore[no-any-return]

    def problem(self, values: Array, row: int) -> tuple[str, str] | None:
        """Where a row is wrong, and how."""
        part = values[row : row + 1]
        if self.some_fit(part):
            return None
        if part.dtype == np.bool_ and not are_bits(part):
            return self.path, "a byte of it is not a bool"
        return wrong_place(self.space, take_row(values, row), self.path)


def _leaves(
    space: Space[Any], count: int, keys: tuple[str | int, ...] = (), path: str = "observation"
) -> Iterator[Leaf]:
    """The arrays of the space, in its order."""
    if isinstance(space, Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, count, (*keys, key), f"{path}[{quote_key(key)}]")
    elif isinstance(space, Tuple):
        for index, part in enumerate(space.spaces):
            yield from _leaves(part, count, (*keys, index), f"{path}[{index}]")
    else:
        name, shape = layout(space)["array"]  # type: ignore[index]
        test = _some_fit(space)
        yield Leaf(keys, path, space, np.dtype(name), tuple(shape), _all_fit(space, (count, *shape)) or test, test)


def _some_fit(space: Space[Any]) -> Test:
    """A test of many rows at once. dtype and shape are those of the layout, so it only tests values."""
    kind = type(space)
    if kind is Box and isinstance(space, Box):
        if space.dtype == np.bool_:
            return lambda values: are_bits(values) and space._within(values)
        return space._within
    if kind is Discrete and isinstance(space, Discrete):
        return partial(_within, space._first, space._end - 1)
    if kind is MultiDiscrete and isinstance(space, MultiDiscrete):
        return partial(_within, space.start, space._last)
    if kind is MultiBinary:
        return are_bits
    test = member_test(space)  # the caller's own class
    return lambda values: all(test(take_row(values, row)) for row in range(len(values)))


def _all_fit(space: Space[Any], shape: tuple[int, ...]) -> Test | None:
    """A faster test for all rows of a small float Box, the commonest observation; else None."""
    if not isinstance(space, Box) or type(space) is not Box or math.prod(shape) > _FEW or space.dtype.kind != "f":
        return None
    low, high = (np.broadcast_to(bound, shape).copy() for bound in (space.low, space.high))
    return _between(low, high)


def _between(low: Array, high: Array) -> Test:
    """Whether an array of this very shape lies within the bounds; NaN does not."""
    if low.size > _A_HANDFUL:
        return partial(_within, low, high)
    lows, highs = low.ravel().tolist(), high.ravel().tolist()

    def within(values: Array) -> bool:
        numbers = values.ravel().tolist()
        return all(map(le, lows, numbers)) and all(map(ge, highs, numbers))

    return within


def _within(low: Any, high: Any, values: Array) -> bool:
    # Searching the bytes for a False is several times faster than `.all()` on small arrays.
    return b"\0" not in (values >= low).tobytes() and b"\0" not in (values <= high).tobytes()


def are_bits(values: Array) -> bool:
    """Whether each byte is 0 or 1, as a bool's is."""
    return not values.tobytes().translate(None, _BITS)


def finite_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The range without infinity: a reward must be finite, and NaN is in no range."""
    low, high = reward_range
    return max(low, -sys.float_info.max), min(high, sys.float_info.max)


def out_of_range(reward: Any, rules: WallRules) -> EnvironmentViolation:
    """The error for a reward that is a number outside the declared range."""
    low, high = rules.reward_range
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


def read_description(value: Any) -> m.Description:
    """The Description in the reply to a Make."""
    try:
        return msgspec.convert(value, m.Description)
    except msgspec.ValidationError as error:
        raise BadFrame(f"The reply does not describe an environment: {error}.") from None


def read_spaces(described: m.Description) -> tuple[Space[Any], Space[Any]]:
    """Rebuild the observation and the action space."""
    observations, actions = described.observation_space, described.action_space
    if observations is None or actions is None:
        raise BadFrame(f"The environment has spaces of its own classes ({described.custom}), which have no wire form.")
    return from_json(observations), from_json(actions)


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
