"""Sessions that share one worker: each has its own environments, and one that is stuck costs all of them theirs."""

import asyncio
import os
import signal

import numpy as np
import pytest

from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.server.crew import Crew
from paddock.server.served import Served

REQUEST_S = 100.0  # what one request may take: more than to start


class Peer:
    """A session's end, without a server."""

    def __init__(self, served):
        self.what = served.what({})
        self.replies = asyncio.Queue()
        self.lost = asyncio.get_running_loop().create_future()

    @classmethod
    async def of(cls, served, crew):
        peer = cls(served)
        peer.link = await served.shared.link(
            crew, lambda: True, on_frame=peer.replies.put_nowait, on_lost=peer.lost.set_result
        )
        return peer

    def send(self, request, number=1):
        self.link.send(b"".join(encode(request, number)))

    async def ask(self, request, number=1):
        self.send(request, number)
        got, message = decode_frame(await self.replies.get())
        assert got == number
        return message


@pytest.fixture
def run():
    """Runs a test's coroutine, which is given what is served and a crew; nothing is left over."""

    def run(test):
        async def alone():
            served, crew = Served("CartPole-v1", deadline_s=REQUEST_S, share_built_in=True), Crew()
            try:
                await asyncio.wait_for(test(served, crew), 3 * REQUEST_S)
            finally:
                await served.shared.close()
                crew.close()

        asyncio.run(alone())

    return run


def test_sessions_in_one_process_do_not_see_each_other(run):
    async def test(served, crew):
        peers = [await Peer.of(served, crew) for _ in range(3)]
        assert len({peer.link.child.pid for peer in peers}) == 1
        for peer in peers:
            assert isinstance(await peer.ask(m.Make(0, peer.what)), m.Done)
        first = [(await peer.ask(m.Reset(0, seed))).value[0] for seed, peer in enumerate(peers)]
        again = [(await peer.ask(m.Reset(0, seed))).value[0] for seed, peer in enumerate(peers)]
        assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
        assert not np.array_equal(first[0], first[1])
        await peers[0].link.end()
        assert isinstance(await peers[1].ask(m.Step([0], [1])), m.Done)

    run(test)


def test_what_is_asked_at_once_is_answered_to_each_in_its_order(run):
    async def test(served, crew):
        peers = [await Peer.of(served, crew) for _ in range(4)]
        for peer in peers:
            await peer.ask(m.Make(0, peer.what))
        for number in range(2, 10):
            for peer in peers:
                peer.send(m.Reset(0, number), number)
        for peer in peers:
            got = [decode_frame(await peer.replies.get()) for _ in range(2, 10)]
            assert [number for number, _ in got] == list(range(2, 10))
            assert all(isinstance(reply, m.Done) for _, reply in got)

    run(test)


def test_a_frame_that_is_no_request_is_answered_and_costs_nobody_anything(run):
    async def test(served, crew):
        first, second = await Peer.of(served, crew), await Peer.of(served, crew)
        await second.ask(m.Make(0, second.what))
        broken = bytearray(b"".join(encode(m.Reset(0), 5)))
        broken[20] ^= 0xFF
        first.link.send(bytes(broken))
        number, reply = decode_frame(await first.replies.get())
        assert number == 5 and isinstance(reply, m.Failed)
        assert isinstance(await second.ask(m.Reset(0)), m.Done)

    run(test)


def test_a_session_that_ends_leaves_the_process_to_the_others(run):
    async def test(served, crew):
        first, second = await Peer.of(served, crew), await Peer.of(served, crew)
        assert isinstance(await first.ask(m.Make(0, first.what)), m.Done)
        assert isinstance(await second.ask(m.Make(0, second.what)), m.Done)
        await first.link.end()
        assert not first.lost.done() and not second.lost.done()
        assert isinstance(await second.ask(m.Reset(0)), m.Done)

    run(test)


@pytest.mark.parametrize(("overdue", "past_s"), [(False, REQUEST_S + 1), (True, 2)])
def test_a_process_that_is_stuck_is_ended_when_one_of_its_sessions_is(run, overdue, past_s):
    async def test(served, crew):
        first, second = await Peer.of(served, crew), await Peer.of(served, crew)
        assert isinstance(await first.ask(m.Make(0, first.what)), m.Done)
        os.kill(_worker_of(first), signal.SIGSTOP)
        first.link.overdue = overdue
        ending = first.link.end()
        await _pass(past_s)
        await ending
        assert await second.lost and not first.lost.done()

    run(test)


def test_a_session_that_ends_waits_for_what_another_asked_before(run):
    async def test(served, crew):
        first, second = await Peer.of(served, crew), await Peer.of(served, crew)
        for peer in (first, second):
            assert isinstance(await peer.ask(m.Make(0, peer.what)), m.Done)
        os.kill(_worker_of(first), signal.SIGSTOP)  # as long as it takes to do what the second asks for
        second.send(m.Reset(0), 2)
        ending = first.link.end()
        await _pass(REQUEST_S - 1)
        os.kill(_worker_of(first), signal.SIGCONT)
        assert decode_frame(await second.replies.get())[0] == 2
        await ending
        assert isinstance(await second.ask(m.Step([0], [1]), 3), m.Done)
        assert not second.lost.done()

    run(test)


def test_after_an_end_the_next_session_gets_a_new_process(run):
    async def test(served, crew):
        first = await Peer.of(served, crew)
        assert isinstance(await first.ask(m.Make(0, first.what)), m.Done)
        os.kill(_worker_of(first), signal.SIGKILL)
        assert await first.lost
        second = await Peer.of(served, crew)
        assert second.link.child.pid != first.link.child.pid
        assert isinstance(await second.ask(m.Make(0, second.what)), m.Done)

    run(test)


def test_only_paddocks_own_environments_share_and_only_when_asked(tmp_path):
    (tmp_path / "paddock.toml").write_text(
        '[package]\nname = "own"\nversion = "1.0"\n[[env]]\nid = "Own-v0"\nentry = "own:Own"\n'
    )
    (tmp_path / "own.py").write_text("")
    assert Served("CartPole-v1").shared is None
    assert Served(f"{tmp_path}:Own-v0", share_built_in=True).shared is None


async def _pass(seconds):
    """So many seconds pass for the loop, in no time."""
    await asyncio.sleep(0)  # what was begun sets its timers
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds
    for _ in range(5):  # they are due, and who waits for them goes on
        await asyncio.sleep(0)


def _worker_of(peer):
    """The process at the far end; the one that was started may only watch it."""
    pid, children = peer.link.child.pid, True
    while children:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
        pid = int(children[0]) if children else pid
    return pid
