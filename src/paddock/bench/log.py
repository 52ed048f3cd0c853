"""The log of a run: its episodes as frames, a hash chain through each episode, and a tree over all of them.

A frame is its payload's length (uint32), the number of its episode (uint32), its kind (1 byte) and the payload, all
little-endian. An episode is one BEGIN frame, ROWS or LINES, and one END; a CALL is before the lines that came of it.
Frames of several episodes may be mixed. An episode that begins a second time was interrupted: its first attempt stays
in the file and counts for nothing.

The hash of an episode is the SHA-256 of "paddock-episode-v1", the plan's digest, the nonce, the number as uint32, the
size of BEGIN as uint32, and its payloads in order: a chain that runs through every step, however the steps are cut into
frames. The tree is that of RFC 6962 over the hashes of all episodes.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import numpy as np

from paddock.errors import InvalidBundle
from paddock.record.merkle import MerkleTree, leaf_hash
from paddock.spaces.json_data import JsonLimits, NotJson, read_json
from paddock.trust.files import open_regular

FRAME = struct.Struct("<IIB")
BEGIN, ROWS, LINES, END, CALL = 1, 2, 3, 4, 5
FRAME_BYTES = 1 << 24
_PARTS = 1024  # of one write, as many as Linux takes
LOG_BYTES = 1 << 34
MOST_FRAMES = 1 << 24  # a reader keeps 16 bytes of each
MOST_EPISODES = 400_000  # whose statement has at most the 64 MiB of an envelope
TERMINATED, TRUNCATED = 1, 2
LINE_LIMITS = JsonLimits(FRAME_BYTES, nesting=128, pieces=1 << 20)

Status = Literal["complete", "truncated", "failed", "aborted"]
Array = np.ndarray[Any, Any]


class Begin(msgspec.Struct, forbid_unknown_fields=True):
    """The head of an episode. ``observation`` of the reset: in hexadecimal beside rows, as JSON text beside lines."""

    task: int
    seed: int
    observation: str | None


class End(msgspec.Struct, forbid_unknown_fields=True):
    """How an episode ended. ``total`` is its return, as the bits of a float64 in hexadecimal; ``code`` of the error."""

    status: Status
    steps: int
    total: str
    code: str | None = None


class Call(msgspec.Struct, forbid_unknown_fields=True):
    """A call of a model. ``request``: the SHA-256 of its messages and tools. ``settings``: the rest of it, and
    ``reply``: the message that came, both as JSON text. ``model``: the one that answered. ``error``: why it failed.
    """

    request: str
    settings: str
    model: str | None
    reply: str | None
    error: str | None


@dataclass
class Episode:
    """One episode of a log. ``frames``: offset and size of each of its frames in turn, BEGIN and the steps; ``calls``:
    those of its CALLs. ``head``: the hash at the end of its chain.
    """

    number: int
    task: int
    seed: int
    frames: array[int] = field(default_factory=lambda: array("Q"), repr=False)
    status: Status = "aborted"
    steps: int = 0
    total: float = 0.0
    code: str | None = None
    head: str = ""
    calls: list[tuple[int, int]] = field(default_factory=list, repr=False)


def bits(number: float) -> str:
    """A float64 as its 16 hexadecimal digits: no rounding, and -0.0 and each NaN stay what they are."""
    return struct.pack(">d", number).hex()


def from_bits(text: str) -> float:
    """The number that ``bits`` wrote; ValueError for any other text."""
    if len(text) != 16 or text != text.lower():
        raise ValueError(f"{text[:40]!r} is not a number of 16 hexadecimal digits")
    number: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return number


def begin_hash(plan_digest: str, nonce: str, number: int, begin: bytes) -> Any:
    """The hash of an episode with its head; its other payloads are added as they come."""
    salt = bytes.fromhex(plan_digest) + bytes.fromhex(nonce) + struct.pack("<II", number, len(begin))
    return hashlib.sha256(b"paddock-episode-v1" + salt + begin)


def root_of(heads: Sequence[str]) -> str:
    """The root of the tree over the episodes, in the order of the plan."""
    return MerkleTree([leaf_hash(bytes.fromhex(head)) for head in heads]).root.hex()


class LogWriter:
    """Writes the log at ``path`` on from its end: ``begin`` an episode, ``add`` to it, ``end`` it. Thread-safe."""

    def __init__(self, path: Path, plan_digest: str, nonce: str) -> None:
        self._salt = plan_digest, nonce
        self._hashes: dict[int, Any] = {}
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._broken = False

    def begin(self, number: int, task: int, seed: int, observation: str | None) -> None:
        """Write the head of an episode."""
        payload = msgspec.json.encode(Begin(task, seed, observation))
        with self._lock:
            self._hashes[number] = begin_hash(*self._salt, number, payload)
            self._write([FRAME.pack(len(payload), number, BEGIN), payload], FRAME.size + len(payload))

    def add(self, frames: Sequence[tuple[int, int, Any]]) -> None:
        """Write frames: number of the episode, kind, bytes. They have reached the system when this returns. Hot."""
        parts: list[Any] = []
        total = 0
        with self._lock:
            hashes = self._hashes
            for number, kind, payload in frames:
                size = payload.nbytes if isinstance(payload, np.ndarray) else len(payload)
                if size > FRAME_BYTES:
                    raise InvalidBundle(
                        f"episode {number}: {size:,} bytes in one frame; at most {FRAME_BYTES:,} are read. "
                        f"Make observations or actions smaller.",
                        reason="malformed",
                    )
                hashes[number].update(payload)
                parts += (FRAME.pack(size, number, kind), payload)
                total += size + FRAME.size
                if len(parts) == _PARTS:
                    self._write(parts, total)
                    parts, total = [], 0
            self._write(parts, total)

    def _write(self, parts: list[Any], size: int) -> None:
        if self._broken:
            raise OSError("the log could not be written; run again with the same --out to go on")
        try:
            # Not joined first: for a thousand lanes that copy takes as long as the hash.
            written = os.writev(self._file.fileno(), parts) if parts else 0
            if written < size:
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[self._file.write(rest) or 0 :]
        except BaseException:  # half a frame may be there: nothing can follow it
            self._broken = True
            raise

    def end(self, number: int, status: Status, steps: int, total: float, code: str | None = None) -> None:
        """End an episode."""
        self.add([(number, END, msgspec.json.encode(End(status, steps, bits(total), code)))])
        del self._hashes[number]

    def sync(self) -> None:
        """Have the disk keep all that was written."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Safe to call twice."""
        self._file.close()


@dataclass
class Log:
    """What a log holds. ``whole_bytes``: up to its last whole frame; ``abandoned``: attempts that were interrupted."""

    path: Path
    episodes: dict[int, Episode]
    sha256: str
    whole_bytes: int
    torn: bool
    abandoned: int

    def load(self, episodes: Iterable[Episode]) -> Iterator[tuple[Begin, Iterator[bytes]]]:
        """The head of each episode and its ROWS or LINES, one frame at a time, to be read before the next episode."""
        with self.path.open("rb", buffering=0) as file:

            def read(frames: array[int]) -> Iterator[bytes]:
                for offset, size in zip(frames[::2], frames[1::2], strict=True):
                    yield os.pread(file.fileno(), size, offset)

            for episode in episodes:
                yield msgspec.json.decode(next(read(episode.frames[:2])), type=Begin), read(episode.frames[2:])

    def calls(self, episode: Episode) -> list[Call]:
        """The calls of a model in an episode."""
        with self.path.open("rb", buffering=0) as file:
            texts = [os.pread(file.fileno(), size, offset) for offset, size in episode.calls]
        return [msgspec.json.decode(text, type=Call) for text in texts]


def read_log(path: Path, plan_digest: str, nonce: str, rows: Sequence[np.dtype[Any] | None]) -> Log:
    """Read a log that anyone may have written; an InvalidBundle names the episode that is not as it should be.

    ``rows`` has the type of a row for each task, None for those recorded as lines. A last frame that broke off is
    what a crash leaves behind, and only makes the log ``torn``.
    """
    reader = _Reader(rows, plan_digest, nonce)
    whole = hashlib.sha256()
    at, frames, torn = 0, 0, False
    try:
        opened = open_regular(path)
    except (ValueError, OSError) as error:
        raise malformed(f"{path.name} can't be read: {error}") from None
    with opened as file:
        if os.fstat(file.fileno()).st_size > LOG_BYTES:
            raise malformed(f"the log is larger than {LOG_BYTES:,} bytes")
        while head := file.read(FRAME.size):
            if torn := len(head) < FRAME.size:
                break
            size, number, kind = FRAME.unpack(head)
            frames += 1
            if frames > MOST_FRAMES:
                raise malformed(f"the log has more than {MOST_FRAMES:,} frames")
            if size > FRAME_BYTES:
                raise malformed(f"a frame of {size:,} bytes at byte {at:,}; at most {FRAME_BYTES:,} are read")
            payload = file.read(size)
            if torn := len(payload) < size:
                break
            reader.read(number, kind, payload, at + FRAME.size)
            whole.update(head)
            whole.update(payload)
            at += FRAME.size + size
    return Log(path, reader.done, whole.hexdigest(), at, torn, reader.abandoned + len(reader.open))


def malformed(problem: str) -> InvalidBundle:
    """The error for bytes that are not those of a bundle."""
    return InvalidBundle(f"This is not a bundle: {problem}.", reason="malformed")


def tampered(problem: str, *, episode: int | None = None, step: int | None = None) -> InvalidBundle:
    """The error for a record that was changed, or that never happened."""
    return InvalidBundle(problem, reason="tampered", episode=episode, step=step)


class _Reader:
    def __init__(self, rows: Sequence[np.dtype[Any] | None], plan_digest: str, nonce: str) -> None:
        self._rows, self._salt = rows, (plan_digest, nonce)
        self.open: dict[int, tuple[Episode, Any, int]] = {}  # with the hash so far, and the flags of the last step
        self.done: dict[int, Episode] = {}
        self.abandoned = 0

    def read(self, number: int, kind: int, payload: bytes, at: int) -> None:
        if number in self.done:
            raise tampered(f"Episode {number} is in the log twice, or goes on after its end.", episode=number)
        if kind == BEGIN:
            self._begin(number, payload, at)
            return
        if number not in self.open:
            raise tampered(f"Episode {number} goes on in the log, and never begins.", episode=number)
        episode, chain, flags = self.open[number]
        chain.update(payload)
        if kind == END:
            self._end(episode, chain.hexdigest(), flags, payload)
            return
        rows = self._rows[episode.task]
        if kind == CALL and rows is None:
            _decode(payload, Call)
            episode.calls.append((at, len(payload)))
            return
        if kind != (LINES if rows is None else ROWS):
            raise malformed(f"episode {number} has a frame of kind {kind}")
        rewards, all_flags = _read_rows(payload, rows) if rows is not None else map(np.array, read_lines(payload)[2:])
        if flags or all_flags[:-1].any():
            raise tampered(f"Episode {number} goes on after the step that ends it.", episode=number)
        # In order, as an environment's user would add them up: NumPy's own sum pairs numbers.
        episode.total = float(np.add.accumulate(np.concatenate(((episode.total,), rewards)))[-1])
        episode.steps += len(rewards)
        episode.frames.extend((at, len(payload)))
        self.open[number] = episode, chain, int(all_flags[-1])

    def _begin(self, number: int, payload: bytes, at: int) -> None:
        if self.open.pop(number, None) is not None:
            self.abandoned += 1
        if number >= MOST_EPISODES:
            raise malformed(f"an episode {number:,}; at most {MOST_EPISODES:,} are read")
        begin = _decode(payload, Begin)
        if not 0 <= begin.task < len(self._rows):
            raise malformed(f"episode {number} is of task {begin.task}, and there are {len(self._rows)}")
        episode = Episode(number, begin.task, begin.seed, array("Q", (at, len(payload))))
        self.open[number] = episode, begin_hash(*self._salt, number, payload), 0

    def _end(self, episode: Episode, head: str, flags: int, payload: bytes) -> None:
        end = _decode(payload, End)
        number = episode.number
        if end.steps != episode.steps:
            raise tampered(f"Episode {number} says {end.steps} steps and has {episode.steps}.", episode=number)
        if end.total != bits(episode.total):
            raise tampered(f"The rewards of episode {number} make {episode.total!r}, not its return.", episode=number)
        ended = {"complete": (TERMINATED, TERMINATED | TRUNCATED), "truncated": (TRUNCATED,)}.get(end.status, (0,))
        if flags not in ended:
            raise tampered(f"Episode {number} says that it is {end.status}, and its last step differs.", episode=number)
        episode.status, episode.code, episode.head = end.status, end.code, head
        del self.open[number]
        self.done[number] = episode


def _read_rows(payload: bytes, rows: np.dtype[Any]) -> tuple[Array, Array]:
    if not payload or len(payload) % rows.itemsize:
        raise malformed(f"{len(payload)} bytes of rows of {rows.itemsize} bytes")
    table = np.frombuffer(payload, rows)
    if table["flags"].max() > TERMINATED | TRUNCATED:
        raise malformed("a step has flags that there are not")
    return table["reward"], table["flags"]


def read_lines(payload: bytes) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """The actions, observations, rewards and flags of a LINES frame: ``[action, observation, reward, flags]`` each."""
    columns: tuple[list[Any], list[Any], list[Any], list[Any]] = ([], [], [], [])
    for text in payload.splitlines():
        try:
            match read_json(text, LINE_LIMITS):
                case [action, observation, str(reward), int(flags)] if type(flags) is int and 0 <= flags <= 3:
                    for column, value in zip(columns, [action, observation, from_bits(reward), flags], strict=True):
                        column.append(value)
                case _:
                    raise malformed("a line is not a step")
        except (NotJson, ValueError) as error:
            raise malformed(f"a line can't be read: {error}") from None
    if not columns[0]:
        raise malformed("a frame without steps")
    return columns


def _decode(payload: bytes, kind: Any) -> Any:
    """A BEGIN or END, from its one form: an unknown or repeated key, or a space, is another one."""
    try:
        found = msgspec.json.decode(payload, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed(f"a frame can't be read: {error}") from None
    if msgspec.json.encode(found) != payload:
        raise malformed("a frame is not in its one form")
    return found
