"""Record steps: of one environment or of n lanes as rows, and of environments without rows as lines of JSON.

Steps are held back until a block of them is full, so an episode that has not ended may miss its last steps in the log.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Generator
from typing import Any

import msgspec
import numpy as np

from paddock.bench.bundle import Task
from paddock.bench.log import CALL, LINES, ROWS, TERMINATED, Array, Call, LogWriter, Status, bits
from paddock.core.values import TRACE, TaggedJson
from paddock.record.model_call import ModelCall
from paddock.record.trace.values import member_form
from paddock.spaces import Space
from paddock.spaces.rows import layout

BLOCK = 512  # steps of each of n lanes
_ROWS, _ROWS_BYTES = 4096, 1 << 20  # of one environment, at most
_LINES_BYTES = 1 << 16
_ANY_DIGEST = 32


def leaves_of(space: Space[Any]) -> list[tuple[tuple[Any, ...], np.dtype[Any], tuple[int, ...]]]:
    """Where the arrays in a value of this space lie, as keys, with the little-endian dtype and the shape of each."""
    found: list[tuple[tuple[Any, ...], np.dtype[Any], tuple[int, ...]]] = []

    def walk(form: Any, path: tuple[Any, ...]) -> None:
        ((kind, content),) = form.items()
        if kind == "array":
            found.append((path, np.dtype(content[0]).newbyteorder("<"), tuple(content[1])))
            return
        for key, part in content.items() if kind == "dict" else enumerate(content):
            walk(part, (*path, key))

    walk(layout(space), ())
    return found


def _only_leaf(space: Space[Any], task: Task) -> np.dtype[Any] | None:
    """The dtype of observations that are one array each and recorded whole; None for all others."""
    leaves = leaves_of(space)
    return np.dtype(leaves[0][1].str) if task.observation_bytes and [leaf[0] for leaf in leaves] == [()] else None


def observation_packer(space: Space[Any], task: Task) -> Callable[[Any], bytes]:
    """A function from an observation to its bytes in a row; a digest where it is large."""
    leaves = leaves_of(space)

    def pack(observation: Any) -> bytes:
        parts = []
        for path, dtype, _ in leaves:
            value = observation
            for key in path:
                value = value[key]
            parts.append(np.asarray(value, dtype).tobytes())
        return b"".join(parts)

    return pack if task.observation_bytes else lambda observation: hashlib.sha256(pack(observation)).digest()


def batch_packer(space: Space[Any], task: Task, lanes: int) -> Callable[[Any], Array]:
    """A function from the observations of ``lanes`` lanes to void[lanes], the bytes of their rows."""
    leaves, size, only = leaves_of(space), task.observation_bytes, _only_leaf(space, task)

    def pack(observations: Any) -> Array:
        if only is not None and observations.dtype == only and observations.flags.c_contiguous:
            return observations.reshape(lanes, -1).view(f"V{size}")[:, 0]  # type: ignore[no-any-return]
        parts = []
        for path, dtype, _ in leaves:
            value = observations
            for key in path:
                value = value[key]
            array = np.ascontiguousarray(value, dtype).reshape(lanes, -1)
            parts.append(array.view(np.uint8))
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if size:
            return joined.view(f"V{size}")[:, 0]
        digests = b"".join(hashlib.sha256(row).digest() for row in joined)
        return np.frombuffer(digests, f"V{_ANY_DIGEST}")

    return pack


class LaneRecorder:
    """The episodes of ``lanes`` lanes of a task, written in blocks per lane. Between ``begin`` and its end a lane is
    recorded; any other lane's rows are dropped. ``ended``: called with the lane and the status. Hot.
    """

    def __init__(self, log: LogWriter, number: int, task: Task, space: Space[Any], lanes: int) -> None:
        row = task.row
        assert row is not None
        self._log, self._task = log, number
        self._pack = batch_packer(space, task, lanes)
        self._row = np.zeros(lanes, row)  # of the step that is taken
        self._columns = [self._row[name] for name in ("action", "reward", "flags", "observation")]
        # One opaque item per row, so that the rows of a step are written in one copy.
        self._rows = np.zeros((lanes, BLOCK), f"V{row.itemsize}")
        self._at = 0
        self._from = [0] * lanes
        self.episodes: list[int | None] = [None] * lanes
        self._steps, self._began = 0, [0] * lanes  # all steps so far, and how many there were when an episode began
        self._totals = np.zeros(lanes)

    def begin(self, lane: int, number: int, seed: int, observations: Any) -> None:
        """An episode begins in a lane; ``observations`` are those of all lanes."""
        self.episodes[lane], self._from[lane] = number, self._at
        self._began[lane], self._totals[lane] = self._steps, 0.0
        self._log.begin(number, self._task, seed, self._pack(observations)[lane].tobytes().hex())

    def step(self, actions: Array, observations: Any, rewards: Array, terminated: Array, truncated: Array) -> None:
        """All lanes took a step."""
        action, reward, flags, observation = self._columns
        at = self._at
        action[...] = actions
        reward[...] = rewards
        observation[...] = self._pack(observations)
        self._totals += rewards
        self._steps += 1
        self._at = at + 1
        flags[...] = 0
        over = np.count_nonzero(terminated) or np.count_nonzero(truncated)  # a fifth of the time of any()
        if over:
            flags[...] = terminated.view(np.uint8) | truncated.view(np.uint8) << 1
        self._rows[:, at] = self._row.view(self._rows.dtype)
        if over:
            for lane in flags.nonzero()[0].tolist():
                if self.episodes[lane] is not None:
                    self.end(lane, "complete" if flags[lane] & TERMINATED else "truncated")
        if self._at == BLOCK:
            self._flush()

    def end(self, lane: int, status: Status, code: str | None = None) -> None:
        """The episode in a lane is over."""
        number = self.episodes[lane]
        assert number is not None
        if self._at > self._from[lane]:
            self._log.add([(number, ROWS, self._rows[lane, self._from[lane] : self._at])])
        self._log.end(number, status, self._steps - self._began[lane], float(self._totals[lane]), code)
        self.episodes[lane] = None

    def _flush(self) -> None:
        self._log.add(
            [
                (number, ROWS, rows[start:])
                for number, start, rows in zip(self.episodes, self._from, self._rows, strict=True)
                if number is not None and start < BLOCK
            ]
        )
        self._at, self._from = 0, [0] * len(self._from)


Kept = tuple[Any, Any, float]  # the action as the environment got it, the observation, the reward


class RowRecorder:
    """One episode of one environment as rows. Hot: ``step`` only keeps what it got, observations as bytes.

    ``step`` takes one tuple, since it is the ``send`` of a generator: a method takes 20 ns longer. An action may not
    change afterwards.
    """

    def __init__(self, log: LogWriter, number: int, task: Task, space: Space[Any]) -> None:
        assert task.row is not None
        self._log, self._number, self._row = log, number, task.row
        self._pack = observation_packer(space, task)
        self._held: list[Any] = []  # action, observation or None, and reward of each step in turn
        self._observations: list[bytes] = []
        self.steps, self.total = 0, 0.0
        block, dtype = min(_ROWS, _ROWS_BYTES // task.row.itemsize + 1), _only_leaf(space, task)
        keeping = self._keep(block) if dtype is None else self._keep_arrays(dtype, block)
        next(keeping)
        self.step: Callable[[Kept], None] = keeping.send

    def begin(self, task: int, seed: int, observation: Any) -> None:
        """What the reset returned; None if it failed."""
        text = None if observation is None else self._pack(observation).hex()
        self._log.begin(self._number, task, seed, text)

    def _keep(self, block: int) -> Generator[None, Kept, None]:
        held, pack = self._held, self._pack
        kept = yield
        while True:
            for _ in range(block):
                action, observation, reward = kept
                self._observations.append(pack(observation))
                held += action, None, reward
                kept = yield
            self._flush(0)

    def _keep_arrays(self, dtype: np.dtype[Any], block: int) -> Generator[None, Kept, None]:
        """``_keep`` for observations that are one small array each. Holding these too is faster."""
        held, keep, pack = self._held, self._observations.append, self._pack
        kept = yield
        while True:
            for _ in range(block):
                observation = kept[1]
                try:
                    keep(observation.tobytes() if observation.dtype is dtype else pack(observation))
                except AttributeError:
                    keep(pack(observation))
                held += kept
                kept = yield
            self._flush(0)

    def end(self, status: Status, code: str | None = None, *, flags: int = 0) -> None:
        """The episode is over. ``flags`` of its last step."""
        if self._held:
            self._flush(flags)
        self._log.end(self._number, status, self.steps, self.total, code)

    def _flush(self, flags: int) -> None:
        held, size = self._held, len(self._observations)
        rewards = np.frombuffer(struct.pack(f"{size}d", *held[2::3]))  # half the time of np.array
        rows = np.empty(size, self._row)
        rows["action"] = np.fromiter(held[0::3], self._row["action"], size)
        rows["reward"], rows["flags"] = rewards, 0
        rows["flags"][-1] = flags
        rows["observation"] = np.frombuffer(b"".join(self._observations), self._row["observation"])
        self.steps += size
        self.total = float(np.add.accumulate(np.concatenate(((self.total,), rewards)))[-1])
        self._log.add([(self._number, ROWS, rows)])
        held.clear()
        self._observations.clear()


class LineRecorder:
    """One episode of one environment as lines: for spaces whose values have no fixed size, such as text."""

    def __init__(self, log: LogWriter, number: int, spaces: tuple[Space[Any], Space[Any]]) -> None:
        self._log, self._number, self._spaces = log, number, spaces
        self._held: list[str] = []  # lines up to their flags
        self._size = 0
        self.steps, self.total = 0, 0.0

    def begin(self, task: int, seed: int, observation: Any) -> None:
        """What the reset returned; None if it failed."""
        text = None if observation is None else self.form(observation)
        self._log.begin(self._number, task, seed, text)

    def form(self, observation: Any) -> str:
        """An observation as the text that is recorded and compared."""
        return _text(member_form(self._spaces[0], observation, _digest_of, "observation"))

    def step(self, kept: Kept) -> None:
        """The environment took a step."""
        if self._size > _LINES_BYTES:
            self._flush(0)
        action, observation, reward = kept
        form = _text(member_form(self._spaces[1], action, _whole, "action"))
        line = f'[{form},{self.form(observation)},"{bits(reward)}",'
        self._held.append(line)
        self._size += len(line)
        self.steps, self.total = self.steps + 1, self.total + reward

    def call(self, call: ModelCall) -> None:
        """A model was asked. What names only this attempt, such as ids and times, is left out."""
        if self._held:
            self._flush(0)
        request = _text({"messages": call.messages, "tools": call.request.get("tools", [])})
        made = Call(
            request=hashlib.sha256(request.encode()).hexdigest(),
            settings=_text({"model": call.request.get("model"), **call.sampling}),
            model=call.model,
            reply=None if call.message is None else _text(call.message),
            error=None if call.error is None else call.error[0],
        )
        self._log.add([(self._number, CALL, msgspec.json.encode(made))])

    def end(self, status: Status, code: str | None = None, *, flags: int = 0) -> None:
        """The episode is over. ``flags`` of its last step."""
        if self._held:
            self._flush(flags)
        self._log.end(self._number, status, self.steps, self.total, code)

    def _flush(self, flags: int) -> None:
        text = "0]\n".join(self._held) + f"{flags}]\n"
        self._log.add([(self._number, LINES, text.encode("ascii"))])
        self._held, self._size = [], 0


def _text(form: Any) -> str:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _whole(array: Array) -> Any:
    return TaggedJson(TRACE).write(array, "action")


def _digest_of(array: Array) -> Any:
    """What stands in a line for a large array: it is compared, and never read back."""
    return {"$sha256": [array.dtype.str, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]}
