"""Environments that do harm when their action says so, and a limit for tests: an attack that succeeds would hang."""

import os
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import paddock
from paddock.hosting.host import Host
from paddock.hosting.launch import start_by
from paddock.hosting.messages import Rows
from paddock.spaces import Box, Discrete
from paddock.vector.loop import SyncVectorEnv
from paddock.vector.processes import ProcessVectorEnv
from tests.vector.fault_envs import wait_until

GO, END, RAISE, INTERRUPT_PARENT, FORK_AND_DIE, LARGE_INFO, GIANT_INFO, RAISE_KEY_ERROR = range(8)

LARGE_BYTES = 2_000_000  # more than a socket holds
LIMIT_S = 30.0
HELPER_S = 60


def _fork_and_die():
    if os.fork() == 0:  # it holds this worker's socket open
        signal.alarm(HELPER_S)
        signal.pause()
    os._exit(3)


def _sleeps(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


class Puppet(paddock.Env):
    """Counts its steps since reset, in its observation and info; the action says what else it does."""

    observation_space = Discrete(10**6)
    action_space = Discrete(10)

    def __init__(self, lane=0):
        self.lane, self.count = lane, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        info = {"count": self.count}
        if action == RAISE:
            raise ValueError("the wheel came off")
        if action == RAISE_KEY_ERROR:
            raise KeyError("no such wheel")
        if action == INTERRUPT_PARENT:
            wait_until(lambda: _sleeps(os.getppid()), "the parent waits")
            os.kill(os.getppid(), signal.SIGINT)
        if action == FORK_AND_DIE:
            _fork_and_die()
        if action == LARGE_INFO:
            info["large"] = np.zeros(LARGE_BYTES, np.uint8)
        if action == GIANT_INFO:
            info["giant"] = np.empty((0, 2**60), np.int8)  # no bytes, yet n of them exceed every address
        return self.count, 1.0, bool(action == END), False, info

    def answer_steps_with(self, value, lane):
        """From now on, have this lane's worker answer every step with this value."""
        if self.lane == lane:
            Host.step_rows = lambda *_: Rows(value)

    def pid(self):
        return os.getpid()

    def snapshot(self):
        return str(self.count).encode()

    def restore(self, snapshot):
        self.count = int(snapshot)


class Picture(Puppet):
    """Observations larger than a socket holds."""

    observation_space = Box(0, 255, (LARGE_BYTES,), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(LARGE_BYTES, 7, np.uint8), {}


class Echo(Puppet):
    """Observes its action and tells its options; an action of 9 raises."""

    observation_space = Box(-99, 99, (1,), np.float32)
    action_space = Box(-99, 99, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {"options": options["x"]} if options else {}

    def step(self, action):
        if action[0] == 9:
            raise ValueError("nine")
        return np.array(action, np.float32), 1.0, False, False, {}


class Heavy(Puppet):
    """Actions larger than a socket holds."""

    action_space = Box(-1, 1, (LARGE_BYTES // 4,), np.float32)

    def step(self, action):
        return 1, 0.0, False, False, {}


class OddBools(Puppet):
    """Its worker writes bytes into shared bools that are neither 0 nor 1."""

    observation_space = Box(0, 1, (3,), np.bool_)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.bool_), {}

    def step(self, action):
        return np.zeros(3, np.bool_), 0.0, False, False, {}

    def write_odd_bytes(self, notes):
        def step_rows(host, request, block):
            block.observations.view(np.uint8)[:] = 77
            block.terminations.view(np.uint8)[:] = 77
            return Rows(notes)

        Host.step_rows = step_rows


def processes(num_envs, *, make=Puppet, **options):
    """Lanes in forked workers, one each unless ``workers`` says otherwise."""
    options = {"workers": num_envs, "launcher": start_by("fork"), **options}
    return ProcessVectorEnv([partial(make, lane) for lane in range(num_envs)], **options)


def in_one_worker(num_envs, **options):
    return processes(num_envs, workers=1, **options)


def in_a_loop(num_envs, **options):
    return SyncVectorEnv([partial(Puppet, lane) for lane in range(num_envs)], **options)


def mask(*lanes, of):
    """A bool for each lane."""
    return np.isin(np.arange(of), lanes)


@contextmanager
def limited(seconds=LIMIT_S):
    """Fail in place of hanging."""

    def stop(*_):
        raise TimeoutError(f"the test takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
