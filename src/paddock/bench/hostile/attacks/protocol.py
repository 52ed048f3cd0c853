"""Lies about the data, and attacks on the connection. The first step is honest: what looks only once is deceived."""

from __future__ import annotations

import array
import atexit
import ctypes
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from paddock.bench.hostile.attacks.attempt import NOTHING, Hostile
from paddock.hosting.codec import encode
from paddock.hosting.messages import Done

ESCAPES = "\x1b]0;hostile\x07\x1b[2J\x1b[31mERASED"

# lie: (observation, reward, terminated, info)
_LIES: dict[str, tuple[Any, Any, Any, Any]] = {
    "outside": (np.full(2, 7.0, np.float32), 0.0, False, {}),
    "not a number": (np.full(2, np.nan, np.float32), 0.0, False, {}),
    "dtype": (np.zeros(2, np.float64), 0.0, False, {}),
    "shape": (np.zeros((3, 3), np.float32), 0.0, False, {}),
    "no array": ("a text", 0.0, False, {}),
    "nan reward": (NOTHING, float("nan"), False, {}),
    "infinite reward": (NOTHING, float("inf"), False, {}),
    "huge reward": (NOTHING, 1e308, False, {}),
    "text reward": (NOTHING, "1000000", False, {}),
    "flag": (NOTHING, 0.0, "no", {}),
    "info": (NOTHING, 0.0, False, ["no", "dict"]),
    "escapes": (NOTHING, 0.0, False, {"note": ESCAPES}),
    "nested escapes": (NOTHING, 0.0, False, {"notes": [{ESCAPES: 1}]}),
}


class Lie(Hostile):
    """From the second step on, one of its results is not what was declared."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.steps += 1
        if self.steps == 1:
            return NOTHING, 0.0, False, False, {}
        observation, reward, terminated, info = _LIES[self.told["lie"]]
        return observation, reward, terminated, False, info


class PatchChecks(Lie):
    """Replaces paddock's checks in its own process, then lies."""

    def __init__(self, **told: Any) -> None:
        from paddock.hosting import values
        from paddock.spaces import Box, Discrete, Space
        from paddock.wrappers.guard import Guard

        super().__init__(**told)
        for cls in (Box, Discrete, Space):
            cls.contains = lambda self, x: True  # type: ignore[method-assign]
        Guard.step = lambda self, action: self.env.step(action)  # type: ignore[method-assign]
        Guard.episode = lambda self: ("an episode", -5)  # type: ignore[method-assign]
        vars(values)["LIMITS"] = None


class GoOnAfterTheEnd(PatchChecks):
    """Says that the episode has ended, and goes on giving rewards."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        self.steps += 1
        return NOTHING, 1.0, self.steps == 1, False, {}


class CountBackwards(PatchChecks):
    """Says that fewer than no steps were taken."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        return NOTHING, 0.0, False, False, {}


class ClaimSpec(Hostile):
    """Says that it was made from a spec that names other code, for whoever makes it again."""

    @property
    def spec(self) -> Any:
        from paddock.core.spec import EnvSpec

        return EnvSpec("CartPole-v1", entry_point="os:system", kwargs={"command": f"touch {self.told['marker']}"})

    @spec.setter
    def spec(self, value: Any) -> None:
        pass

    def attempt(self) -> str:
        return "claimed"


class ClaimMetadata(Hostile):
    """Puts a megabyte, and text that steers a terminal, into its metadata."""

    metadata = {"render_modes": [], "note": ESCAPES, "long": "x" * (1 << 20)}

    def attempt(self) -> str:
        return "claimed"


def sockets() -> Iterator[int]:
    """The descriptors of this process that are connected sockets."""
    for fd in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd


class WriteRaw(Hostile):
    """Writes bytes of its own into every connection: noise, or a frame that announces a terabyte."""

    def attempt(self) -> str:
        noise = os.urandom(4096)
        announced = (
            bytes(encode(Done())[0][:4]) + (16).to_bytes(4, "little") + bytes(4) + (1 << 40).to_bytes(8, "little")
        )
        for fd in sockets():
            with suppress(OSError):
                os.write(fd, announced if self.told["frame"] else noise)
        return "written"


class ReplyToNoRequest(Hostile):
    """Answers what nobody has asked, and the next requests before they are asked."""

    def attempt(self) -> str:
        for fd in sockets():
            for number in range(1, 9):
                with suppress(OSError):
                    os.write(fd, b"".join(encode(Done([[NOTHING, 1e6, False, False, {}]]), number)))
        return "answered"


class Drip(Hostile):
    """Begins a reply and sends one byte of it at a time: something comes always, and never enough."""

    def attempt(self) -> str:
        reply = b"".join(encode(Done([[NOTHING, 0.0, False, False, {"x": "y" * 900}]]), 3))
        ends = time.monotonic() + self.told["seconds"]
        for at in range(len(reply)):
            for fd in sockets():
                with suppress(OSError):
                    os.write(fd, reply[at : at + 1])
            if time.monotonic() > ends:
                break
            time.sleep(0.05)
        return "dripped"


class SendDescriptors(Hostile):
    """Sends open files along with its bytes, so that the reader runs out of descriptors."""

    def attempt(self) -> str:
        for fd in sockets():
            with suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:
                rights = array.array("i", [2] * 100)
                connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        return "sent"


class CloseConnection(Hostile):
    """Closes every connection and stays."""

    def attempt(self) -> str:
        for fd in list(sockets()):
            os.close(fd)
        time.sleep(self.told["seconds"])
        return "closed"


class PickleBytes(Hostile):
    """Sends bytes which, unpickled, run a command."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        payload = b"cposix\nsystem\n(S'touch " + self.told["marker"].encode() + b"'\ntR."
        return NOTHING, 0.0, False, False, {"attack": "succeeded", "payload": payload}


class Reduces(Hostile):
    """Sends an object that says how to remake it: by running a command."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        marker = self.told["marker"]

        class Payload:
            def __reduce__(self) -> Any:
                return os.system, (f"touch {marker}",)

        return NOTHING, 0.0, False, False, {"payload": Payload()}


class LongError(Hostile):
    """Raises an error with ``megabytes`` of text that would steer a terminal."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        raise ValueError(ESCAPES * (self.told["megabytes"] * (1 << 20) // len(ESCAPES)))


class EndlessError(Hostile):
    """Raises an error whose text takes ``seconds`` to make."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        seconds = self.told["seconds"]

        class Endless(Exception):
            def __str__(self) -> str:
                time.sleep(seconds)
                return "late"

        raise Endless


class Interrupt(Hostile):
    """Raises what is meant for the user's own Ctrl-C, or for the end of the program."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        raise KeyboardInterrupt if self.told["kind"] == "interrupt" else SystemExit(0)


class Exit(Hostile):
    """Ends its process at once."""

    def attempt(self) -> str:
        os._exit(9)


class Crash(Hostile):
    """Reads from address zero."""

    def attempt(self) -> str:
        return str(ctypes.string_at(0))


class LoopAtExit(Hostile):
    """Leaves functions and objects behind that run for ``seconds`` when the process ends."""

    def attempt(self) -> str:
        if self.steps == 1:
            atexit.register(time.sleep, self.told["seconds"])
        return "left"

    def __del__(self) -> None:
        time.sleep(self.told["seconds"])


class RaiseAtClose(Hostile):
    """Raises in close, and is closed twice."""

    def attempt(self) -> str:
        return "waits for close"

    def close(self) -> None:
        raise RuntimeError(ESCAPES)
