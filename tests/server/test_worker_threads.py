"""WorkerThreads: starts wait for their turn, and what nobody waits for any more is not left running."""

import asyncio
import errno
import socket
import threading
import weakref
from unittest.mock import Mock

import pytest

from paddock.errors import SessionGone
from paddock.hosting.codec import encode
from paddock.hosting.messages import LIMITS, Done
from paddock.server import workers
from paddock.server.workers import AwakeLoop, WorkerLink, WorkerThreads


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

            asked = threads.start(
                start, lambda: True, lambda ahead, _wait_s: places.update({name: ahead}), principal=principal
            )
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


class Awake:
    """An AwakeLoop on a clock of its own; ``yields`` counts how often the loop went round without sleeping."""

    def __init__(self, monkeypatch, *, alone=True, free=True):
        self.now_s, self.yields, self.looks, self.alone, self.free = 100.0, 0, 0, alone, free
        monkeypatch.setattr(workers, "time", Mock(monotonic=lambda: self.now_s))
        monkeypatch.setattr(workers, "_has_free_core", self._look)
        monkeypatch.setattr(workers.os, "sched_yield", self._yield)
        self.loop = AwakeLoop(lambda: self.alone)

    def _look(self):
        self.looks += 1
        return self.free

    def _yield(self):
        self.yields += 1
        self.now_s += 2**-12

    async def step(self, link="one", *, pause_s=0.0):
        """How often the loop goes round after one step, until it sleeps or for long enough."""
        before = self.yields
        self.now_s += pause_s
        self.loop.note_request(link)
        self.loop.note_reply(link)
        for _ in range(10):
            await asyncio.sleep(0)
        return self.yields - before


def test_only_the_requests_of_a_lone_client_that_come_at_once_keep_the_loop_awake(monkeypatch):
    awake = Awake(monkeypatch)

    async def run():
        first, soon = await awake.step(), await awake.step()
        late, soon_again = await awake.step(pause_s=0.125), await awake.step()
        others = [await awake.step("two"), await awake.step("one")]
        return [first, soon, late, soon_again, *others]

    assert asyncio.run(run()) == [0, 5, 0, 5, 0, 0]


def test_what_a_worker_sends_unasked_keeps_nobody_awake(monkeypatch):
    awake = Awake(monkeypatch)

    async def run():
        await awake.step()
        await awake.step()
        before = awake.yields
        for _ in range(10):
            awake.loop.note_reply("one")
            await asyncio.sleep(0)
        return awake.yields - before

    assert asyncio.run(run()) == 0


def test_two_replies_in_one_turn_are_one_reason_to_stay_awake(monkeypatch):
    awake = Awake(monkeypatch)

    async def run():
        await awake.step()
        for _ in range(3):
            awake.loop.note_request("one")
            awake.loop.note_reply("one")
        turns = awake.yields
        await asyncio.sleep(0)
        return turns, awake.yields - turns

    assert asyncio.run(run()) == (1, 1)


def test_the_loop_sleeps_while_others_want_the_core_and_looks_again_later(monkeypatch):
    awake = Awake(monkeypatch, free=False)

    async def run():
        await awake.step()
        refused = [await awake.step() for _ in range(5)]
        awake.free, looks = True, awake.looks
        still = await awake.step()
        awake.now_s += 1.0
        await awake.step()
        return refused, looks, still, await awake.step()

    assert asyncio.run(run()) == ([0] * 5, 1, 0, 5)


@pytest.mark.parametrize("given", [{"alone": False}, {"free": False}])
def test_the_loop_sleeps_where_others_are_at_work(monkeypatch, given):
    awake = Awake(monkeypatch, **given)

    async def run():
        await awake.step()
        return await awake.step()

    assert asyncio.run(run()) == 0


def test_a_link_that_is_gone_is_forgotten(monkeypatch):
    awake, link = Awake(monkeypatch), Worker()
    gone = weakref.ref(link)
    awake.loop.note_reply(link)
    awake.loop.forget(Worker())
    assert gone() is awake.loop._link
    awake.loop.forget(link)
    del link
    assert gone() is None


def test_a_link_whose_session_ends_with_its_reply_is_not_held():
    async def run():
        threads, (near, far) = WorkerThreads(1), socket.socketpair()
        child = Mock(fd=None, output_fd=None)
        link = WorkerLink(
            near, child, limits=LIMITS, threads=threads, on_frame=lambda _: link._let_go(), on_lost=Mock()
        )
        far.send(b"".join(encode(Done())))
        link._readable()
        far.close()
        threads.close()
        return threads.awake._link

    assert asyncio.run(run()) is None


@pytest.mark.parametrize(
    ("text", "cores", "free"),
    [
        ("0.50 0.40 0.30 2/321 4567\n", 2, True),
        ("0.50 0.40 0.30 3/321 4567\n", 2, False),
        ("0.50 0.40 0.30 1/321 4567\n", 1, False),
        ("0.50 0.40 0.30 x/321 4567\n", 2, False),
        ("0.50\n", 2, False),
        (None, 2, False),
    ],
)
def test_a_core_is_free_if_no_process_waits_for_one(monkeypatch, tmp_path, text, cores, free):
    file = tmp_path / "loadavg"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(workers, "_LOAD", file)
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: range(cores))
    assert workers._has_free_core() is free
