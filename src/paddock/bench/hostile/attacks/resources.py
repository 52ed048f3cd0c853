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

from paddock.bench.hostile.attacks.attempt import NOTHING, Hostile
from paddock.bench.hostile.attacks.system_call import NULL, call
from paddock.core.env import Info

_MB = 1 << 20
_F_SETPIPE_SZ = 1031


class Sleep(Hostile):
    """Sleeps ``seconds`` in the call named ``moment``: init, reset, step, render or close."""

    def __init__(self, **told: Any) -> None:
        super().__init__(**told)
        self._sleep("init")

    def _sleep(self, moment: str) -> None:
        if self.told["moment"] == moment:
            time.sleep(self.told["seconds"])

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._sleep("reset")
        return super().reset(seed=seed)

    def attempt(self) -> str:
        self._sleep("step")
        return "has slept"

    def close(self) -> None:
        self._sleep("close")


class Spin(Hostile):
    """Burns a core in step, with every signal that a program can ignore ignored."""

    def attempt(self) -> str:
        import signal

        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN)
        ends = time.monotonic() + self.told["seconds"]
        while time.monotonic() < ends:
            pass
        return "has spun"


class SpinOnTheSide(Hostile):
    """Answers at once, and burns all cores in threads meanwhile: only a limit on CPU time ends it."""

    def attempt(self) -> str:
        if self.steps == 1:
            for _ in range(4):
                threading.Thread(target=self._burn, daemon=True).start()
        time.sleep(0.2)
        used = time.process_time()
        if used < self.told["allowed_s"]:
            raise BlockingIOError(errno.EAGAIN, "not yet")
        return f"used {used:.1f} s"

    def _burn(self) -> None:
        block = np.ones(1 << 18)
        ends = time.monotonic() + self.told["seconds"]
        while time.monotonic() < ends:
            np.sqrt(block, out=block)  # without the interpreter's lock


class TakeEverything(Hostile):
    """Answers at once, and meanwhile spins, allocates and writes in threads, as much as it may."""

    def attempt(self) -> str:
        if self.steps == 1:
            for at in range(self.told["threads"]):
                burn = (self._spin, self._allocate, self._write)[at % 3]
                threading.Thread(target=self._go_on, args=(burn,), daemon=True).start()
        time.sleep(self.told.get("pause", 0.0))
        return "goes on"

    def _go_on(self, burn: Callable[[], None]) -> None:
        ends = time.monotonic() + self.told["seconds"]
        while time.monotonic() < ends:
            with suppress(OSError, MemoryError):
                burn()

    def _spin(self) -> None:
        np.sqrt(np.ones(1 << 18))  # without the interpreter's lock

    def _allocate(self) -> None:
        np.full(self.told["megabytes"] * _MB, 1, np.uint8)

    def _write(self) -> None:
        with tempfile.TemporaryFile() as file:
            for _ in range(self.told["megabytes"]):
                file.write(bytes(_MB))


class TakeMemory(Hostile):
    """Takes ``megabytes`` and writes to all of it."""

    def attempt(self) -> str:
        held = []
        for _ in range(self.told["megabytes"] // 10):
            held.append(np.ones(10 * _MB, np.uint8))
        return f"took {10 * len(held)} MB"


class TakeSharedMemory(Hostile):
    """The same in memory files, which no limit on the address space sees."""

    def attempt(self) -> str:
        block, taken = bytes(10 * _MB), 0
        fd = os.memfd_create("hostile", 0)
        try:
            while taken < self.told["megabytes"]:
                taken += os.write(fd, block) // _MB
        finally:
            os.close(fd)
        return f"took {taken} MB"


class TakeDescriptors(Hostile):
    """Opens ``count`` descriptors."""

    def attempt(self) -> str:
        import resource

        with suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        held: list[int] = []
        try:
            while len(held) < self.told["count"]:
                held.append(os.dup(2))
        finally:
            for fd in held:
                os.close(fd)
        return f"took {len(held)}"


class TakePipes(Hostile):
    """Fills ``count`` pipes, whose contents are the kernel's memory."""

    def attempt(self) -> str:
        held: list[int] = []
        try:
            while len(held) < 2 * self.told["count"]:
                held += os.pipe()
                os.set_blocking(held[-1], False)
                with suppress(BlockingIOError):
                    os.write(held[-1], bytes(1 << 16))
        finally:
            for fd in held:
                os.close(fd)
        return f"took {len(held)}"


class TakeTimers(Hostile):
    """Takes timers until there are none: they are counted with those of its user's other processes."""

    def attempt(self) -> str:
        for made in range(self.told["count"]):
            try:
                call("timer_create", 1, NULL, ctypes.byref(ctypes.c_int()))
            except OSError:
                if made < self.told["enough"]:
                    raise
                break
        return "took all timers"


class TakePipePages(Hostile):
    """Makes ``count`` pipes as large as they can be: all of a user's pipes share one number of pages."""

    def attempt(self) -> str:
        import fcntl

        self.held: list[int] = []
        while len(self.held) < 2 * self.told["count"]:
            self.held += os.pipe()
            try:
                fcntl.fcntl(self.held[-1], _F_SETPIPE_SZ, _MB)
            except OSError:
                if len(self.held) < self.told["count"] // 2:
                    raise
        return f"holds {len(self.held) // 2} pipes"


class TakeThreads(Hostile):
    """Starts ``count`` threads."""

    def attempt(self) -> str:
        stop = threading.Event()
        held: list[threading.Thread] = []
        try:
            while len(held) < self.told["count"]:
                thread = threading.Thread(target=stop.wait, daemon=True)
                thread.start()
                held.append(thread)
        except RuntimeError:  # can't start new thread
            raise BlockingIOError(errno.EAGAIN, "no more threads") from None
        finally:
            stop.set()
        return f"took {len(held)}"


class Flood(Hostile):
    """Prints ``megabytes`` to stdout and stderr."""

    def attempt(self) -> str:
        line = ("\x1b]0;hostile\x07" + "flood " * 170)[:1023] + "\n"
        for _ in range(self.told["megabytes"] * 1024 // 2):
            sys.stdout.write(line)
            sys.stderr.write(line)
        sys.stdout.flush()
        sys.stderr.flush()
        return "has printed"


class HugeObservation(Hostile):
    """Declares two numbers and sends ``megabytes`` of them."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        if self.steps == 1:
            return NOTHING, 0.0, False, False, {}
        return np.zeros(self.told["megabytes"] << 18, np.float32), 0.0, False, False, {}


class HugeInfo(Hostile):
    """Sends an info that is large (``entries``) or deep (``depth``)."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        if self.steps == 1:
            return NOTHING, 0.0, False, False, {}
        info: Info = {f"key {number}": "x" * 40 for number in range(self.told.get("entries", 0))}
        for _ in range(self.told.get("depth", 0)):
            info = {"in": info}
        return NOTHING, 0.0, False, False, info


class ZipOfDeath(Hostile):
    """Puts into info bytes that unpack to a thousand times their size, for whoever unpacks them."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        import zlib

        self.steps += 1
        return NOTHING, 0.0, False, False, {"attack": "succeeded", "packed": zlib.compress(bytes(16 * _MB))}


class HugeSpace(Hostile):
    """Declares a space of ``elements``: the side that reads it must not make room for them all."""

    def __init__(self, **told: Any) -> None:
        from paddock.spaces import Box

        super().__init__(**told)
        self.observation_space = Box(0.0, 1.0, (told["elements"],), np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        return np.zeros(self.told["elements"], np.float32), {}

    def attempt(self) -> str:
        return "declared"
