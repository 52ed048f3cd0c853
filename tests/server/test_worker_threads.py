"""WorkerThreads: starts wait for their turn, and what nobody waits for any more is not left running."""

import asyncio
import errno
import threading

import pytest

from paddock.errors import SessionGone
from paddock.server.workers import WorkerThreads


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
