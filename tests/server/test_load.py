"""Many sessions at once, and many one after the other: no errors, no replies of others, nothing left behind."""

import os
import threading
import time
from pathlib import Path

import pytest

from paddock.hosting.messages import Step
from paddock.sandbox import Machine
from tests.server.raw_client import refusal
from tests.server.serving import Client, Server, alive, below, rss_kb, serving, together, wait_until, workers_below
from tests.server.worlds.witness import DO

_POOLED = 12  # threads that start and end workers; they come when they are needed, and stay
STARTING = 8  # clients that open sessions at a time


def opened(server, count, first=0):
    """Clients with canaries of their own."""
    numbers, clients, lock = iter(range(first, first + count)), [], threading.Lock()

    def open_some(_):
        while True:
            with lock:
                canary = next(numbers, None)
            if canary is None:
                return
            clients.append(Client(server.address(), canary).reset())

    together(open_some, range(STARTING))
    return clients


@pytest.mark.process
@pytest.mark.parametrize(("sessions", "replies"), [(24, 5_000), pytest.param(256, 100_000, marks=pytest.mark.full)])
def test_sessions_side_by_side_get_their_own_replies(tmp_path, sessions, replies):
    with serving(tmp_path / "server", max_sessions=sessions, sessions_each=sessions, spares=4) as server:
        began = time.monotonic()
        clients = opened(server, sessions)
        started_s = time.monotonic() - began
        began, rounds = time.monotonic(), -(-replies // sessions)

        def play(own):
            for number in range(rounds):
                for client in own:
                    client.channel.send(Step([0], [number]))
                for client in own:
                    observation, _, _, _, info = client.channel.recv().value[0]
                    client.count += 1
                    client.check(observation, info, client.count, number)

        together(play, [clients[at::4] for at in range(4)])
        took = time.monotonic() - began
        assert sum(client.count for client in clients) >= replies
        assert all(client.count == rounds for client in clients)
        print(f"{sessions} sessions opened in {started_s:.1f} s; {rounds * sessions / took:,.0f} replies/s")
        together(lambda own: [client.close() for client in own], [clients[at::4] for at in range(4)])


@pytest.mark.full
def test_512_sessions_of_an_environment_that_takes_a_second(tmp_path):
    with serving(tmp_path / "server", max_sessions=512, sessions_each=512, spares=4) as server:
        clients = opened(server, 512)
        for _ in range(3):
            began = time.monotonic()
            for client in clients:
                client.channel.send(Step([0], [DO["second"]]))
            late = 0.0
            for client in clients:
                observation, _, _, _, info = client.channel.recv().value[0]
                client.count += 1
                client.check(observation, info, client.count, DO["second"])
                late = max(late, time.monotonic() - began)
            print(f"512 of 512 answered, the last after {late:.2f} s")
        together(lambda own: [client.close() for client in own], [clients[at::8] for at in range(8)])


@pytest.mark.process
@pytest.mark.parametrize(
    "count",
    [
        100,
        pytest.param(2_000, marks=pytest.mark.full),
        pytest.param(10_000, marks=pytest.mark.soak(part="sessions")),
    ],
)
def test_churn_leaves_nothing_behind(tmp_path, count):
    """Create, reset, step, close; half by an abrupt close. Processes, cgroups, descriptors, threads, files."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    settings = {"grace_s": 0.2, "spares": 0, "environ": {"TMPDIR": str(scratch)}}
    server = Server(tmp_path / "server", **settings)
    try:
        churn(server, 12)  # most threads and caches are there after this
        before = resources(server)
        churn(server, count)
        wait_until(lambda: descriptors(server) <= before[2], 10.0)
        after = resources(server)
        print(f"{count} sessions; processes, threads, descriptors, cgroups, kB: {before} before, {after} after")
        assert after[0] == after[3] == 0
        assert after[1] <= before[1] + _POOLED and after[2] <= before[2]
        assert rss_kb(server.process.pid) - before[4] < 20_000
        assert list(scratch.iterdir()) == []
        workers = below(server.process.pid)
        assert server.stop() == 0
        assert not alive(workers) and not groups(server)
    finally:
        server.stop()


@pytest.mark.process
@pytest.mark.parametrize(
    ("alive_at_once", "minutes"), [(8, 0.1), pytest.param(64, 60, marks=pytest.mark.soak(part="sessions"))]
)
def test_sessions_that_come_and_go_leave_the_server_as_it_was(tmp_path, alive_at_once, minutes):
    """The oldest session is closed and another one opened, for so long; what is used then is what was used before."""

    def go_round(server, clients, seconds):
        ends_s, count = time.monotonic() + seconds, 0
        while time.monotonic() < ends_s:
            client = clients.pop(0)
            client.step(1)
            client.close()
            clients.append(Client(server.address(), count).reset())
            count += 1
        wait_until(lambda: len(server.sessions()) == alive_at_once, 20.0)
        return count

    def used(server):
        pid = server.process.pid
        mounts = len(Path("/proc/self/mounts").read_text().splitlines())
        return len(workers_below(pid)), descriptors(server), len(groups(server)), mounts, len(list(scratch.iterdir()))

    scratch = tmp_path / "tmp"
    scratch.mkdir()
    settings = {"max_sessions": 128, "sessions_each": 128, "spares": 0, "environ": {"TMPDIR": str(scratch)}}
    with serving(tmp_path / "server", **settings) as server:
        clients = opened(server, alive_at_once)
        go_round(server, clients, minutes * 6)
        before, memory_kb = used(server), rss_kb(server.process.pid)
        count = go_round(server, clients, minutes * 60)
        after = used(server)
        print(f"{count} sessions; processes, descriptors, cgroups, mounts, files: {before} before, {after} after")
        assert after == before
        assert rss_kb(server.process.pid) - memory_kb < 20_000
        for client in clients:
            client.close()


def churn(server, count):
    numbers, lock = iter(range(count)), threading.Lock()

    def work(_):
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            client = Client(server.address(), number).reset()
            client.step(number)
            client.abandon() if number % 2 else client.close()

    together(work, range(4))
    wait_until(lambda: not server.sessions(), 20.0)


def resources(server):
    """Processes, threads, descriptors, cgroups, memory, when nothing goes on any more."""
    pid = server.process.pid
    wait_until(lambda: not server.sessions() and not workers_below(pid) and not groups(server), 20.0)
    threads = len(os.listdir(f"/proc/{pid}/task"))
    return len(workers_below(pid)), threads, descriptors(server), len(groups(server)), rss_kb(pid)


def descriptors(server):
    """The fewest of a second's looks: connections, of our own questions too, are still being closed."""
    looks = []
    for _ in range(20):
        looks.append(len(os.listdir(f"/proc/{server.process.pid}/fd")))
        time.sleep(0.05)
    return min(looks)


def groups(server):
    folders = {one.folder for one in Machine.here().cgroups}
    return [path for folder in folders for path in Path(folder).glob(f"paddock-{server.process.pid}-*")]


@pytest.mark.process
def test_more_clients_than_there_is_room_for_are_refused_at_once(tmp_path):
    with serving(tmp_path / "server", max_sessions=4, spares=0) as server:
        clients = opened(server, 4)
        began = time.monotonic()
        assert [refusal(server) for _ in range(4)] == ["CAPACITY_REACHED"] * 4
        assert time.monotonic() - began < 2.0
        for client in clients:
            client.step(1)
        clients[0].close()
        with Client(server.address(), 9) as client:
            client.reset().step(1)


@pytest.mark.process
def test_silent_sessions_are_ended(tmp_path):
    """Idle reaping: a connection alone keeps nothing alive, a request that takes long does."""
    with serving(tmp_path / "server", idle_s=2.0, spares=0) as server:
        silent, busy = Client(server.address(), 1).reset(), Client(server.address(), 2).reset()
        ends = time.monotonic() + 3.0
        while time.monotonic() < ends:
            busy.step(DO["pause"])
        assert [one["session"] for one in server.sessions()] == [busy.session[:8]]
        silent.abandon()
        busy.close()
