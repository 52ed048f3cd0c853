"""Attacks on what is shared: time, memory, descriptors. Each has an end of its own, far beyond what it is allowed."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from paddock.bench.hostile.attack import CONTAINED, GREEDY, IN_ITS_PROCESS, LATE, SHORT, SLEEP_S
from paddock.bench.hostile.attacks.attempt import NOTHING, NULL, Hostile, HostileWrapper, attack, call
from paddock.core.env import Info

_MB = 1 << 20
_F_SETPIPE_SZ = 1031
_NEVER_CLOSES: dict[str, Any] = {"expected": {"timeout", "contained", "ended"}, "policy": SHORT, **IN_ITS_PROCESS}


def _late(code: str, title: str, moment: str, **more: Any) -> Callable[[Any], Any]:
    """A call that does not come back in time."""
    more = {"expected": LATE, "policy": SHORT, "neighbour": True, **more}
    return attack(code, title, "caller", {"moment": moment, "seconds": SLEEP_S}, **more)


@_late("R15", "sleeps in step", "step")
@_late("R16", "sleeps in reset", "reset")
@_late("R17", "sleeps while it is made", "init", policy={"start_s": 2.0}, calls=())
@attack("R18", "never closes", "caller", {"moment": "close", "seconds": 9}, **_NEVER_CLOSES)
class Sleep(Hostile):
    """Sleeps ``seconds`` in the call named ``moment``: init, reset, step or close."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._sleep("init")

    def _sleep(self, moment: str) -> None:
        if self.arguments["moment"] == moment:
            time.sleep(self.arguments["seconds"])

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._sleep("reset")
        return super().reset(seed=seed)

    def attempt(self) -> str:
        self._sleep("step")
        return "has slept"

    def close(self) -> None:
        self._sleep("close")


@attack("R20", "a wrapper never closes", "caller", base=HostileWrapper, method="close", **_NEVER_CLOSES)
def hold_up(seconds: int = 9) -> None:
    time.sleep(seconds)


@attack("R01", "burns a core and ignores signals", "caller", expected=LATE, policy=SHORT, neighbour=True)
def spin(seconds: int = SLEEP_S) -> str:
    """Burns a core in step, with every signal that a program can ignore ignored."""
    import signal

    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass
    return "has spun"


@attack(
    "R02",
    "burns all cores on the side",
    "claim",
    {"seconds": 25, "allowed_s": 2.5},
    expected={"cpu"},
    policy={"cpu_s": 1.0},
    calls=("reset", *["step"] * 100, "close"),  # on a busy machine its CPU time comes slowly
    neighbour=True,
    needs="cpu-limited",
)
class SpinOnTheSide(Hostile):
    """Answers at once, and burns all cores in threads meanwhile: only a limit on CPU time ends it."""

    def attempt(self) -> str:
        if self.steps == 1:
            for _ in range(4):
                threading.Thread(target=self._burn, daemon=True).start()
        if time.process_time() < self.arguments["allowed_s"]:
            time.sleep(0.2)
        used = time.process_time()
        if used < self.arguments["allowed_s"]:
            raise BlockingIOError(errno.EINPROGRESS, f"used {used:.1f} s")
        return f"used {used:.1f} s"

    def _burn(self) -> None:
        block = np.ones(1 << 18)
        ends = time.monotonic() + self.arguments["seconds"]
        while time.monotonic() < ends:
            np.sqrt(block, out=block)  # without the interpreter's lock


@attack(
    "R30",
    "spins, allocates and writes as much as it may",
    "neighbour",
    {"seconds": 20, "threads": 12, "megabytes": 16, "pause": 1.0},
    expected=CONTAINED,
    calls=("reset", *["step"] * 3, "close"),
    neighbour=True,
    no_control="without a wall, too, a kernel may share its cores fairly",
    needs="cpu-shared",
)
class TakeEverything(Hostile):
    """Answers at once, and meanwhile spins, allocates and writes in threads, as much as it may."""

    def attempt(self) -> str:
        if self.steps == 1:
            for at in range(self.arguments["threads"]):
                burn = (self._spin, self._allocate, self._write)[at % 3]
                threading.Thread(target=self._repeat, args=(burn,), daemon=True).start()
        time.sleep(self.arguments.get("pause", 0.0))
        return "goes on"

    def _repeat(self, burn: Callable[[], None]) -> None:
        ends = time.monotonic() + self.arguments["seconds"]
        while time.monotonic() < ends:
            with suppress(OSError, MemoryError):
                burn()

    def _spin(self) -> None:
        np.sqrt(np.ones(1 << 18))  # without the interpreter's lock

    def _allocate(self) -> None:
        np.full(self.arguments["megabytes"] * _MB, 1, np.uint8)

    def _write(self) -> None:
        with tempfile.TemporaryFile() as file:
            for _ in range(self.arguments["megabytes"]):
                file.write(bytes(_MB))


_TAKES_MEMORY: dict[str, Any] = {
    "expected": GREEDY,
    "policy": {"memory_mb": 300},
    "neighbour": True,
    "needs": "memory-limited",
}


@attack("R03", "takes memory", "claim", **_TAKES_MEMORY)
def take_memory(megabytes: int = 600) -> str:
    held = []
    for _ in range(megabytes // 10):
        held.append(np.ones(10 * _MB, np.uint8))
    return f"took {10 * len(held)} MB"


@attack("R04", "takes shared memory", "claim", **_TAKES_MEMORY)
def take_shared_memory(megabytes: int = 600) -> str:
    """The same in memory files, which no limit on the address space sees."""
    block, taken = bytes(10 * _MB), 0
    fd = os.memfd_create("hostile", 0)
    try:
        while taken < megabytes:
            taken += os.write(fd, block) // _MB
    finally:
        os.close(fd)
    return f"took {taken} MB"


@attack("R06", "takes descriptors", "claim", needs="descriptors-limited")
def take_descriptors(count: int = 900) -> str:
    import resource

    with suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: list[int] = []
    try:
        while len(held) < count:
            held.append(os.dup(2))
    finally:
        for fd in held:
            os.close(fd)
    return f"took {len(held)}"


@attack("R07", "fills pipes", "claim", needs="descriptors-limited")
def fill_pipes(count: int = 300) -> str:
    """Fills ``count`` pipes, whose contents are the kernel's memory."""
    held: list[int] = []
    try:
        while len(held) < 2 * count:
            held += os.pipe()
            os.set_blocking(held[-1], False)
            with suppress(BlockingIOError):
                os.write(held[-1], bytes(1 << 16))
    finally:
        for fd in held:
            os.close(fd)
    return f"took {len(held)}"


@attack("R21", "takes all timers of its user", "share", share="timers", needs="shares-kept")
def take_timers(count: int = 3000, enough: int = 1000) -> str:
    """Takes timers until there are none: they are counted with those of its user's other processes."""
    for made in range(count):
        try:
            call("timer_create", 1, NULL, ctypes.byref(ctypes.c_int()))
        except OSError:
            if made < enough:
                raise
            break
    return "took all timers"


@attack("R22", "takes all pages for pipes of its user", "share", share="pipes", needs="shares-kept")
def take_pipe_pages(count: int = 100) -> str:
    """Makes ``count`` pipes as large as they can be: all of a user's pipes share one number of pages."""
    import fcntl

    held: list[int] = []  # never closed
    while len(held) < 2 * count:
        held += os.pipe()
        try:
            fcntl.fcntl(held[-1], _F_SETPIPE_SZ, _MB)
        except OSError:
            if len(held) < count // 2:
                raise
    return f"holds {len(held) // 2} pipes"


@attack("R08", "starts threads", "claim", policy={"threads": 64}, needs="tasks-limited")
def start_threads(count: int = 300) -> str:
    stop = threading.Event()
    held: list[threading.Thread] = []
    try:
        while len(held) < count:
            thread = threading.Thread(target=stop.wait, daemon=True)
            thread.start()
            held.append(thread)
    except RuntimeError:  # can't start new thread
        raise BlockingIOError(errno.EAGAIN, "no more threads") from None
    finally:
        stop.set()
    return f"took {len(held)}"


@attack("R09", "prints without end", "output", expected=CONTAINED, neighbour=True, needs="output-limited")
def flood(megabytes: int = 8) -> str:
    line = ("\x1b]0;hostile\x07" + "flood " * 170)[:1023] + "\n"
    for _ in range(megabytes * 1024 // 2):
        sys.stdout.write(line)
        sys.stderr.write(line)
    sys.stdout.flush()
    sys.stderr.flush()
    return "has printed"


_HUGE: dict[str, Any] = {"expected": {"violation", "protocol"}, "needs": "data-checked"}


@attack("R10", "sends a huge observation", "data", {"megabytes": 80}, **_HUGE)
@attack("R11", "sends an endless info", "data", {"entries": 9000}, **_HUGE)
@attack(
    "R12",
    "sends a bottomless info",
    "data",
    {"depth": 3000},
    expected={"violation", "protocol", "raised"},
    control="none",
    needs="data-checked",
)
class HugeResult(Hostile):
    """Sends an observation of ``megabytes``, or an info that is large (``entries``) or deep (``depth``)."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        if self.steps == 1:
            return NOTHING, 0.0, False, False, {}
        observation, sizes = NOTHING, self.arguments
        if "megabytes" in sizes:
            observation = np.zeros(sizes["megabytes"] << 18, np.float32)
        info: Info = {f"key {number}": "x" * 40 for number in range(sizes.get("entries", 0))}
        for _ in range(sizes.get("depth", 0)):
            info = {"in": info}
        return observation, 0.0, False, False, info


@attack(
    "R13",
    "sends a zip of death",
    "memory",
    method="info",
    expected=CONTAINED,
    no_control="data is never unpacked, with or without a wall",
    needs="data-checked",
)
def send_zip_of_death() -> Info:
    """Puts bytes into an info that unpack to a thousand times their size."""
    import zlib

    return {"attack": "succeeded", "packed": zlib.compress(bytes(16 * _MB))}


@attack(
    "R19",
    "declares a space without end",
    "memory",
    {"elements": 300 << 20},
    expected={"violation", "protocol", "memory", "raised"},
    calls=("close",),
    no_control="a space that large can't be sent, with or without a wall",
    needs="data-checked",
)
class HugeSpace(Hostile):
    """Declares a space of ``elements``: the side that reads it must not make room for them all."""

    def __init__(self, **arguments: Any) -> None:
        from paddock.spaces import Box

        super().__init__(**arguments)
        self.observation_space = Box(0.0, 1.0, (arguments["elements"],), np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        return np.zeros(self.arguments["elements"], np.float32), {}
