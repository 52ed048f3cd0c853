"""What an operator relies on: the log, systemd's notice, health, metrics."""

import asyncio
import errno
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time

import pytest

import paddock
from paddock.errors import DeadlineExceeded, SessionGone, WorkerLost
from paddock.hosting.async_remote_channel import AsyncRemoteChannel
from paddock.hosting.client import AsyncHostedEnv
from paddock.hosting.messages import Step
from paddock.server import service, telemetry
from paddock.server.telemetry import Metrics
from tests.server.clients import Native
from tests.server.in_process import vault_server
from tests.server.raw_peers import CLOSE
from tests.server.serving import Client, alive, serving, wait_until
from tests.server.worlds.witness import DO, SECRET


@pytest.mark.process
def test_log_is_json_lines_with_sessions_and_traces(tmp_path):
    with serving(tmp_path / "server") as server:
        with Client(server.address(), 1) as client:
            client.reset()
        other = Client(server.address(), 2).reset()
        os.kill(server.worker(other), 9)
        wait_until(lambda: "a worker was lost" in server.log)
        other.abandon()
        server.health()
    records = [json.loads(line) for line in server.log.splitlines()]
    opened = [record for record in records if record["message"] == "session opened"]
    assert [record["session"] for record in opened] == [client.session[:8], other.session[:8]]
    assert all(record["environment"] == "Witness-v0" for record in opened)
    (lost,) = (record for record in records if record["message"].startswith("a worker was lost"))
    assert (lost["level"], lost["session"]) == ("warning", other.session[:8])
    asked = [record for record in records if "/health" in record["message"]]
    assert asked and len(asked[0]["trace"]) == 32
    assert server.token not in server.log and client.session not in server.log
    assert [record for record in records if record["logger"].startswith("paddock.server.websocket")] == []


def test_record_can_neither_break_a_line_nor_move_a_cursor():
    record = logging.LogRecord("paddock.server", 30, "", 1, "a\n\x1b[2J\u202eb", (), None)
    assert "\n" not in telemetry.JsonLines().format(record) and "\x1b" not in telemetry.JsonLines().format(record)
    assert "\n" not in telemetry.Lines().format(record) and "\x1b" not in telemetry.Lines().format(record)
    assert telemetry.Lines().format(record).isascii()


def test_trace_of_a_caller_is_kept_and_nonsense_is_not():
    given = "4bf92f3577b34da6a3ce929d0e0e4736"
    telemetry.begin_trace(f"00-{given}-00f067aa0ba902b7-01")
    assert telemetry.trace.get() == given
    telemetry.begin_trace("00-<script>-00f067aa0ba902b7-01")
    assert telemetry.trace.get() not in (given, "")
    telemetry.trace.set("")


@pytest.mark.process
def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(path))
        notices.settimeout(10.0)
        with serving(tmp_path / "server", environ={"NOTIFY_SOCKET": str(path)}, spares=0):
            assert notices.recv(100) == b"READY=1"
        assert notices.recv(100) == b"STOPPING=1"


@pytest.mark.process
def test_health_tells_that_a_worker_is_wedged_and_that_it_is_gone(tmp_path):
    with serving(tmp_path / "server", deadline_s=2.0, spares=0) as server:
        assert server.health() == "healthy"
        client = Client(server.address(), 1).reset()
        client.channel.send(_step(DO["sleep"]))
        took = wait_until(lambda: server.health() == "degraded", 5.0)
        assert took > 0.5
        (row,) = server.sessions()
        assert row["waits_s"] > 0.5
        wait_until(lambda: server.health() == "healthy", 5.0)
        assert 'paddock_workers_lost_total{cause="overdue"} 1' in server.get("/metrics")
        client.abandon()


@pytest.mark.process
def test_replies_are_counted_as_they_happen_and_timed_by_environment(tmp_path):
    with serving(tmp_path / "server", spares=0) as server, Client(server.address(), 1) as client:
        client.reset()
        client.step(DO["second"])
        for action in range(5):
            client.step(action)
        text = server.get("/metrics")
        assert "\npaddock_replies_total 8\n" in text and "\npaddock_workers 1\n" in text
        label = 'environment="Witness-v0"'
        assert f"paddock_reply_seconds_count{{{label}}} 8\n" in text
        counts = re.findall(rf"paddock_reply_seconds_bucket{{{label},le=\"(\S+)\"}} (\d+)", text)
        assert counts[-1] == ("+Inf", "8") and [int(count) for _, count in counts] == sorted(int(c) for _, c in counts)
        assert f"paddock_opening_seconds_count{{{label}}} 1\n" in text
        fast = {bound: int(count) for bound, count in counts}
        assert fast["0.3"] < 8 and float(re.search(r"reply_seconds_sum\S+ (\S+)", text)[1]) >= 1.0  # one took a second


def test_counters_do_not_round():
    metrics = Metrics()
    metrics.latency(telemetry.REPLY, "x")._counts[0] = 12_345_678
    assert "\npaddock_replies_total 12345678\n" in metrics.text()


def test_a_name_of_an_environment_can_neither_break_the_metrics_nor_add_a_line():
    """Prometheus knows three escapes in a label and refuses the whole text for any other, as for that of JSON."""
    metrics, name = Metrics(), 'a"b\\c\nd 1\u00e9\x7f{}'
    metrics.latency(telemetry.REPLY, name).add(0.5)
    text = metrics.text(**{f"paddock_workers_memory_bytes{{{telemetry.label('environment', name)}}}": 3})
    label = 'environment="a\\"b\\\\c\\nd 1\u00e9\x7f{}"'
    assert f"\npaddock_reply_seconds_count{{{label}}} 1\n" in text and f"_bytes{{{label}}} 3\n" in text
    written = [line for line in text.split("\n") if line and line[0] != "#"]
    assert all(line.startswith("paddock_") for line in written)


@pytest.mark.process
def test_only_an_operator_is_told_version_and_counts_with_the_health(tmp_path):
    with vault_server(tmp_path) as server, server.peer() as peer:
        peer.ask("POST", "/reset", body={})
        counts = {"version": paddock.__version__, "sessions": 1, "workers": 1}
        for path, fact in (("/health/live", {"live": True}), ("/health/ready", {"ready": True})):
            assert peer.ask("GET", path).json == {**fact, **counts}
            for role in (None, "agent", "observer", "expired"):
                with server.peer(role) as other:
                    answer = other.ask("GET", path)
                    assert (answer.status, answer.json) == (200, fact), (path, role)
        assert peer.ask("GET", "/health").json == {"status": "healthy"}


@pytest.mark.process
def test_a_server_that_starts_no_sessions_lives_and_is_not_ready(tmp_path, monkeypatch):
    with vault_server(tmp_path) as server, server.peer() as peer:
        monkeypatch.setattr(server.served[0], "start", _no_memory)
        assert peer.ask("POST", "/reset", body={}).status == 503
        assert (peer.ask("GET", "/health/ready").status, peer.ask("GET", "/health/live").status) == (503, 200)
        assert peer.ask("GET", "/health/ready").json["ready"] is False
        monkeypatch.setattr(service, "_AGAIN_S", 0.0)  # after a while it is worth another try
        assert peer.ask("GET", "/health/ready").status == 200
        server.service.draining = True
        assert (peer.ask("GET", "/health/ready").status, peer.ask("GET", "/health/live").status) == (503, 200)


def _no_memory(_tenant):
    raise OSError(errno.ENOMEM, "no memory")


@pytest.mark.process
def test_an_operator_ends_a_session_and_its_worker(tmp_path, caplog):
    with (
        vault_server(tmp_path) as server,
        server.peer("other") as peer,
        server.peer("observer") as owner,
    ):
        native = Native(owner)
        (row,) = peer.ask("GET", "/sessions").json["sessions"]
        for role in ("observer", "agent"):
            with server.peer(role) as lower:
                assert lower.ask("DELETE", f"/sessions/{row['session']}").status == 403
        for unknown in (row["session"][:7], "0" * 8, row["session"] + "x", "%2A"):
            assert peer.ask("DELETE", f"/sessions/{unknown}").status == 404
        assert alive([row["pid"]])
        named = {name: row[name] for name in ("session", "environment", "principal")}
        assert peer.ask("DELETE", f"/sessions/{row['session']}").json == named
        opcode, payload = owner.message()
        assert opcode == CLOSE and b"SESSION_GONE: An operator ended it." in payload
        wait_until(lambda: not alive([row["pid"]]))
        assert peer.ask("GET", "/sessions").json == {"sessions": []}
    (said,) = (one for one in caplog.records if one.name == "paddock.audit" and "killed by operator-" in one.message)
    assert said.session == native.welcome.session[:8]


def _step(action):
    from paddock.hosting.messages import Step

    return Step([0], [action])


@pytest.mark.process
@pytest.mark.parametrize("form", ["json", "text"])
def test_what_a_peer_is_not_told_of_an_error_is_one_record_of_the_log_under_its_incident(tmp_path, form):
    environ = {"PADDOCK_LOG": form}
    with serving(tmp_path / "server", environ=environ) as server, Client(server.address(), 1) as client:
        client.reset()
        for _ in range(3):
            client.channel.send(Step([0], [DO["raise"]]))
            (failed,) = client.channel.recv().value
            assert SECRET not in failed.message
        number = re.search(r"incident (\w+)", failed.message)[1]
        wait_until(lambda: SECRET in server.log)
    about = [line for line in server.log.splitlines() if SECRET in line]
    assert len(about) == 1 and server.log.count("Traceback") == 1, server.log
    assert f"incident {number}: Traceback" in about[0] and "witness.py" in about[0]
    if form == "json":
        record = json.loads(about[0])
        assert (record["session"], record["level"]) == (client.session[:8], "warning")
        assert record["message"].splitlines()[-1].endswith(SECRET)


@pytest.mark.process
def test_what_a_worker_printed_before_it_died_is_in_the_record_of_its_end(tmp_path):
    with serving(tmp_path / "server") as server:
        client = Client(server.address(), 1).reset()
        with pytest.raises(WorkerLost):
            client.step(DO["cry"])
        client.abandon()
        wait_until(lambda: "a worker was lost" in server.log)
    records = [json.loads(line) for line in server.log.splitlines()]
    (about,) = (one["message"] for one in records if "line" in one["message"] or "words" in one["message"])
    assert about == r"a worker was lost: exit; it printed 'first line\nsecond line\nlast words'"


NEVER_READY = """
from paddock.server.listener import run
from paddock.server.served_env import ServedEnv
from paddock.server.settings import Settings

def fail(addresses):
    raise SystemExit("never ready")

run([ServedEnv("CartPole-v1")], Settings(port=0, spares=0), None, when_ready=fail)
"""


@pytest.mark.process
def test_server_that_fails_before_it_is_ready_closes_its_port():
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", NEVER_READY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.strip().endswith("never ready") and "ResourceWarning" not in done.stderr, done.stderr


@pytest.mark.process
def test_a_session_whose_environment_was_lost_or_killed_makes_room_at_once(tmp_path):
    """A client that finds its environment to lie kills it, too."""

    async def lose(server):
        channel = await AsyncRemoteChannel(server.address()).connect()
        env = await AsyncHostedEnv.make(channel, {"kwargs": {}})
        await env.reset()
        with pytest.raises(WorkerLost):
            await env.step(DO["exit"])
        await env.close()

    with serving(tmp_path / "server", max_sessions=1, spares=0) as server:
        with Client(server.address()).reset() as client, pytest.raises(WorkerLost):
            client.step(DO["exit"])
        wait_until(lambda: not server.sessions())
        Client(server.address()).reset().channel.kill("was ended: it lied", cause="violation")
        wait_until(lambda: not server.sessions())
        asyncio.run(lose(server))
        wait_until(lambda: not server.sessions())


@pytest.mark.process
def test_a_client_of_a_server_that_stops_without_a_journal_hears_so_at_once(tmp_path):
    with serving(tmp_path / "server", spares=0) as server:
        client = Client(server.address()).reset()
        server.stop()
        began_s = time.monotonic()
        with pytest.raises(SessionGone, match="keeps no journal"):
            client.step(1)
        assert time.monotonic() - began_s < 10


@pytest.mark.process
def test_a_deadline_while_the_server_is_away_says_that_it_is(tmp_path):
    with serving(tmp_path / "server", spares=0) as server:
        client = Client(server.address(), deadline_s=1.0).reset()
        server.kill()
        with pytest.raises(DeadlineExceeded, match="can't be reached: Connection refused"):
            client.step(1)
        client.abandon()
