"""Networks that break, stall or lie: each step is applied once, and its reply is nobody else's."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from paddock.errors import DeadlineExceeded, PaddockError, SessionGone, Superseded
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.messages import Failed, Hello, Resume, Step
from tests.hosting.cutting_proxy import CuttingProxy
from tests.server.raw_client import Raw
from tests.server.serving import ROOT, Client, rss_kb, serving, together, wait_until, workers_below
from tests.server.worlds.witness import DO, LARGE_BYTES
from tests.serving import shared

pytestmark = pytest.mark.process


server = shared(serving)


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.parametrize("where", ["up", "down"])
def test_cut_connection_costs_no_step_and_doubles_none(server, seed, where, count):
    """Cut by a reset after so many bytes: before, within or after a request, or within its reply. So many each way."""
    chance = random.Random(f"{seed} {where}")
    print(f"seed {seed} {where}")
    begun = 700  # bytes of upgrade, hello and welcome; most cuts come later, some within them
    sizes = [
        chance.randrange(60, begun) if chance.random() < 0.15 else begun + chance.randrange(600) for _ in range(count)
    ]
    cuts = [(size, None) if where == "up" else (None, size) for size in sizes]
    with CuttingProxy(server.port, cuts) as proxy, Client(server.address(port=proxy.port), 5) as client:
        client.reset()
        for number in range(20 * count):
            client.step(chance.choice([number, number, DO["pause"]]) if proxy.cut < count else number)
            if proxy.cut >= count and number > 100:
                break
        assert proxy.cut >= count, proxy.cut
    assert client.count == len(client.history)
    print(f"{proxy.cut} cuts, {client.count} steps: none lost, doubled or reordered")


def test_connection_dropped_at_any_moment_is_resumed_within_a_second(server, seed):
    """All connections are reset while a step runs, 20 times."""
    chance, slowest = random.Random(seed), 0.0
    with CuttingProxy(server.port, []) as proxy, Client(server.address(port=proxy.port), 6) as client:
        client.reset()
        for number in range(20):
            timer = threading.Timer(chance.uniform(0, 0.06), proxy.drop_all)
            timer.start()
            client.step(DO["pause"])
            timer.join()
            began = time.monotonic()
            client.step(number)
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < 2.0, slowest


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.full)])
def test_stopped_server_or_worker_goes_on_where_it_was(server, seed, count):
    """SIGSTOP at any moment of a step, then SIGCONT: server and worker take turns."""
    chance = random.Random(seed)
    with Client(server.address(), 11) as client:
        client.reset()
        worker = server.worker(client)
        for number in range(count):
            stopping = threading.Timer(chance.uniform(0, 0.003), stop, ((server.process.pid, worker)[number % 2],))
            stopping.start()
            for action in range(4):
                client.step(number + action)
            stopping.join()
        assert client.count == len(client.history) == 4 * count
    print(f"{count} stops, {client.count} steps: none lost, doubled or reordered")


def stop(pid, for_s=0.01):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(for_s)
    os.kill(pid, signal.SIGCONT)


def test_peers_that_vanish_are_noticed_parked_and_let_go(tmp_path, seed):
    """20 clients whose packets are all swallowed, without a FIN."""
    with serving(tmp_path / "server", ping_s=5.0, grace_s=5.0, spares=0) as server:
        with SwallowingProxy(server.port) as proxy, Client(server.address(), 1) as other:
            other.reset()
            clients = together(lambda canary: Client(server.address(port=proxy.port), canary).reset(), range(20))
            # On a busy machine one may have been taken for gone already, and comes back.
            wait_until(lambda: sum(one["connected"] for one in server.sessions()) == 21, 20.0)
            proxy.swallow()

            def left():
                other.step(1)  # it notices nothing
                return server.sessions()

            wait_until(lambda: sum(one["connected"] for one in left()) == 1, 40.0)
            wait_until(lambda: len(left()) == 1, 20.0)
            for client in clients:
                client.abandon()
        wait_until(lambda: not workers_below(server.process.pid), 10.0)


class SwallowingProxy(CuttingProxy):
    """Passes everything on until ``swallow``; then it takes everything and passes nothing on."""

    def __init__(self, port):
        self.swallowing = False
        super().__init__(port, [])

    def swallow(self):
        self.swallowing = True

    def _pass_on(self, source, sink, budget):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.swallowing:
                    sink.sendall(data)
        source.close()


def test_late_reply_is_never_taken_for_the_next_one(server, seed):
    """20 steps that are given up before their reply comes."""
    chance = random.Random(seed)
    with Client(server.address(), 7) as client:
        client.reset()
        for number in range(20):
            client.channel.send(Step([0], [DO["pause"]]))
            with pytest.raises(DeadlineExceeded):
                client.channel.recv(chance.uniform(0.0, 0.02))
            client.count += 1
            client.step(number)


def test_peer_that_does_not_read_is_closed_and_costs_no_more_than_its_frames(server, seed):
    """It asks for 8 MiB replies, one after the other, and reads next to nothing."""
    before = rss_kb(server.process.pid)
    with Client(server.address(), 8) as other, Raw(server) as raw:
        other.reset()
        raw.begin(9)
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sent = 0
        with contextlib.suppress(OSError):
            for number in range(3, 60):
                raw.send(number, Step([0], [DO["large"]]))
                sent = number
                other.step(number)
                wait_until(lambda number=number: raw.replies(server) >= number - 4 or raw.is_reset(), 20.0)
                if raw.is_reset():
                    break
        assert raw.is_reset(), f"{sent} replies of {LARGE_BYTES} bytes are kept for a peer that reads nothing"
        assert rss_kb(server.process.pid) - before < 3 * (64 << 10) + 100_000
        other.step(1)


def test_slow_handshakes_keep_nobody_out(server):
    """500 connections that say a byte now and then."""
    sockets = []
    try:
        for number in range(500):
            sock = socket.create_connection(("127.0.0.1", server.port))
            sock.sendall(b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n"[: 1 + number % 38])
            sockets.append(sock)
        began = time.monotonic()
        with Client(server.address(), 3) as client:
            client.reset().step(1)
        assert time.monotonic() - began < 5.0
        assert server.health() == "healthy"
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.full
def test_slow_handshakes_are_ended(server):
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for sock in slow:
        sock.settimeout(15.0)
        sock.sendall(b"GET /w")
    for sock in slow:
        with contextlib.suppress(ConnectionError):
            assert sock.recv(1) == b""
        sock.close()


def test_session_is_taken_over_by_another_process_once(server, seed):
    """20 times: the old connection is superseded, the token is used up."""
    clients = together(lambda canary: Client(server.address(), canary).reset(), range(20))
    for number, client in enumerate(clients):
        client.step(4)
        saved = client.channel.saved
        if number == 0:
            program = (
                "import sys; from tests.server.separate_clients import take_over; take_over(*map(str, sys.argv[1:]))"
            )
            argv = [sys.executable, "-c", program, str(server.address()), server.token, saved.session, saved.token]
            done = subprocess.run([*argv, str(saved.last)], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.stdout.split() == ["2.0", "0.0"], done.stderr
        else:
            with Raw(server) as raw:
                assert raw.resume(saved).session == saved.session
                assert raw.ask(saved.last + 1, Step([0], [9])).value[0][0].tolist() == [2, 9, number]
        with pytest.raises((Superseded, SessionGone)):
            client.step(5)
        with Raw(server) as raw, pytest.raises(AssertionError, match="SESSION_GONE"):
            raw.resume(saved)
        with Raw(server) as raw, pytest.raises(AssertionError, match="SESSION_GONE"):
            raw.resume(Resume(saved.session, "0" * 32, saved.last))


@pytest.mark.parametrize("rounds", [20, pytest.param(1000, marks=pytest.mark.full)])
def test_repeated_requests_are_applied_once_and_answered_alike(server, seed, rounds):
    """Each round: the same bytes ten times, other bytes with the same number, a number too high."""
    chance = random.Random(seed)
    with Raw(server) as raw:
        raw.begin(12)
        for number in range(3, 3 + rounds):
            action = chance.randrange(1000)
            frame = b"".join(encode(Step([0], [action]), number))
            for _ in range(10):
                raw.connection.send(frame)
            replies = [raw.recv_bytes() for _ in range(10)]
            assert len(set(replies)) == 1
            assert decode_frame(replies[0])[1].value[0][0].tolist() == [number - 2, action, 12]
            conflict = raw.ask(number, Step([0], [action + 1]))
            assert isinstance(conflict, Failed) and conflict.code == "IDEMPOTENCY_CONFLICT"
            gap = raw.ask(number + 2 + chance.randrange(5), Step([0], [1]))
            assert isinstance(gap, Failed) and gap.code == "OUT_OF_ORDER"
    print(f"{10 * rounds} frames for {rounds} steps: none lost, doubled or reordered")


def test_client_that_gives_up_while_its_session_is_opened_leaves_nothing(server, seed):
    """20 clients that leave at once."""
    before = len(server.sessions())
    for _ in range(20):
        with Raw(server) as raw:
            raw.send(0, Hello())
    with contextlib.suppress(PaddockError), Client(server.address(), 1) as client:
        client.reset()
    wait_until(lambda: len(server.sessions()) <= before, 30.0)
