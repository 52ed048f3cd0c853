"""What an operator relies on: the log, systemd's notice, health, metrics."""

import json
import logging
import os
import re
import socket

import pytest

from paddock.errors import WorkerLost
from paddock.hosting.messages import Step
from paddock.server import logs
from tests.server.serving import Client, serving, wait_until
from tests.server.worlds.witness import DO, SECRET


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


def test_record_can_neither_break_a_line_nor_move_a_cursor():
    record = logging.LogRecord("paddock.server", 30, "", 1, "a\n\x1b[2J\u202eb", (), None)
    assert "\n" not in logs.JsonLines().format(record) and "\x1b" not in logs.JsonLines().format(record)
    assert "\n" not in logs.Lines().format(record) and "\x1b" not in logs.Lines().format(record)
    assert logs.Lines().format(record).isascii()


def test_trace_of_a_caller_is_kept_and_nonsense_is_not():
    given = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert logs.begin_trace(f"00-{given}-00f067aa0ba902b7-01") == given
    assert logs.begin_trace("00-<script>-00f067aa0ba902b7-01") != given
    logs.trace.set("")


def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(path))
        notices.settimeout(10.0)
        with serving(tmp_path / "server", environ={"NOTIFY_SOCKET": str(path)}, spares=0):
            assert notices.recv(100) == b"READY=1"
        assert notices.recv(100) == b"STOPPING=1"


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


def _step(action):
    from paddock.hosting.messages import Step

    return Step([0], [action])


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
