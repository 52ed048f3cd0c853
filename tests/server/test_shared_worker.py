"""Sessions that share one worker: each has its own environments, and one that is stuck costs all of them theirs."""

import os
import signal

import numpy as np
import pytest

from paddock.hosting import messages as m
from paddock.hosting.codec import encode
from paddock.hosting.frames import FrameReader, write_frame
from paddock.server.served import Served


class Peer:
    """A session's end, without a server."""

    def __init__(self, served):
        self.near, self.share = served.start()
        self._reader = FrameReader(self.near)
        self.what = served.what({})

    def ask(self, request):
        write_frame(self.near, encode(request, 1))
        while (frame := self._reader.next()) is None:
            pass
        return frame[1]

    def close(self):
        self.near.close()
        self.share.kill()


@pytest.fixture
def served():
    served = Served("CartPole-v1", share_built_in=True)
    yield served
    served.shared.close()


def test_sessions_in_one_process_do_not_see_each_other(served):
    peers = [Peer(served) for _ in range(3)]
    assert len({peer.share.pid for peer in peers}) == 1
    for peer in peers:
        assert isinstance(peer.ask(m.Make(0, peer.what)), m.Done)
    first = [peer.ask(m.Reset(0, seed)).value[0] for seed, peer in enumerate(peers)]
    again = [peer.ask(m.Reset(0, seed)).value[0] for seed, peer in enumerate(peers)]
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert not np.array_equal(first[0], first[1])
    peers[0].close()
    assert isinstance(peers[1].ask(m.Step([0], [1])), m.Done)
    for peer in peers[1:]:
        peer.close()


def test_a_session_that_ends_leaves_the_process_to_the_others(served):
    first, second = Peer(served), Peer(served)
    assert isinstance(second.ask(m.Make(0, second.what)), m.Done)
    first.close()
    assert first.share.wait(0)
    assert isinstance(second.ask(m.Reset(0)), m.Done)
    second.close()


def test_a_process_that_is_stuck_is_ended_when_one_of_its_sessions_is(served):
    first, second = Peer(served), Peer(served)
    os.kill(_worker_of(first), signal.SIGSTOP)
    first.close()
    assert first.share.cause is not None
    assert second.share.wait(0)
    assert second.near.recv(1) == b""
    second.near.close()


def test_after_an_end_the_next_session_gets_a_new_process(served):
    first = Peer(served)
    before = first.share.pid
    served.shared._now.end()
    second = Peer(served)
    assert second.share.pid != before
    assert isinstance(second.ask(m.Make(0, second.what)), m.Done)
    first.close()
    second.close()


def test_only_paddocks_own_environments_share_and_only_when_asked(tmp_path):
    (tmp_path / "paddock.toml").write_text(
        '[package]\nname = "own"\nversion = "1.0"\n[[env]]\nid = "Own-v0"\nentry = "own:Own"\n'
    )
    (tmp_path / "own.py").write_text("")
    assert Served("CartPole-v1").shared is None
    assert Served(f"{tmp_path}:Own-v0", share_built_in=True).shared is None


def _worker_of(peer):
    """The process at the far end; the one that was started may only watch it."""
    pid, children = peer.share.pid, True
    while children:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
        pid = int(children[0]) if children else pid
    return pid
