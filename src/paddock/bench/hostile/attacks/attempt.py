"""Hostile: an environment whose step is an attack, ``attack``, which enters one, and what attacks are made of.

It reports honestly how the attack went, but the judge looks elsewhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from paddock.bench.hostile.attack import enter
from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.spaces import Box, Discrete

NOTHING = np.zeros(2, np.float32)


class Hostile(Env[Any, Any]):
    """Tries ``attempt`` in every step. ``arguments`` say where the canaries are, and how far to go. Itself harmless."""

    kind = "env"
    parameters: Mapping[str, Any] = {}
    metadata = {"render_modes": []}

    def __init__(self, **arguments: Any) -> None:
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)
        self.arguments = arguments
        self.steps = 0

    def attempt(self) -> str:
        """The attack. What it brings back is the loot; an OSError means that it was denied."""
        return ""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        return NOTHING, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        return NOTHING, 0.0, False, False, self.info()

    def info(self) -> Info:
        """What every step returns."""
        return run_attempt(self.attempt)


def run_attempt(attempt: Callable[[], str]) -> Info:
    """Run the attempt; return how it went, as an info."""
    try:
        loot = attempt()
    except MemoryError:
        return {"attack": "denied: MemoryError"}
    except OSError as error:
        return {"attack": f"denied: {name_of(error)}"}
    except Exception as error:
        return {"attack": f"failed: {type(error).__name__}: {error}"}
    return {"attack": "succeeded", "loot": loot}


def name_of(error: OSError) -> str:
    """The error's name, such as EPERM."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def first_that_works(attempt: Callable[[Any], str], values: Iterable[Any]) -> str:
    """The loot of the attempt with the first value for which it is not denied; if it always is, the last denial."""
    denial: OSError = PermissionError(errno.EPERM, "nothing was tried")
    for value in values:
        try:
            return attempt(value)
        except OSError as error:
            denial = error
    raise denial


def open_first(paths: Iterable[str], flags: int) -> str:
    """Open the first of ``paths`` that can be opened, and do nothing with it."""

    def open_it(path: str) -> str:
        os.close(os.open(path, flags))
        return f"reached: {path}"

    return first_that_works(open_it, paths)


class HostileWrapper(Wrapper[Any, Any, Any, Any]):
    """Passes all through, and tries ``attempt`` in every step."""

    kind = "wrapper"
    parameters: Mapping[str, Any] = {}

    def __init__(self, env: Env[Any, Any], **arguments: Any) -> None:
        super().__init__(env)
        self.arguments = arguments

    def attempt(self) -> str:
        """The attack."""
        return ""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return observation, reward, terminated, truncated, run_attempt(self.attempt)


def attack(
    code: str,
    title: str,
    canary: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    base: type[Any] = Hostile,
    method: str = "attempt",
    **more: Any,
) -> Callable[[Any], Any]:
    """Decorator: ``enter`` a class, with these arguments. A class may have several entries.

    A function becomes a class first: a ``base`` whose ``method`` calls it. Each of its parameters is an argument: its
    default, or the canary of its name.
    """

    def decorate(hostile: Any) -> Any:
        if not isinstance(hostile, type):
            function, parameters = hostile, signature(hostile).parameters.values()
            members = {
                "__module__": function.__module__,
                "__doc__": function.__doc__,
                "parameters": {
                    one.name: f"${one.name}" if one.default is one.empty else one.default for one in parameters
                },
                method: lambda self: function(**self.arguments),
            }
            hostile = type(function.__name__, (base,), members)
        target, filled = f"{hostile.__module__}:{hostile.__name__}", {**hostile.parameters, **(arguments or {})}
        enter(code, title, canary, filled, kind=hostile.kind, target=target, **more)
        return hostile

    return decorate


# System calls by name, past libc. Dangerous ones get arguments that the kernel can only refuse.


# name:number on x86_64:number on aarch64
_NUMBERS = """
acct:163:89 bpf:321:280 chroot:161:51 clock_settime:227:112 clone3:435:435 fanotify_init:300:262 getpid:39:172
init_module:175:105 io_uring_setup:425:425 kexec_load:246:104 keyctl:250:219 memfd_create:319:279 mount:165:40
name_to_handle_at:303:264 open_by_handle_at:304:265 perf_event_open:298:241 pidfd_getfd:438:438 pidfd_open:434:434
pivot_root:155:41 prctl:157:167 process_vm_readv:310:270 ptrace:101:117 quotactl:179:60 reboot:169:142
sethostname:170:161 setns:308:268 swapon:167:224 syslog:103:116 timer_create:222:107 timer_delete:226:111
unshare:272:97 userfaultfd:323:282
"""
# What a wall answers. Any other error, or none, comes from the code behind it.
WALL = (errno.EPERM, errno.EACCES, errno.ENOSYS)
NULL = ctypes.c_void_p(None)


def number_of(name: str) -> int:
    """The call's number on this machine."""
    rows = {row.partition(":")[0]: row.split(":")[1:] for row in _NUMBERS.split()}
    return int(rows[name][platform.machine() == "aarch64"])


def call(name: str, *arguments: Any) -> int:
    """The call's result; its error as OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = libc.syscall(ctypes.c_long(number_of(name)), *wide)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def reach_kernel(name: str, *arguments: Any) -> str:
    """Whether the kernel looked at the arguments at all; OSError if it was kept from it."""
    try:
        return f"reached: {call(name, *arguments)}"
    except OSError as error:
        if error.errno in WALL:
            raise
        return f"reached: {name_of(error)}"


class Quiet(Env[Any, Any]):
    """Does nothing but draw two random numbers per step: they show whether anybody has disturbed it."""

    metadata = {"render_modes": []}

    def __init__(self, secret: str = "") -> None:
        self.secret = secret
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        return self._draw(), 0.0, False, False, {}

    def _draw(self) -> Any:
        return self.np_random.random(2, np.float32)


HARMLESS = f"{__name__}:Hostile"  # what wrappers are put around
QUIET = EnvSpec("Hostile/Quiet-v0", entry_point=f"{__name__}:Quiet")
