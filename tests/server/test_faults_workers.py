"""Workers that die, hang, eat memory or talk nonsense: their client is told which, and nobody else notices."""

import contextlib
import os
import random
import signal
import time

import pytest

from paddock.errors import DeadlineExceeded, PaddockError, WorkerLost
from tests.server.serving import Client, alive, rss_kb, serving, together, wait_until, workers_below
from tests.server.worlds.witness import DO
from tests.serving import shared

pytestmark = pytest.mark.process

DEADLINE_S = 1.0


server = shared(lambda folder: serving(folder, policy={"memory_mb": 192}))
hasty = shared(lambda folder: serving(folder, deadline_s=DEADLINE_S))


@pytest.fixture
def neighbour(server):
    """Another client's session, which must not notice anything."""
    with Client(server.address(), 99) as client:
        client.reset()
        yield client
        client.step(1)


def doomed(server, canary=1):
    return Client(server.address(), canary).reset()


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.soak(part="kills"))])
def test_killed_worker_is_noticed_at_once_and_its_client_is_told(server, neighbour, seed, count):
    chance, took = random.Random(seed), []
    for number in range(count):
        client = doomed(server, number)
        for action in range(chance.randrange(4)):
            client.step(action)
        worker = server.worker(client)
        client.channel.send(step_request(DO["sleep"] if number % 2 else DO["pause"]))
        os.kill(worker, signal.SIGKILL)
        began = time.monotonic()
        failed = client.channel.recv(5.0)
        if number % 2 or failed.__class__.__name__ == "Failed":
            took.append(time.monotonic() - began)
            assert failed.code == WorkerLost.code and "cause=signal" in failed.message, failed
            assert f"last_applied={2 + client.count}" in failed.message
            with pytest.raises(WorkerLost):
                client.step(3)  # never a fresh environment
        client.abandon()
        neighbour.step(number)
    took.sort()
    print(f"seed {seed}: {count} kills, {len(took)} within a step; slowest notice {took[-1] * 1e3:.0f} ms")
    assert took[-max(1, count // 20)] < 0.5, took[-20:]  # of many, one in twenty may meet a busy moment


def step_request(action):
    from paddock.hosting.messages import Step

    return Step([0], [action])


@pytest.mark.parametrize("how", ["loop", "gil", "sleep", "deaf"])
def test_hung_worker_is_ended_at_its_deadline(hasty, how):
    """5 at a time for each way to hang: 20 injections."""
    server, neighbour = hasty, doomed(hasty, 99)
    clients = together(lambda canary: doomed(server, canary), range(5))
    workers = [server.worker(client) for client in clients]
    began = time.monotonic()

    def hang(client):
        with pytest.raises(DeadlineExceeded):
            client.step(DO[how])
        return time.monotonic() - began

    seen = []

    def watch(_):
        while time.monotonic() < began + DEADLINE_S:
            asked = time.monotonic()
            seen.append((server.health(), time.monotonic() - asked))
            neighbour.step(1)

    took = together(lambda work: work[0](work[1]), [(hang, client) for client in clients] + [(watch, None)])[:5]
    assert max(took) < DEADLINE_S + 1.0, took
    wait_until(lambda: not alive(workers), 2.0)
    assert "degraded" in [status for status, _ in seen], "health said that all was well"
    assert min(lag for _, lag in seen) < 0.05
    wait_until(lambda: server.health() == "healthy")
    for client in clients:
        with pytest.raises(PaddockError):
            client.step(1)
        client.abandon()
    neighbour.close()


CRASHES = {
    "exit": "exit",
    "segfault": "signal",
    "abort": "signal",
    "overflow": "signal",
    "illegal": "signal",
    "memory": "memory",
    "garbage": "protocol",
    "oversized": "protocol",
    "early": "protocol",
    "partial": "exit",
}


@pytest.mark.parametrize("how", CRASHES)
def test_worker_that_crashes_is_reported_with_its_cause(server, neighbour, how):
    """20 injections each are in the full run."""
    crash(server, how, 2)


@pytest.mark.full
@pytest.mark.parametrize("how", CRASHES)
def test_worker_that_crashes_is_reported_with_its_cause_20_times(server, neighbour, how):
    crash(server, how, 20)


def crash(server, how, count):
    before = rss_kb(server.process.pid)
    for batch in range(0, count, 4):
        clients = together(lambda canary: doomed(server, canary), range(batch, min(batch + 4, count)))
        for client in clients:
            client.step(5)

        def fail(client):
            with pytest.raises(WorkerLost) as lost:
                client.step(DO[how])
            assert f"cause={CRASHES[how]}" in str(lost.value), lost.value
            assert "last_applied=3" in str(lost.value)

        together(fail, clients)
        for client in clients:
            client.abandon()
    assert rss_kb(server.process.pid) - before < 20_000


def test_worker_that_uses_too_much_cpu_time_in_a_call_is_ended(tmp_path):
    with serving(tmp_path / "server", policy={"call_cpu_s": 0.5}) as server, Client(server.address(), 1) as other:
        other.reset()
        client = doomed(server)
        with pytest.raises(WorkerLost, match="cause=cpu"):
            client.step(DO["loop"])
        client.abandon()
        other.step(1)


def test_worker_that_floods_its_output_slows_only_itself(server, neighbour):
    before = rss_kb(server.process.pid)
    client = doomed(server)
    with contextlib.suppress(DeadlineExceeded):
        client.step(DO["flood"])
    neighbour.step(1)
    assert rss_kb(server.process.pid) - before < 10_000
    client.abandon()


def test_stopped_worker_is_overdue_and_its_late_output_counts_for_nothing(hasty, seed):
    """20 injections."""
    server = hasty
    chance = random.Random(seed)
    clients = together(lambda canary: doomed(server, canary), range(20))
    workers = [server.worker(client) for client in clients]
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)

    def overdue(pair):
        client, worker = pair
        if chance.random() < 0.5:  # it goes on just when it is given up
            wait_until(lambda: client.channel._connection is not None)
        with pytest.raises(DeadlineExceeded):
            client.step(1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
        with pytest.raises(PaddockError):
            client.step(2)

    together(overdue, list(zip(clients, workers, strict=True)))
    wait_until(lambda: not alive(workers), 2.0)
    for client in clients:
        client.abandon()


def test_nothing_is_left_of_sessions_that_were_abandoned(tmp_path, seed):
    """What the clients above left without a word ends with its grace; here it is short."""
    with serving(tmp_path / "server", grace_s=0.5, spares=0) as server:
        clients = together(lambda canary: doomed(server, canary), range(8))
        workers = workers_below(server.process.pid)
        for client in clients:
            client.abandon()
        wait_until(lambda: not server.sessions(), 5.0)
        wait_until(lambda: not alive(workers), 5.0)
