"""Servers that are killed, drained or run out of something: what they promised holds, and nothing is left behind."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from paddock.errors import CapacityReached, PaddockError, SessionGone, StorageFull, WorkerLost
from paddock.hosting.messages import Failed, Hello, Step
from paddock.hosting.remote_session import Patience
from paddock.server.journal import recover
from tests.server.raw_client import Raw, refusal
from tests.server.serving import ROOT, Client, Server, alive, below, serving, together, wait_until, workers_below
from tests.server.worlds.witness import DO

pytestmark = pytest.mark.process

SHORT = Patience(first_s=0.01, longest_s=0.5, begin_s=120.0, resume_s=1.0, handshake_s=30.0)


@pytest.mark.parametrize(
    ("rounds", "clients"),
    [
        (2, 10),
        pytest.param(20, 10, marks=pytest.mark.full),
        pytest.param(125, 2, marks=pytest.mark.soak(part="servers")),
    ],
)
def test_killed_server_is_followed_by_one_that_goes_on_where_it_was(tmp_path, seed, rounds, clients):
    """Each round kills the server, or stops it in good order, within a step of every client."""
    chance = random.Random(seed)
    print(f"seed {seed}")
    settings = {"journal": tmp_path / "journal", "spares": 0}
    server = Server(tmp_path / "server", **settings)
    try:
        found = together(lambda canary: Client(server.address(), canary).reset(canary), range(clients))
        names = [client.env.state().episode_id for client in found]
        for number in range(rounds):
            actions = [[chance.choice([1, 2, DO["pause"]]) for _ in range(6)] for _ in found]
            workers = below(server.process.pid)
            # Every second time, of many every fifth, it is told to stop; what was asked is answered then.
            kindly = number % (2 if rounds <= 20 else 5) == 1
            timer = threading.Timer(chance.uniform(0.0, 0.3), server.stop if kindly else server.kill)
            timer.start()
            stepping = threading.Thread(target=together, args=(go_on, list(zip(found, actions, strict=True))))
            stepping.start()
            timer.join()
            wait_until(lambda workers=workers: not alive(workers), 2.0)
            server = Server(tmp_path / "server", port=server.port, **settings)
            stepping.join()
        assert [client.count for client in found] == [6 * rounds] * clients
        assert [client.env.state().episode_id for client in found] == names
        assert_same_as_undisturbed(server, found[:3])
        for client in found:
            client.close()
        wait_until(lambda: not server.sessions())
        assert list((tmp_path / "journal").glob("*.journal")) == []
        steps = sum(client.count for client in found)
        print(f"{rounds} servers ended, {steps} steps: none lost, doubled or reordered")
    finally:
        server.stop()


def go_on(pair):
    client, actions = pair
    for action in actions:
        client.step(action)


def assert_same_as_undisturbed(server, clients):
    """The chance of an environment that nobody killed is the same."""
    for client in clients:
        with Client(server.address(), client.canary) as other:
            other.reset(client.canary)
            for action, _ in client.history:
                other.step(action)
            assert other.history == client.history


def test_environment_that_can_not_be_repeated_is_lost_with_its_server(tmp_path):
    settings = {"journal": tmp_path / "journal", "spares": 0}
    server = Server(tmp_path / "server", "witness:Dice-v0", "witness:Witness-v0", **settings)
    try:
        dice, witness = Client(server.address("Dice-v0")).reset(), Client(server.address("Witness-v0")).reset()
        dice.step(1), witness.step(1)
        server.kill()
        server = Server(tmp_path / "server", *server.targets, port=server.port, **settings)
        witness.step(2)
        with pytest.raises(WorkerLost, match="restart"):
            dice.step(2)
        witness.close()
    finally:
        server.stop()


def test_without_a_journal_sessions_end_with_their_server(tmp_path):
    server = Server(tmp_path / "server", spares=0)
    try:
        client = Client(server.address()).reset()
        server.kill()
        server = Server(tmp_path / "server", port=server.port, spares=0)
        with pytest.raises(SessionGone):
            client.step(1)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("sessions", "times"),
    [
        (1, 5),
        pytest.param(1, 20, marks=pytest.mark.full),
        pytest.param(15, 20, marks=pytest.mark.soak(part="kills")),
    ],
)
def test_killed_worker_is_rebuilt_from_the_journal_and_nobody_notices(tmp_path, seed, sessions, times):
    """Again and again in one session, the last time after 1,000 steps."""
    chance = random.Random(seed)
    with serving(tmp_path / "server", journal=tmp_path / "journal", spares=0) as server:
        for canary in range(sessions):
            with Client(server.address(), canary) as client:
                client.reset(canary)
                for number in range(times):
                    took = rebuild(server, client, chance, steps=1000 if number == times - 1 else 3)
                assert took < 10.0, took
                print(f"{times} workers killed, {client.count} steps: none lost, doubled or reordered")
                print(f"the last was rebuilt in {took:.2f} s")
                assert_same_as_undisturbed(server, [client])
        assert 'cause="signal"' in server.get("/metrics")


def rebuild(server, client, chance, steps):
    """Kill the worker of a client within a step; the seconds that this step and the next one take."""
    for action in range(steps):
        client.step(action)
    killer = threading.Timer(chance.uniform(0, 0.05), os.kill, (server.worker(client), signal.SIGKILL))
    killer.start()
    began = time.monotonic()
    client.step(DO["pause"])
    client.step(1)
    killer.join()
    return time.monotonic() - began


def test_request_that_ends_every_worker_is_repeated_once(tmp_path):
    with serving(tmp_path / "server", journal=tmp_path / "journal", spares=0) as server:
        client = Client(server.address()).reset()
        with pytest.raises(WorkerLost, match="cause=exit"):
            client.step(DO["exit"])
        assert 'paddock_workers_lost_total{cause="exit"} 2' in server.get("/metrics")
        client.abandon()


def test_two_servers_do_not_share_journals(tmp_path):
    journal = tmp_path / "journal"
    with serving(tmp_path / "server", journal=journal, spares=0), pytest.raises(AssertionError, match="another server"):
        Server(tmp_path / "other", journal=journal, spares=0)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip(f"A FULL DISK IS NOT TESTED HERE; runs where root may mount a tmpfs: {done.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("times", [20, pytest.param(100, marks=pytest.mark.soak(part="disk"))])
def test_full_disk_refuses_new_sessions_and_hurts_no_running_one(tmp_path, small_disk, seed, times):
    """So many times the disk is full after a random number of bytes."""
    chance = random.Random(seed)
    filler, refused, went_on = small_disk / "filler", 0, 0
    with serving(tmp_path / "server", journal=small_disk / "journal", spares=1, grace_s=1.0) as server:
        for number in range(times):
            fill(filler, leave=chance.randrange(0, 20_000))
            with Raw(server) as raw:
                reply = raw.ask(0, Hello())
                if isinstance(reply, Failed):
                    assert reply.code == StorageFull.code, reply
                    refused += 1
                else:
                    raw.make(number)
                    for count in range(1, 120):
                        answer = raw.ask(count + 2, Step([0], [count]))
                        assert answer.value[0][0].tolist() == [count, count, number]
                    went_on += 1
            for path in (small_disk / "journal").glob("*.journal"):
                with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                    recover(file)  # what is there is a whole beginning
            filler.unlink()
        with Client(server.address(), 1) as client:
            client.reset().step(1)
    assert refused and went_on, (refused, went_on)
    print(f"{times} full disks: {refused} sessions refused, {went_on} went on; no step lost, doubled or reordered")


def fill(path, leave):
    free = shutil.disk_usage(path.parent).free
    with path.open("wb") as file:
        try:
            for _ in range(-(-max(0, free - leave) // 4096)):
                file.write(b"x" * 4096)
                file.flush()
        except OSError:
            return


@pytest.mark.parametrize("count", [8, pytest.param(20, marks=pytest.mark.full)])
def test_torn_journals_are_taken_up_as_far_as_they_are_whole(tmp_path, seed, count):
    """Each journal is cut at a random place: the client goes on, or is told that its environment is lost."""
    chance, settings = random.Random(seed), {"journal": tmp_path / "journal", "spares": 0}
    server = Server(tmp_path / "server", **settings)
    try:
        clients = together(lambda canary: Client(server.address(), canary).reset(canary), range(count))
        for client in clients:
            for action in range(5):
                client.step(action)
        server.kill()
        for client in clients:
            path = tmp_path / "journal" / f"{client.session}.journal"
            whole = chance.random() < 0.3
            os.truncate(path, path.stat().st_size if whole else chance.randrange(path.stat().st_size))
            client.whole = whole
        server = Server(tmp_path / "server", port=server.port, **settings)
        for client in clients:
            if client.whole:
                client.step(9)
            else:
                with pytest.raises((WorkerLost, SessionGone)):
                    client.step(9)
    finally:
        server.stop()


@pytest.mark.parametrize("count", [20, pytest.param(64, marks=pytest.mark.full)])
def test_sessions_of_a_client_that_was_killed_are_parked_and_reaped(tmp_path, count):
    with serving(tmp_path / "server", grace_s=3.0, spares=0) as server:
        program = "import sys; from tests.server.separate_clients import hold; hold(*sys.argv[1:])"
        argv = [sys.executable, "-c", program, str(server.address()), server.token, str(count)]
        holder = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "held\n"
        descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        assert sum(one["connected"] for one in server.sessions()) == count
        workers = workers_below(server.process.pid)
        holder.kill()
        holder.wait()
        holder.stdout.close()
        wait_until(lambda: not any(one["connected"] for one in server.sessions()), 5.0)
        assert len(server.sessions()) == count, "they were to be parked"
        wait_until(lambda: not server.sessions(), 10.0)
        wait_until(lambda: not alive(workers), 10.0)
        wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) < descriptors - 4 * count, 10.0)


@pytest.mark.parametrize(
    ("active", "hung", "drain_s"), [(12, 4, 1.5), pytest.param(64, 4, 20.0, marks=pytest.mark.full)]
)
def test_drain_answers_what_was_asked_and_waits_for_no_hung_worker(tmp_path, active, hung, drain_s):
    server = Server(tmp_path / "server", drain_s=drain_s, spares=1)
    try:
        clients = together(
            lambda canary: Client(server.address(), canary, patience=SHORT).reset(), range(active + hung)
        )
        asked = [DO["pause"]] * active + [DO["sleep"]] * hung
        endings = []

        def go(pair):
            client, action = pair
            try:
                while True:
                    client.step(action)
            except PaddockError as error:
                endings.append((action, error))

        stepping = [threading.Thread(target=go, args=(pair,)) for pair in zip(clients, asked, strict=True)]
        for thread in stepping:
            thread.start()
        wait_until(lambda: all(client.count >= 1 for client in clients[:active]), 60.0)
        workers, began = below(server.process.pid), time.monotonic()
        assert server.stop(30.0) == 0
        took = time.monotonic() - began
        assert not alive(workers)
        for thread in stepping:
            thread.join()
        assert len(endings) == active + hung  # each was told
        print(f"{active} active and {hung} hung sessions drained in {took:.1f} s")
    finally:
        server.stop()


def test_killed_server_leaves_no_worker(tmp_path):
    server = Server(tmp_path / "server", spares=2)
    clients = together(lambda canary: Client(server.address(), canary, patience=SHORT).reset(), range(6))
    workers = below(server.process.pid)
    assert len(workers) >= 6
    server.kill()
    took = wait_until(lambda: not alive(workers), 2.0)
    print(f"{len(workers)} processes were gone after {took * 1e3:.0f} ms")
    for client in clients:
        client.abandon()


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.full)])
def test_clock_that_jumps_costs_no_step_and_doubles_none(tmp_path, seed, count):
    """The server's clocks jump before or within a step, by up to 25 s; a request has 30."""
    chance = random.Random(seed)
    settings = {"jumps": seed, "journal": tmp_path / "journal", "spares": 0}
    with serving(tmp_path / "server", **settings) as server, Client(server.address(), 5) as client:
        client.reset(5)
        for number in range(count):
            timer = threading.Timer(chance.uniform(0, 0.02), server.process.send_signal, (signal.SIGUSR2,))
            timer.start()
            client.step(chance.choice([number, number, DO["pause"]]))
            client.step(number)
            timer.join()
        assert client.count == len(client.history) == 2 * count
        assert_same_as_undisturbed(server, [client])
    print(f"{count} jumps, {client.count} steps: none lost, doubled or reordered")


def test_server_without_descriptors_refuses_and_recovers(tmp_path):
    """ulimit -n 128: as many sessions as fit, clean refusals beyond, 20 of them, and room again when some have left."""
    with serving(tmp_path / "server", limit=128, spares=1, grace_s=20.0) as server:
        clients = [Client(server.address(), canary).reset() for canary in range(3)]
        fit = 0
        while fit < 60 and refusal(server) is None:  # these are parked, and keep what they have
            fit += 1
        assert 5 <= fit < 60
        said = [CapacityReached.code]
        while said.count(CapacityReached.code) < 20 and len(said) < 60:
            said.append(refusal(server))  # now and then one fits after all
        assert set(said) <= {None, CapacityReached.code} and said.count(CapacityReached.code) == 20, said
        for client in clients:
            client.step(1)
        wait_until(lambda: len(server.sessions()) == 3, 60.0)
        with Client(server.address(), 77) as client:
            client.reset().step(1)
        for client in clients:
            client.step(2)
            client.close()
        print(f"{fit + 3} sessions fit into 128 descriptors")
