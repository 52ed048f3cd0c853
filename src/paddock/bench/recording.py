"""Record steps: of one environment or of n lanes as rows, and of environments without rows as lines of JSON.

Steps are held back until a block of them is full, so an episode that has not ended may miss its last steps in the log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.bench.bundle import Task
from paddock.bench.log import LINES, ROWS, TERMINATED, TRUNCATED, Array, LogWriter, Status, bits
from paddock.core.values import TRACE, TaggedJson
from paddock.record.trace.values import member_form
from paddock.spaces import Space
from paddock.spaces.rows import layout

BLOCK = 256  # steps
_LINES_BYTES = 1 << 16
_ANY_DIGEST = 32


def leaves_of(space: Space[Any]) -> list[tuple[tuple[Any, ...], np.dtype[Any]]]:
    """Where the arrays in a value of this space lie, as keys, with the little-endian dtype of each."""
    found: list[tuple[tuple[Any, ...], np.dtype[Any]]] = []

    def walk(form: Any, path: tuple[Any, ...]) -> None:
        ((kind, content),) = form.items()
        if kind == "array":
            found.append((path, np.dtype(content[0]).newbyteorder("<")))
            return
        for key, part in content.items() if kind == "dict" else enumerate(content):
            walk(part, (*path, key))

    walk(layout(space), ())
    return found


def observation_packer(space: Space[Any], task: Task) -> Callable[[Any], bytes]:
    """A function from an observation to its bytes in a row; a digest where it is large."""
    leaves = leaves_of(space)

    def pack(observation: Any) -> bytes:
        parts = []
        for path, dtype in leaves:
            value = observation
            for key in path:
                value = value[key]
            parts.append(np.asarray(value, dtype).tobytes())
        return b"".join(parts)

    if not task.observation_bytes:
        return lambda observation: hashlib.sha256(pack(observation)).digest()
    if len(leaves) == 1 and leaves[0][0] == ():
        dtype = leaves[0][1]

        def pack_one(observation: Any) -> bytes:
            if type(observation) is np.ndarray and observation.dtype == dtype:
                return observation.tobytes()
            return np.asarray(observation, dtype).tobytes()

        return pack_one
    return pack


def batch_packer(space: Space[Any], task: Task, lanes: int) -> Callable[[Any], Array]:
    """A function from the observations of ``lanes`` lanes to void[lanes], the bytes of their rows."""
    leaves, size = leaves_of(space), task.observation_bytes
    only = leaves[0][1] if size and len(leaves) == 1 and leaves[0][0] == () else None

    def pack(observations: Any) -> Array:
        if only is not None and observations.dtype == only and observations.flags.c_contiguous:
            return observations.view(f"V{size}").reshape(lanes)  # type: ignore[no-any-return]
        parts = []
        for path, dtype in leaves:
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
        self._rows = np.zeros((BLOCK, lanes), row)
        self._turned = np.zeros((lanes, BLOCK), f"V{row.itemsize}")
        self._columns = [self._rows[name] for name in ("action", "reward", "flags", "observation")]
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
        action[at] = actions
        reward[at] = rewards
        observation[at] = self._pack(observations)
        self._totals += rewards
        self._steps += 1
        self._at = at + 1
        flags[at] = 0
        if np.count_nonzero(terminated) or np.count_nonzero(truncated):  # a fifth of the time of any()
            flags[at] = ended = terminated.view(np.uint8) | truncated.view(np.uint8) << 1
            for lane in ended.nonzero()[0].tolist():
                if self.episodes[lane] is not None:
                    self.end(lane, "complete" if ended[lane] & TERMINATED else "truncated")
        if self._at == BLOCK:
            self._flush()

    def end(self, lane: int, status: Status, code: str | None = None) -> None:
        """The episode in a lane is over."""
        number = self.episodes[lane]
        assert number is not None
        if self._at > self._from[lane]:
            self._log.add([(number, ROWS, self._rows[self._from[lane] : self._at, lane].tobytes())])
        self._log.end(number, status, self._steps - self._began[lane], float(self._totals[lane]), code)
        self.episodes[lane] = None

    def _flush(self) -> None:
        # As opaque items the transposition is one copy; lane by lane it takes longer than the hashes.
        lanes = self._turned
        lanes[...] = self._rows.view(lanes.dtype).T
        self._log.add(
            [
                (number, ROWS, lanes[lane] if start == 0 else lanes[lane, start:])
                for lane, (number, start) in enumerate(zip(self.episodes, self._from, strict=True))
                if number is not None and start < BLOCK
            ]
        )
        self._at, self._from = 0, [0] * len(self._from)


class RowRecorder:
    """One episode of one environment as rows. Hot: ``step`` only keeps what it got, as bytes where that may change."""

    def __init__(self, log: LogWriter, number: int, task: Task, space: Space[Any]) -> None:
        assert task.row is not None
        self._log, self._number, self._row = log, number, task.row
        self.pack = observation_packer(space, task)
        self._held: list[tuple[Any, bytes, float, int]] = []
        self.steps, self.total = 0, 0.0

    def begin(self, task: int, seed: int, observation: Any) -> None:
        """What the reset returned; None if it failed."""
        text = None if observation is None else self.pack(observation).hex()
        self._log.begin(self._number, task, seed, text)

    def step(self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """The action as the environment got it, and what the step returned."""
        held = self._held
        held.append((action, self.pack(observation), reward, (terminated and TERMINATED) | (truncated and TRUNCATED)))
        if len(held) == BLOCK:
            self._flush()

    def end(self, status: Status, code: str | None = None) -> None:
        """The episode is over."""
        self._flush()
        self._log.end(self._number, status, self.steps, self.total, code)

    def _flush(self) -> None:
        if not self._held:
            return
        actions, observations, rewards, flags = zip(*self._held, strict=True)
        rows = np.empty(len(actions), self._row)
        rows["action"], rows["reward"], rows["flags"] = actions, rewards, flags
        rows["observation"] = np.frombuffer(b"".join(observations), self._row["observation"])
        self.steps += len(rows)
        self.total = float(np.add.accumulate(np.concatenate(((self.total,), rows["reward"])))[-1])
        self._log.add([(self._number, ROWS, rows)])
        self._held.clear()


class LineRecorder:
    """One episode of one environment as lines: for spaces whose values have no fixed size, such as text."""

    def __init__(self, log: LogWriter, number: int, spaces: tuple[Space[Any], Space[Any]]) -> None:
        self._log, self._number, self._spaces = log, number, spaces
        self._held: list[bytes] = []
        self._size = 0
        self.steps, self.total = 0, 0.0

    def begin(self, task: int, seed: int, observation: Any) -> None:
        """What the reset returned; None if it failed."""
        text = None if observation is None else self.form(observation)
        self._log.begin(self._number, task, seed, text)

    def form(self, observation: Any) -> str:
        """An observation as the text that is recorded and compared."""
        return _text(member_form(self._spaces[0], observation, _digest_of, "observation"))

    def step(self, action: Any, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """The action as the environment got it, and what the step returned."""
        flags = int(bool(terminated)) | int(bool(truncated)) << 1
        form = _text(member_form(self._spaces[1], action, _whole, "action"))
        line = f'[{form},{self.form(observation)},"{bits(float(reward))}",{flags}]\n'.encode("ascii")
        self._held.append(line)
        self._size += len(line)
        self.steps, self.total = self.steps + 1, self.total + float(reward)
        if self._size > _LINES_BYTES:
            self._flush()

    def end(self, status: Status, code: str | None = None) -> None:
        """The episode is over."""
        self._flush()
        self._log.end(self._number, status, self.steps, self.total, code)

    def _flush(self) -> None:
        if self._held:
            self._log.add([(self._number, LINES, b"".join(self._held))])
        self._held, self._size = [], 0


def _text(form: Any) -> str:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _whole(array: Array) -> Any:
    return TaggedJson(TRACE).write(array, "action")


def _digest_of(array: Array) -> Any:
    """What stands in a line for a large array: it is compared, and never read back."""
    return {"$sha256": [array.dtype.str, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]}
