"""Judges of what untrusted workers say about lanes: LaneJudge per worker's reply, BatchJudge for a server's n lanes.

A lie is an EnvironmentViolation that names the field, and the lane where that is known. Results in shared memory are
copied before they are checked: the worker can write at any time, also between a check and the use of what was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import ge, le
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paddock.core.env import Info
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode
from paddock.errors import BadFrame, EnvironmentViolation, PaddockError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.block import Block, size_of
from paddock.hosting.judge import Judge, WallRules, check_description, finite_range, out_of_range, walled_error
from paddock.hosting.messages import Failed
from paddock.hosting.untrusted import ValueCheck, describe_value, member_test, quote_key, violation, wrong_place
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.batch import batch_space, iterate
from paddock.spaces.rows import empty, layout, take_row
from paddock.vector.lanes import lane_infos_from_wire

if TYPE_CHECKING:  # a remote client judges too, and starts no workers
    from paddock.vector.lane_worker import Kind, LaneWorker

Array = np.ndarray[Any, Any]
Test = Callable[[Array], bool]
Result = tuple[Any, Array, Array, Array, Info]

_UNMADE = Discrete(1)  # stands in for the observation space until lanes are made
_BITS = b"\0\1"
# Up to this many numbers, bounds are repeated for each row: that makes comparing faster.
_FEW = 4096
# Up to this many, Python's own numbers compare faster than NumPy's arrays.
_A_HANDFUL = 16


def notes_by_row(notes: Any, rows: Sequence[int], *, loose: bool) -> dict[int, tuple[Any, ...]]:
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


def observation_and_info(value: Any) -> tuple[Any, Info]:
    """The two parts of a reset's reply, or BadFrame."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not isinstance(value[1], dict):
        raise BadFrame("Reset: the reply is not an observation and an info.")
    return value[0], value[1]


class Breach(Exception):
    """What a worker said about a row, for which it must be killed."""

    def __init__(self, row: int, error: PaddockError) -> None:
        super().__init__(str(error))
        self.row, self.error = row, error


class LaneJudge:
    """A Judge for each of ``num_envs`` lanes. Every reply of an untrusted worker passes here."""

    def __init__(self, rules: WallRules, num_envs: int) -> None:
        self._rules = rules
        self._judges = [Judge(_UNMADE, rules, lane=lane) for lane in range(num_envs)]
        self._rows: dict[int, CheckedRows] = {}  # by the first lane of the worker
        self._modes: dict[int, str | None] = {}

    def adopt(self, declared: Sequence[Space[Any]], single: Space[Any], workers: Sequence[LaneWorker]) -> None:
        """Take the observation space that each lane declared, and the one by which memory is laid out."""
        self._judges = [Judge(space, self._rules, lane=lane) for lane, space in enumerate(declared)]
        self._rows = {worker.lanes[0]: CheckedRows(declared[worker.part], single, self._rules) for worker in workers}

    def error(self, reply: m.Failed, lane: int) -> PaddockError:
        """The error to raise for a failure."""
        return walled_error(reply, lane=lane)

    def rows_of(self, worker: LaneWorker) -> CheckedRows:
        """What ``check_reply`` copied out of the worker's memory."""
        return self._rows[worker.lanes[0]]

    def check_reply(self, worker: LaneWorker, kind: Kind, rows: Sequence[int], reply: m.Reply) -> m.Reply:
        """The reply, with text made plain. Breach for a lie, BadFrame for what is not a reply."""
        if kind == "step":
            return self._step(worker, rows, reply)
        if not rows:
            return reply
        row = rows[0]
        if isinstance(reply, m.Failed):
            self._refuse_if_out_of_memory(row, reply)
            return reply
        try:
            return m.Done(self._read(worker, worker.lanes[row], kind, reply.value))
        except EnvironmentViolation as error:
            raise Breach(row, error) from None

    def _read(self, worker: LaneWorker, lane: int, kind: Kind, value: Any) -> Any:
        judge, request = self._judges[lane], worker.last_request
        if kind == "make":
            described = check_description(value, self._rules)
            self._modes[lane] = described.render_mode
            return described
        if kind == "reset":
            return judge.reset(value)
        if isinstance(request, m.Render):
            return judge.render(value, self._modes.get(lane))
        if isinstance(request, m.State):
            return judge.state(value)
        if isinstance(request, m.Snapshot):
            return judge.snapshot(value)
        if isinstance(request, m.Call):
            return judge.value(value, f"set_attr({request.name!r})" if request.how == "set" else request.name)
        return None

    def _step(self, worker: LaneWorker, rows: Sequence[int], reply: m.Reply) -> m.Reply:
        if isinstance(reply, m.Failed):
            self._refuse_if_out_of_memory(rows[0], reply)
            return reply
        block = worker.block
        assert block is not None
        copy = self._rows[worker.lanes[0]]
        copy.copy_results(block)
        if reply.value is None and len(rows) == copy.rows and copy.observations is not None:
            if not copy.all_honest():
                self._accuse(copy, rows)
            return reply
        noted = notes_by_row([] if reply.value is None else reply.value, rows, loose=copy.observations is None)
        notes = [self._note(worker.lanes[row], row, parts) for row, parts in noted.items()]
        # A row that failed has no results, and those of rows that were not stepped do not count.
        self._accuse(copy, [row for row in rows if row not in noted or not isinstance(noted[row][0], m.Failed)])
        return m.Done(notes)

    def _note(self, lane: int, row: int, parts: tuple[Any, ...]) -> list[Any]:
        info, *observation = parts
        if isinstance(info, m.Failed):
            self._refuse_if_out_of_memory(row, info)
            return [row, info]
        judge = self._judges[lane]
        try:
            return [row, judge.info(info), *(judge.observation(one) for one in observation)]
        except EnvironmentViolation as error:
            raise Breach(row, error) from None

    def _accuse(self, copy: CheckedRows, rows: Sequence[int]) -> None:
        for row in rows:
            error = copy.problem(row)
            if error is not None:
                raise Breach(row, error)

    def _refuse_if_out_of_memory(self, row: int, reply: m.Failed) -> None:
        error = walled_error(reply)
        if isinstance(error, WorkerLost):
            raise Breach(row, error)


class Leaf(NamedTuple):
    """One array of the observations, with a row for each environment."""

    path: str
    space: Space[Any]
    values: Array
    all_fit: Test  # of the whole array
    some_fit: Test  # of some of its rows


class CheckedRows(Block):
    """A private block with copies of the results in a worker's own.

    ``spaces``: what each row's environment declared; ``single``: the space by which memory is laid out.
    """

    def __init__(self, spaces: Sequence[Space[Any]], single: Space[Any], rules: WallRules) -> None:
        form, count = layout(single), len(spaces)
        self._lay_out(bytearray(size_of(count, form, None)), count, form, None)
        self._range = rules.reward_range
        self._low, self._high = (np.full(count, bound) for bound in finite_range(rules.reward_range))
        self._rewards_fit = between(self._low, self._high)
        alike = all(space == spaces[0] for space in spaces)
        self._leaves = [list(leaves(space, self.observations)) for space in (spaces[:1] if alike else spaces)]

    def all_honest(self) -> bool:
        """Whether nothing is wrong with any row; False may be a false alarm. Hot: runs once per step and worker."""
        if self.flags.tobytes().translate(None, _BITS):
            return False
        if not self._rewards_fit(self.rewards):
            return False
        if len(self._leaves) == 1:
            for leaf in self._leaves[0]:  # noqa: SIM110 - faster than all() over a generator
                if not leaf.all_fit(leaf.values):
                    return False
            return True
        return all(self._observation_problem(row) is None for row in range(self.rows))

    def problem(self, row: int) -> EnvironmentViolation | None:
        """What is wrong with this row, if anything. Slow."""
        found = self._observation_problem(row)
        if found is not None:
            return found
        reward = self.rewards[row]
        if not self._low[row] <= reward <= self._high[row]:
            return out_of_range(reward, self._range)
        for name, flags in (("terminated", self.terminations), ("truncated", self.truncations)):
            if flags[row] > 1:
                return violation(name, f"{flags[row]} is not a bool")
        return None

    def _observation_problem(self, row: int) -> EnvironmentViolation | None:
        for leaf in self._leaves[row if len(self._leaves) > 1 else 0]:
            part = leaf.values[row : row + 1]
            if not leaf.some_fit(part):
                if part.dtype == np.bool_ and not are_bits(part):
                    return violation(leaf.path, "a byte of it is not a bool")
                return violation(*wrong_place(leaf.space, take_row(leaf.values, row), leaf.path))
        return None


def leaves(space: Space[Any], values: Any, path: str = "observation") -> Iterator[Leaf]:
    """The arrays of observations that are nested like the space, in the space's order, with their tests."""
    if isinstance(values, dict) and isinstance(space, Dict):
        for key, part in space.spaces.items():
            yield from leaves(part, values[key], f"{path}[{quote_key(key)}]")
    elif isinstance(values, tuple) and isinstance(space, Tuple):
        for index, part in enumerate(space.spaces):
            yield from leaves(part, values[index], f"{path}[{index}]")
    elif isinstance(values, np.ndarray):
        test = _some_fit(space)
        yield Leaf(path, space, values, _all_fit(space, values) or test, test)


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


def _all_fit(space: Space[Any], values: Array) -> Test | None:
    """A faster test for all rows of a small float Box, the commonest observation; else None."""
    if not isinstance(space, Box) or type(space) is not Box or values.size > _FEW or space.dtype.kind != "f":
        return None
    low, high = (np.broadcast_to(bound, values.shape).copy() for bound in (space.low, space.high))
    return between(low, high)


def between(low: Array, high: Array) -> Test:
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


class BatchJudge:
    """Judges what a far end says about ``num_envs`` lanes at once, whole arrays at a time.

    Each lane observes members of ``single``. Hot: ``step`` runs once per step.
    """

    def __init__(self, single: Space[Any], num_envs: int, rules: WallRules) -> None:
        self._single, self._count, self._rules = single, num_envs, rules
        self._batch = batch_space(single, num_envs)
        self._judge = Judge(single, rules)
        template = empty(single, num_envs)
        self._leaves: list[Leaf] | None = None if template is None else list(leaves(single, template))
        low, high = np.full(num_envs, self._judge.low), np.full(num_envs, self._judge.high)
        self._rewards_fit = between(low, high)

    def failure(self, reply: Failed) -> PaddockError:
        """The error to raise for a failure."""
        return walled_error(reply, server=self._rules.server)

    def reset(self, value: Any) -> tuple[Any, Info]:
        """Observations and infos."""
        if type(value) not in (list, tuple) or len(value) != 2:
            raise violation("reset()", f"{describe_value(value)} came back, expected observations and infos")
        return self.observations(value[0]), self.infos(value[1])

    def step(self, value: Any) -> Result:
        """The five results of the one environment that holds all lanes."""
        if type(value) is not list or len(value) != 1:
            raise violation("step()", f"{describe_value(value)} came back, expected the results of one step")
        result = value[0]
        if type(result) is Failed:
            raise self.failure(result)
        if type(result) is not list or len(result) != 5:
            raise violation("step()", f"{describe_value(result)} came back, expected five results")
        observations, rewards, terminations, truncations, infos = result
        if type(rewards) is not np.ndarray or rewards.dtype != np.float64 or rewards.shape != (self._count,):
            raise violation("reward", f"{describe_value(rewards)}, expected float64[{self._count}]")
        if not self._rewards_fit(rewards):
            (lane, *_) = np.flatnonzero(~((rewards >= self._judge.low) & (rewards <= self._judge.high))).tolist()
            raise out_of_range(rewards[lane], self._rules.reward_range)
        self._check_flags(terminations, "terminated")
        self._check_flags(truncations, "truncated")
        read = self.infos(infos) if type(infos) is not dict or infos else infos
        return self.observations(observations), rewards, terminations, truncations, read

    def observations(self, value: Any) -> Any:
        """A member of the single space for each lane."""
        if self._leaves is None:
            try:
                each = list(iterate(self._batch, value))
            except Exception:  # a nesting that the space does not have
                each = []
            if len(each) != self._count:
                text = f"{describe_value(value)}, expected an observation for each of {self._count} lanes"
                raise violation("observation", text)
            for lane, one in enumerate(each):
                self._judge.observation(one, f"lane {lane}: observation")
            return value
        arrays = list(_arrays(self._single, value, "observation"))
        for leaf, array in zip(self._leaves, arrays, strict=True):
            expected = leaf.values
            if type(array) is not np.ndarray or array.dtype != expected.dtype or array.shape != expected.shape:
                raise violation(
                    leaf.path,
                    f"{describe_value(array)}, expected {expected.dtype}{list(expected.shape)}, a row for each lane",
                )
            if not leaf.all_fit(array):
                raise self._accuse(leaf, array)
        return value

    def _accuse(self, leaf: Leaf, array: Array) -> EnvironmentViolation:
        """What is wrong with which lane."""
        for lane in range(self._count):
            part = array[lane : lane + 1]
            if leaf.some_fit(part):
                continue
            if part.dtype == np.bool_ and not are_bits(part):
                return violation(f"lane {lane}: {leaf.path}", "a byte of it is not a bool")
            path, problem = wrong_place(leaf.space, take_row(array, lane), leaf.path)
            return violation(f"lane {lane}: {path}", problem)
        return violation(leaf.path, "it is not within the declared space")

    def _check_flags(self, flags: Any, name: str) -> None:
        if type(flags) is not np.ndarray or flags.dtype != np.bool_ or flags.shape != (self._count,):
            raise violation(name, f"{describe_value(flags)}, expected bool[{self._count}]")
        if not are_bits(flags):
            raise violation(name, "a byte of it is not a bool")

    def infos(self, value: Any) -> Info:
        """The infos of all lanes; each lane may bring as much as one alone."""
        if type(value) is not dict:
            raise violation("info", f"{describe_value(value)} is not a dict")
        rules, final = self._rules, value.get("final_obs")
        rest = {key: one for key, one in value.items() if key != "final_obs"} if final is not None else value
        check = ValueCheck(
            "info",
            max_bytes=rules.info_bytes * self._count,
            depth=rules.info_depth + 1,
            entries=rules.info_entries * self._count,
        )
        read: Info = check.read(rest)
        if final is not None:
            read = {"final_obs": self._final(final), **read}
        return lane_infos_from_wire(read, self._count)

    def _final(self, value: Any) -> list[Any]:
        if type(value) is not list or len(value) != self._count:
            raise violation(
                "info['final_obs']", f"{describe_value(value)}, expected an entry for each of {self._count} lanes"
            )
        for lane, one in enumerate(value):
            if one is not None:
                self._judge.observation(one, f"lane {lane}: info['final_obs']")
        return value

    def states(self, value: Any) -> tuple[State, ...]:
        """The state of each lane."""
        return tuple(State(*self._judge.state(one)) for one in self._one_per_lane(value, "state()"))

    def frames(self, value: Any, mode: str | None) -> tuple[Any, ...] | None:
        """A picture or text per lane."""
        if value is None:
            return None
        return tuple(self._judge.render(one, mode) for one in self._one_per_lane(value, "render()"))

    def values(self, value: Any, name: str) -> tuple[Any, ...]:
        """What the attribute is, or returned, in each lane."""
        self._one_per_lane(value, name)
        if name in ("np_random", "np_random_seed"):
            return tuple(self._judge.value(one, name) for one in value)
        return tuple(self._judge.value(value, name))

    def snapshot(self, value: Any) -> bytes:
        """Bytes."""
        return self._judge.snapshot(value)

    def _one_per_lane(self, value: Any, name: str) -> Any:
        if type(value) not in (list, tuple) or len(value) != self._count:
            raise violation(name, f"{describe_value(value)}, expected a value for each of {self._count} lanes")
        return value


def check_autoreset_mode(metadata: dict[str, Any]) -> AutoresetMode:
    """The autoreset mode that the far end declares."""
    try:
        return AutoresetMode(metadata.get("autoreset_mode"))
    except ValueError:
        said = describe_value(metadata.get("autoreset_mode"))
        raise violation("metadata['autoreset_mode']", f"{said} is not an autoreset mode") from None


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
