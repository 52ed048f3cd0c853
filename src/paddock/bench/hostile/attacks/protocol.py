"""Lies about the data, and attacks on the connection. The first step is honest: a check that runs once is deceived."""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from paddock.bench.hostile.attack import ANY_END, BROKEN, CONTAINED, DENIED, FALSE, IN_ITS_PROCESS, LATE, SHORT, SLEEP_S
from paddock.bench.hostile.attacks.attempt import NOTHING, Hostile, HostileWrapper, attack
from paddock.core.env import Info
from paddock.hosting.codec import encode
from paddock.hosting.messages import Done

ESCAPES = "\x1b]0;hostile\x07\x1b[2J\x1b[31mERASED"

_PARTS = ("observation", "reward", "terminated", "truncated", "info")
_HONEST: Any = (NOTHING, 0.0, False, False, {})
_LIES: dict[str, Any] = {}


def _lie(code: str, title: str, name: str, **more: Any) -> Callable[[Any], Any]:
    """A result of which one part, if ``more`` has one, is not what was declared."""
    result = tuple(more.pop(part, honest) for part, honest in zip(_PARTS, _HONEST, strict=True))
    _LIES.setdefault(name, result)
    return attack(code, title, "data", {"lie": name}, **{"expected": FALSE, **more})


@_lie("L01", "observes outside its space", "outside", observation=np.full(2, 7.0, np.float32))
@_lie("L02", "observes NaN", "not a number", observation=np.full(2, np.nan, np.float32))
@_lie("L03", "changes its dtype", "dtype", observation=np.zeros(2, np.float64))
@_lie("L04", "changes its shape", "shape", observation=np.zeros((3, 3), np.float32))
@_lie("L05", "observes a text", "no array", observation="a text")
@_lie("L06", "rewards with NaN", "nan reward", reward=float("nan"))
@_lie("L07", "rewards without bound", "infinite reward", reward=float("inf"))
@_lie("L08", "rewards with 1e308", "huge reward", reward=1e308)
@_lie("L09", "rewards with a text", "text reward", reward="1000000")
@_lie("L10", "ends with a text", "flag", terminated="no")
@_lie("L11", "informs by a list", "info", info=["no", "dict"])
@_lie("L12", "writes to the terminal by info", "escapes", info={"note": ESCAPES}, expected={"contained", "violation"})
@_lie(
    "L13",
    "the same in a key, deep inside",
    "nested escapes",
    info={"notes": [{ESCAPES: 1}]},
    expected={"contained", "violation"},
)
@_lie("L35", "a lane observes outside its space", "outside", lanes=2)
@_lie("L36", "a lane rewards with NaN", "nan reward", lanes=2)
class Lie(Hostile):
    """From the second step on, one of its results is not what was declared."""

    def step(self, action: Any) -> Any:
        self.steps += 1
        return _HONEST if self.steps == 1 else _LIES[self.arguments["lie"]]


@attack("L14", "replaces paddock's checks, then lies", "data", {"lie": "outside"}, expected=FALSE)
class PatchChecks(Lie):
    """Replaces paddock's checks in its own process, then lies."""

    def __init__(self, **arguments: Any) -> None:
        from paddock.hosting import values
        from paddock.spaces import Box, Discrete, Space
        from paddock.wrappers.guard import Guard

        super().__init__(**arguments)
        for cls in (Box, Discrete, Space):
            cls.contains = lambda self, x: True  # type: ignore[method-assign]
        Guard.step = lambda self, action: self.env.step(action)  # type: ignore[method-assign]
        Guard.episode = lambda self: ("an episode", -5)  # type: ignore[method-assign]
        vars(values)["LIMITS"] = None


@attack("L15", "goes on after the end", "data", {"lie": "outside"}, expected={"violation", "raised"})
class GoOnAfterTheEnd(PatchChecks):
    """Says that the episode has ended, and goes on giving rewards."""

    def step(self, action: Any) -> Any:
        self.steps += 1
        return NOTHING, 1.0, self.steps == 1, False, {}


@attack(
    "L16",
    "counts backwards",
    "data",
    {"lie": "outside"},
    calls=("reset", "step", "state", "close"),
    expected={"violation", "contained"},
)
class CountBackwards(PatchChecks):
    """Says that fewer than no steps were taken."""

    def step(self, action: Any) -> Any:
        return _HONEST


@attack("L17", "claims another spec", "data", {"marker": "$marker"}, expected={"contained", "violation", "raised"})
class ClaimSpec(Hostile):
    """Says that it was made from a spec that names other code, which would run if it were made again."""

    @property
    def spec(self) -> Any:
        from paddock.core.spec import EnvSpec

        return EnvSpec("CartPole-v1", entry_point="os:system", kwargs={"command": f"touch {self.arguments['marker']}"})

    @spec.setter
    def spec(self, value: Any) -> None:
        pass


@attack("L18", "puts a megabyte into its metadata", "data", expected={"contained", "violation", "protocol", "raised"})
class ClaimMetadata(Hostile):
    """Puts a megabyte, and text that steers a terminal, into its metadata."""

    metadata = {"render_modes": [], "note": ESCAPES, "long": "x" * (1 << 20)}


def sockets() -> Iterator[int]:
    """The descriptors of this process that are connected sockets."""
    for fd in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd


def write_to_all(data: bytes) -> None:
    """Write into every connection that takes it."""
    for fd in sockets():
        with suppress(OSError):
            os.write(fd, data)


_FRAMES: dict[str, Any] = {"expected": BROKEN, "needs": "frames-checked"}
_CHECKED = "frames are checked without a wall too"


@attack("L19", "writes noise into the connection", "caller", {"frame": 0}, no_control=_CHECKED, **_FRAMES)
@attack("L20", "announces a terabyte", "caller", {"frame": 1}, no_control=_CHECKED, **_FRAMES)
def write_raw(frame: int) -> str:
    """Writes bytes of its own into every connection: noise, or a frame that announces a terabyte."""
    start = bytes(encode(Done())[0][:4])
    announced = start + (16).to_bytes(4, "little") + bytes(4) + (1 << 40).to_bytes(8, "little")
    write_to_all(announced if frame else os.urandom(4096))
    return "written"


@attack("L21", "answers without a request", "data", no_control="replies are numbered without a wall too", **_FRAMES)
def reply_to_no_request() -> str:
    """Sends replies without a request, and replies to the next requests before they come."""
    for number in range(1, 9):
        write_to_all(b"".join(encode(Done([[NOTHING, 1e6, False, False, {}]]), number)))
    return "answered"


@attack("R14", "drips its reply", "caller", expected={"timeout", "protocol"}, policy=SHORT, neighbour=True)
def drip(seconds: int = SLEEP_S) -> str:
    """Begins a reply and sends one byte of it at a time: something comes always, and never enough."""
    reply = b"".join(encode(Done([[NOTHING, 0.0, False, False, {"x": "y" * 900}]]), 3))
    ends = time.monotonic() + seconds
    for at in range(len(reply)):
        write_to_all(reply[at : at + 1])
        if time.monotonic() > ends:
            break
        time.sleep(0.05)
    return "dripped"


@attack("L22", "sends descriptors", "left", no_control="no descriptors are accepted without a wall either", **_FRAMES)
def send_descriptors() -> str:
    """Sends open files along with its bytes, so that the reader runs out of descriptors."""
    for fd in sockets():
        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:
            rights = array.array("i", [2] * 100)
            connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    return "sent"


@attack(
    "L23",
    "hangs up and stays",
    "caller",
    expected={"closed", "timeout", "ended", "signal"},
    policy=SHORT,
    no_control="a closed connection is noticed without a wall too",
    needs="own-process",
)
def hang_up(seconds: int = SLEEP_S) -> str:
    """Closes every connection and stays."""
    for fd in list(sockets()):
        os.close(fd)
    time.sleep(seconds)
    return "closed"


@attack(
    "L24",
    "sends a pickle",
    "file",
    method="info",
    expected=CONTAINED,
    no_control="data is never unpickled, with or without a wall",
    needs="frames-checked",
)
def send_pickle(marker: str) -> Info:
    """Sends bytes which, unpickled, run a command."""
    payload = b"cposix\nsystem\n(S'touch " + marker.encode() + b"'\ntR."
    return {"attack": "succeeded", "payload": payload}


@attack(
    "L25",
    "sends an object with code",
    "file",
    method="info",
    expected={"raised", "violation"},
    no_control="objects do not cross without a wall either",
    needs="frames-checked",
)
def send_object(marker: str) -> Info:
    """Sends an object that says how to remake it: by running a command."""

    class Payload:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {marker}",)

    return {"payload": Payload()}


@attack("L26", "raises 100 MB of text", "data", method="info", expected={"raised"})
def raise_long_error(megabytes: int = 100) -> Info:
    """Raises an error with ``megabytes`` of text that would steer a terminal."""
    raise ValueError(ESCAPES * (megabytes * (1 << 20) // len(ESCAPES)))


@attack(
    "L27", "raises an error without end", "caller", method="info", expected=LATE, policy=SHORT, needs="deadlines-kept"
)
def raise_endless_error(seconds: int = SLEEP_S) -> Info:
    """Raises an error whose text takes ``seconds`` to make."""

    class Endless(Exception):
        def __str__(self) -> str:
            time.sleep(seconds)
            return "late"

    raise Endless


@attack(
    "L28",
    "raises KeyboardInterrupt",
    "data",
    {"kind": "interrupt"},
    method="info",
    expected={"raised", "exit", "signal", "closed"},
    **IN_ITS_PROCESS,
)
@attack(
    "L29", "raises SystemExit", "data", {"kind": "exit"}, method="info", expected={"raised", "exit"}, **IN_ITS_PROCESS
)
def interrupt(kind: str) -> Info:
    """Raises what is meant for the user's own Ctrl-C, or for the end of the program."""
    raise KeyboardInterrupt if kind == "interrupt" else SystemExit(0)


@attack("L30", "exits", "caller", expected={"exit"}, **IN_ITS_PROCESS)
def end_process() -> str:
    os._exit(9)


@attack("L31", "crashes", "caller", expected={"signal"}, **IN_ITS_PROCESS)
def crash() -> str:
    """Reads from address zero."""
    return str(ctypes.string_at(0))


@attack("L32", "stays at exit", "caller", {"seconds": 4}, expected=ANY_END, policy=SHORT, **IN_ITS_PROCESS)
class LoopAtExit(Hostile):
    """Leaves functions and objects behind that run for ``seconds`` when the process ends."""

    def attempt(self) -> str:
        if self.steps == 1:
            atexit.register(time.sleep, self.arguments["seconds"])
        return "left"

    def __del__(self) -> None:
        time.sleep(self.arguments["seconds"])


@attack("L33", "raises escapes when closed", "data", method="close", expected=ANY_END, **IN_ITS_PROCESS)
def raise_at_close() -> None:
    """Raises in close, and is closed twice."""
    raise RuntimeError(ESCAPES)


# Attacks on the memory that lanes share with their caller: what it holds can change after it was checked.


@attack(
    "L37",
    "overwrites shared memory after its answer",
    "data",
    {"seconds": SLEEP_S},
    calls=("reset", *["step"] * 60, "close"),  # it must be between an answer and its reader at least once
    lanes=2,
    expected=FALSE,
)
class Scribble(Hostile):
    """Answers honestly, and overwrites the answers as long as anybody could read them."""

    def attempt(self) -> str:
        if self.steps == 2:
            threading.Thread(target=self._scribble, daemon=True).start()
            time.sleep(0.05)
        return "scribbles"

    def _scribble(self) -> None:
        from paddock.hosting.layout import Block

        blocks = [one for one in gc.get_objects() if isinstance(one, Block)]
        ends = time.monotonic() + self.arguments["seconds"]
        while time.monotonic() < ends:
            for block in blocks:
                block.observations[...] = 7.0
                block.rewards[...] = float("nan")
                block.terminations[...] = 7
            time.sleep(0)


@attack(
    "L38",
    "cuts shared memory off",
    "caller",
    lanes=2,
    expected=DENIED,
    needs="own-process",
    no_control="the memory is sealed without a wall too",
)
class Shrink(Hostile):
    """Keeps the file behind the shared memory, and cuts it off: the kernel kills a process that reads on."""

    def __init__(self, **arguments: Any) -> None:
        from paddock.hosting import worker

        super().__init__(**arguments)
        self.kept: list[int] = []

        class KeepsOpen:
            close = staticmethod(self.kept.append)

            def __getattr__(self, name: str) -> Any:
                return getattr(os, name)

        vars(worker)["os"] = KeepsOpen()

    def info(self) -> Info:
        if self.steps == 1:
            return {"attack": "waits"}
        try:
            for fd in self.kept:
                os.ftruncate(fd, 0)
        except OSError:
            return {"attack": "denied: EPERM"}
        return {"attack": "succeeded" if self.kept else "failed: no file"}


@attack("L34", "a wrapper raises every reward", "data", expected=FALSE)
class RaiseReward(HostileWrapper):
    """Makes every reward but the first infinite."""

    steps = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        self.steps += 1
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, float("inf") if self.steps > 1 else 0.0, terminated, truncated, info
