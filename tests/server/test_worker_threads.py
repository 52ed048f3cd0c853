"""WorkerThreads: starts wait for their turn, and what nobody waits for any more is not left running."""

import asyncio
import errno
import socket
import threading
from unittest.mock import Mock

import pytest

from paddock.errors import SessionGone
from paddock.hosting.codec import encode
from paddock.hosting.messages import LIMITS, Done
from paddock.server import workers
from paddock.server.workers import WorkerLink, WorkerThreads


class Worker:
    """Both ends of one: what a start returns."""

    def __init__(self):
        self.killed = threading.Event()

    def close(self):
        pass

    def kill(self):
        self.killed.set()


def test_no_more_workers_start_at_a_time_than_asked_for():
    going, most, lock, go_on = 0, 0, threading.Lock(), threading.Event()

    def start():
        nonlocal going, most
        with lock:
            going, most = going + 1, max(most, going + 1)
        go_on.wait(5)
        with lock:
            going -= 1
        return Worker(), Worker()

    async def burst():
        threads = WorkerThreads(3)
        starts = [asyncio.ensure_future(threads.start(start, lambda: True)) for _ in range(12)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*starts)
        threads.close()

    asyncio.run(burst())
    assert 1 <= most <= 3


def test_worker_that_nobody_wants_when_its_turn_comes_is_not_started():
    async def run():
        threads = WorkerThreads(1)
        with pytest.raises(SessionGone):
            await threads.start(lambda: pytest.fail("it was started"), lambda: False)
        threads.close()

    asyncio.run(run())


def test_operators_have_their_turn_first_and_then_each_principal_in_turn():
    turns, places, go_on = [], {}, threading.Event()

    async def run():
        threads = WorkerThreads(1)

        def ask(principal, name):
            def start():
                go_on.wait(5)
                turns.append(name)
                return Worker(), Worker()

            asked = threads.start(start, lambda: True, lambda ahead: places.update({name: ahead}), principal=principal)
            return asyncio.ensure_future(asked)

        starts = [ask("agent-a", "first")]
        starts += [ask("agent-a", f"a{number}") for number in range(3)]
        starts += [ask("agent-b", "b0"), ask("operator-c", "c0"), ask("observer-d", "d0"), ask("agent-b", "b1")]
        await asyncio.sleep(0)
        threads.announce_places()
        go_on.set()
        await asyncio.gather(*starts)
        threads.close()

    asyncio.run(run())
    assert turns == ["first", "c0", "a0", "b0", "d0", "a1", "b1", "a2"]
    assert [places[name] for name in turns[1:]] == [1, 2, 3, 4, 5, 6, 7]


def test_start_that_was_called_off_half_way_is_ended_when_it_is_there():
    begun, go_on, child = threading.Event(), threading.Event(), Worker()

    def start():
        begun.set()
        go_on.wait(5)
        return Worker(), child

    async def run():
        threads = WorkerThreads(1)
        task = asyncio.ensure_future(threads.start(start, lambda: True))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        threads.close()

    asyncio.run(run())
    assert child.killed.wait(5)


def test_a_start_for_which_there_is_no_thread_gives_its_turn_back(monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    async def start():
        threads = WorkerThreads(1)
        with monkeypatch.context() as patched, pytest.raises(OSError) as refused:
            patched.setattr(threading.Thread, "start", no_thread)
            await threads.start(lambda: (None, None), lambda: True)
        assert refused.value.errno == errno.EAGAIN and threads.starting == 0
        await asyncio.wait_for(threads.start(lambda: (None, None), lambda: True), 10)

    asyncio.run(start())


def turns_of_the_loop(monkeypatch, *, alone=True, free=True, within_s=0.02):
    """How often the loop turns in this time, after a request that came at once."""
    monkeypatch.setattr(workers, "_AWAKE_S", 0.01)
    monkeypatch.setattr(workers, "_has_free_core", lambda: free)
    yields = []
    monkeypatch.setattr(workers.os, "sched_yield", lambda: yields.append(1))

    async def run():
        threads = WorkerThreads(1, alone=lambda: alone)
        threads.replied = None, workers.time.monotonic()
        threads.stay_awake()
        threads.stay_awake()
        await asyncio.sleep(within_s)
        before = len(yields)
        await asyncio.sleep(within_s)
        assert len(yields) == before, "it falls asleep"
        threads.close()

    asyncio.run(run())
    return len(yields)


def test_the_loop_stays_awake_for_a_moment(monkeypatch):
    assert turns_of_the_loop(monkeypatch) > 10


@pytest.mark.parametrize("given", [{"alone": False}, {"free": False}])
def test_the_loop_sleeps_where_others_want_the_core(monkeypatch, given):
    assert turns_of_the_loop(monkeypatch, **given) == 0


def test_only_the_requests_of_a_lone_client_that_come_at_once_keep_the_loop_awake(monkeypatch):
    monkeypatch.setattr(workers, "_AWAKE_S", 0.05)
    monkeypatch.setattr(WorkerThreads, "stay_awake", lambda self: awake.append(1))
    awake, frame = [], b"".join(encode(Done()))

    async def run():
        threads, ends = WorkerThreads(1), [socket.socketpair() for _ in range(2)]
        links = [
            WorkerLink(
                near, Mock(fd=None, output_fd=None), limits=LIMITS, threads=threads, on_frame=Mock(), on_lost=Mock()
            )
            for near, _ in ends
        ]

        async def step(place, pause_s=0.0):
            await asyncio.sleep(pause_s)
            links[place].send(frame)
            ends[place][1].send(frame)
            while threads.busy:
                await asyncio.sleep(0)
            found = len(awake)
            awake.clear()
            return found

        steps = [await step(0), await step(0), await step(0, 0.1), await step(0), await step(1), await step(0)]
        for link, (_, far) in zip(links, ends, strict=True):
            link._let_go()
            far.close()
        threads.close()
        return steps

    assert asyncio.run(run()) == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize(("running", "cores", "free"), [(2, 2, True), (3, 2, False), (1, 1, False)])
def test_a_core_is_free_if_no_process_waits_for_one(monkeypatch, tmp_path, running, cores, free):
    file = tmp_path / "loadavg"
    file.write_text(f"0.50 0.40 0.30 {running}/321 4567\n")
    monkeypatch.setattr(workers, "_LOAD", file)
    monkeypatch.setattr(workers.os, "cpu_count", lambda: cores)
    assert workers._has_free_core() is free
