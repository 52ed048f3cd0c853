"""Environments that fail in every way, and what the tests need to watch processes."""

import ctypes
import faulthandler
import gc
import os
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np

import paddock
from paddock.hosting.codec import encode
from paddock.hosting.launch import start_by
from paddock.hosting.messages import Done
from paddock.spaces import Box, Discrete
from paddock.vector.processes import ProcessVectorEnv

NO_ACTION = -1
_FIRST_DEED = 1000


def _raise():
    raise ValueError("the wheel came off")


def _loop():
    while True:
        pass


def _hold_the_gil():
    re.match(r"(a+)+$", "a" * 64 + "b")


def _sockets():
    """The descriptors of this worker's sockets, found as hostile code would find them."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(int(name))
        except OSError:
            continue
    return found


def _write_to_the_parent(data):
    for fd in _sockets():
        os.write(fd, data)


def _half_a_frame(then):
    frame = b"".join(encode(Done(np.arange(100)), 1))
    _write_to_the_parent(frame[: len(frame) // 2])
    then()


def _ignore_signals_and_hang():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO):
        signal.signal(number, signal.SIG_IGN)
    _loop()


DEEDS = {
    "raise": _raise,
    "sys.exit": partial(sys.exit, 3),
    "os._exit": partial(os._exit, 3),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: (faulthandler.disable(), ctypes.string_at(0)),
    "SIGABRT": lambda: (faulthandler.disable(), os.abort()),
    "loop": _loop,
    "sleep": partial(time.sleep, 3600),
    "hold the GIL": _hold_the_gil,
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "garbage": lambda: (_write_to_the_parent(b"garbage " * 50), _loop()),
    "half a frame, hang": lambda: _half_a_frame(_loop),
    "half a frame, exit": lambda: _half_a_frame(partial(os._exit, 0)),
    "ignore signals": _ignore_signals_and_hang,
}


def deed(name):
    """The action that makes a Ledger do this instead of stepping."""
    return _FIRST_DEED + list(DEEDS).index(name)


class Ledger(paddock.Env):
    """Its observation says all: lane, seed of the last seeded reset, episodes since, steps in it, and the last action.

    So a result that is late, lost, doubled or another lane's shows. ``log`` gets a line for each reset; the first
    ``bad_resets`` of the lane, in whatever process, do ``how``.
    """

    metadata = {"render_modes": ["ansi"]}
    render_mode = "ansi"

    def __init__(self, lane, *, length=7, log=None, bad_resets=0, how="raise"):
        self.observation_space = Box(-(2**62), 2**62, (5,), dtype=np.int64)
        self.action_space = Discrete(2000)
        self.lane, self.length, self.log, self.bad_resets, self.how = lane, length, log, bad_resets, how
        self.seed_used, self.episode, self.count, self.note = 0, 0, 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(f"{seed}\n")
            if len(Path(self.log).read_text().splitlines()) <= self.bad_resets:
                DEEDS[self.how]()
        if options and "do" in options and self.lane == options["lane"]:
            DEEDS[options["do"]]()
        if seed is None:
            self.episode += 1
        else:
            self.seed_used, self.episode = seed, 0
        self.count = 0
        return self._observe(NO_ACTION), ({"options": str(options)} if options else {})

    def step(self, action):
        if action >= _FIRST_DEED:
            DEEDS[list(DEEDS)[action - _FIRST_DEED]]()
        self.count += 1
        return self._observe(action), reward_of(self.count, action), self.count >= self.length, False, {}

    def _observe(self, action):
        return np.array([self.lane, self.seed_used % 2**62, self.episode, self.count, action], dtype=np.int64)

    def do(self, name):
        DEEDS[name]()

    def echo(self, value):
        return value

    def pid(self):
        return os.getpid()

    def spawn_child(self):
        """Start a program that outlives this process, unless somebody sees to it."""
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]).pid

    def render(self):
        return f"lane {self.lane}"

    def snapshot(self):
        return f"{self.seed_used} {self.episode} {self.count}".encode()

    def restore(self, snapshot):
        self.seed_used, self.episode, self.count = map(int, snapshot.split())


def reward_of(count, action):
    return count * 10_000.0 + float(action)


def ledgers(num_envs, *, length=1000, launcher=None, lane_arguments=None, **options):
    """Ledgers in forked workers, one each unless ``workers`` says otherwise."""
    arguments = lane_arguments or {}
    factories = [partial(Ledger, lane, length=length, **arguments.get(lane, {})) for lane in range(num_envs)]
    options = {"workers": num_envs, "launcher": launcher or start_by("fork"), **options}
    return ProcessVectorEnv(factories, **options)


def actions(num_envs, value=1, **deeds):
    """``value`` for every lane, and deeds for some: ``lane0="raise"``."""
    chosen = np.full(num_envs, value, dtype=np.int64)
    for lane, name in deeds.items():
        chosen[int(lane.removeprefix("lane"))] = deed(name)
    return chosen


def wait_until(true, what, limit_s=20.0):
    """Wait for an event that has no handle to wait on, for a bounded time."""
    ends_s = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < ends_s, f"not within {limit_s} s: {what}"
        select.select([], [], [], 0.005)


def runs(pid):
    """Whether this process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def children(parent=None):
    """The processes that this one started and that still exist, zombies among them."""
    path = Path(f"/proc/{parent or os.getpid()}/task")
    return {int(pid) for task in path.iterdir() for pid in (task / "children").read_text().split()}


def descriptors():
    return set(os.listdir("/proc/self/fd"))


def shared_segments():
    return set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set()


class Possessions:
    """What this process has, to be compared with what it has later."""

    def __init__(self):
        gc.collect()
        self.found = {
            "children": len(children()),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threading.active_count(),
            "tasks": len(list(Path("/proc/self/task").iterdir())),
            "mapped blocks": Path("/proc/self/maps").read_text().count("memfd:paddock"),
            "segments": len(shared_segments()),
        }

    def beyond(self, before):
        """What there is more of than before. Less is fine: OpenBLAS, for one, ends its threads when we fork."""
        return {what: count - before.found[what] for what, count in self.found.items() if count > before.found[what]}

    def __repr__(self):
        return f"Possessions({self.found})"
