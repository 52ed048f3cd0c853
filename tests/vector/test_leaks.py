"""However lanes in processes end, nothing is left of them: no process, descriptor, thread, memory or segment."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from paddock.errors import InvalidLanes, NotTransferable, WorkerLost
from paddock.hosting.factories import dumps
from paddock.hosting.launch import start_by, start_fresh
from paddock.hosting.messages import Call, Failed, Make
from paddock.hosting.process_channel import ProcessChannel
from paddock.vector.processes import AsyncVectorEnv, ProcessVectorEnv
from tests.vector.fault_envs import (
    Ledger,
    Possessions,
    actions,
    children,
    ledgers,
    runs,
    shared_segments,
    wait_until,
)

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = Possessions()
    yield
    wait_until(lambda: Possessions().beyond(before) == {}, f"{Possessions().beyond(before)} gone", 5)


def _resident_bytes():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _use_once(**options):
    with ledgers(4, workers=2, **options) as envs:
        envs.reset(seed=1)
        envs.step(actions(4))


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.full)])
def test_many_lives_leave_descriptors_threads_and_memory_where_they_were(count):
    for _ in range(20):
        _use_once()
    before, before_bytes = Possessions(), _resident_bytes()
    for _ in range(count):
        _use_once()
    assert Possessions().beyond(before) == {}
    # Less than a page for each life; the allocator's own steps are allowed for.
    assert _resident_bytes() - before_bytes < 256 * 1024 + count * 1024


@pytest.mark.parametrize("count", [2, pytest.param(30, marks=pytest.mark.full)])
def test_lives_in_fresh_workers_leave_nothing_either(count):
    for _ in range(count):
        _use_once(launcher=start_fresh)


def test_restarts_leave_nothing_while_the_environment_lives_on():
    with ledgers(2, on_fault="restart") as envs:
        envs.reset(seed=1)
        for turn in range(12):
            envs.step(actions(2, 1, lane0="SIGKILL" if turn % 2 else "raise"))
            envs.step(actions(2))
            if turn == 2:
                before = Possessions()
        assert Possessions().beyond(before) == {}


def test_a_closed_environment_holds_nothing_even_if_it_is_kept():
    before = Possessions()
    envs = ledgers(3)
    envs.reset(seed=1)
    envs.close()
    envs.close()
    assert Possessions().beyond(before) == {}


def _fail():
    raise ValueError("no such map")


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


class Other(Ledger):
    def __init__(self, lane):
        super().__init__(lane)
        self.action_space = type(self.action_space)(3)


def _with_a_lock(lock=None):
    return Ledger(0)


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (_fail, ValueError),
        (_die, WorkerLost),
        (partial(Other, 3), InvalidLanes),
        (partial(_with_a_lock, threading.Lock()), NotTransferable),
    ],
    ids=["raises", "dies", "other spaces", "can't be sent"],
)
def test_an_environment_that_cannot_be_made_leaves_nothing(last, error):
    factories = [*(partial(Ledger, lane) for lane in range(3)), last]
    with pytest.raises(error, match="lane 3"):
        ProcessVectorEnv(factories, workers=2, launcher=start_by("fork"))
    with pytest.raises(error, match="lane 3"):
        AsyncVectorEnv(factories)


def test_workers_that_cannot_be_started_leave_nothing():
    before = children()
    started = []
    fork = start_by("fork")

    def second_fails():
        if started:
            raise OSError(11, "no process left")
        started.append(fork())
        return started[0]

    with pytest.raises(WorkerLost, match="could not be started: .*no process left"):
        ledgers(3, launcher=second_fails)
    assert children() == before


@pytest.mark.parametrize("launcher", [start_by("fork"), start_fresh], ids=["fork", "fresh"])
def test_an_environment_dropped_without_close_leaves_nothing(launcher):
    envs = ledgers(2, launcher=launcher, on_fault="restart")
    envs.reset(seed=1)
    envs.step(actions(2, 1, lane1="SIGKILL"))
    envs.step(actions(2))
    envs.send(actions(2))
    pids = [worker.channel.child.pid for worker in envs._lanes.workers]
    del envs
    gc.collect()
    assert not any(map(runs, pids))


@pytest.mark.parametrize("what", ["loop", "sleep", "hold the GIL", "SIGSTOP", "ignore signals", "half a frame, hang"])
def test_closing_ends_workers_that_hang(what):
    for options, limit_s in ({"timeout": 0.2}, 0.2), ({"terminate": True}, 0.0):
        envs = AsyncVectorEnv([partial(Ledger, lane) for lane in range(3)])
        envs.reset(seed=1)
        pids = envs.call("pid")
        envs.step_async(actions(3, 1, lane0=what, lane2=what))
        started_s = time.monotonic()
        envs.close(**options)
        assert time.monotonic() - started_s < limit_s + 2
        assert not any(map(runs, pids))


def test_closing_ends_what_workers_have_started():
    envs = ledgers(2)
    pids = envs.call("spawn_child")
    assert all(map(runs, pids))
    envs.close()
    wait_until(lambda: not any(map(runs, pids)), "the workers' own children are gone")


def test_what_a_worker_has_started_ends_though_somebody_else_reaped_the_worker():
    envs = ledgers(2)
    started, (worker, _) = envs.call("spawn_child"), envs.call("pid")
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not runs(worker), "the worker is dead")
    multiprocessing.active_children()  # reaps
    envs.close()
    wait_until(lambda: not any(map(runs, started)), "the workers' own children are gone")


ORPHANS = """
import os, sys, time
from functools import partial
from tests.vector.fault_envs import Ledger, actions, ledgers
from paddock.hosting.factories import dumps
from paddock.hosting.launch import start_by, start_fresh
from paddock.hosting.messages import Call, Failed, Make
from paddock.hosting.process_channel import ProcessChannel
from paddock.vector.processes import ProcessVectorEnv

if __name__ == "__main__":
    hangs = ["loop", "sleep", "hold the GIL", "SIGSTOP", "ignore signals", "half a frame, hang"]
    idle = ledgers(2)
    busy = ledgers(len(hangs), on_fault="restart")
    fresh = ledgers(2, launcher=start_fresh)
    spawned = ledgers(1, launcher=start_by("spawn"))
    pids = []
    for envs in (idle, busy, fresh, spawned):
        envs.reset(seed=1)
        pids += envs.call("pid") + envs.call("spawn_child")
    # Workers that were forked later than all others.
    busy.step(actions(len(hangs), 1, lane0="SIGKILL", lane3="SIGKILL"))
    busy.step(actions(len(hangs)))
    pids += busy.call("pid")
    bystander = os.fork()  # somebody else's child, which lives on
    if bystander == 0:
        time.sleep(3600)
    busy.send(actions(len(hangs), 1, **{f"lane{lane}": what for lane, what in enumerate(hangs)}))
    fresh.send(actions(2, 1, lane0="loop", lane1="hold the GIL"))
    print(bystander, *pids, flush=True)
    END
"""


def test_worker_whose_parent_closes_its_socket_first_ends_together_with_what_it_started():
    """A parent that is killed closes its ends one after the other, and the worker may notice the first one early."""
    near, child = start_fresh()
    channel = ProcessChannel(near, child, pickler=dumps)
    channel.send(Make(0, {"factory": partial(Ledger, 0)}))
    assert not isinstance(channel.recv(), Failed)
    channel.send(Call(0, "spawn_child"))
    pids = [child.pid, channel.recv().value]
    near.close()
    assert not child.wait(0.5)  # it waits for the lifeline
    child._lifeline.close()
    wait_until(lambda: not any(map(runs, pids)), "the worker and what it started are gone", 10)
    child.kill()


@pytest.mark.parametrize("end", ["time.sleep(3600)", "sys.exit(3)", "os._exit(0)", "raise ValueError('over')"])
def test_workers_end_with_their_parent_however_it_ends(end, tmp_path):
    segments = shared_segments()
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS.replace("END", end))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as parent:
        bystander, *pids = map(int, parent.stdout.readline().split())
        try:
            assert len(pids) == 28
            if end.startswith("time"):
                assert sum(map(runs, pids)) >= 24  # all but two that were killed, and what they had started
                parent.kill()
            parent.wait(10)
            wait_until(lambda: not any(map(runs, pids)), "the workers and what they started are gone", 10)
            assert runs(bystander)
        finally:
            os.kill(bystander, signal.SIGKILL)
    assert shared_segments() <= segments
