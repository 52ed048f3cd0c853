"""Workspaces and their server: no link leads them astray; nothing outlives the environment or stops the deadlines."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from paddock.errors import InvalidPolicy, NotPermitted
from paddock.sandbox import workspaces
from paddock.sandbox.policy import Policy
from paddock.sandbox.workspace_server import Workspaces, WorkspaceServer
from paddock.sandbox.workspaces import workspace
from tests.sandbox.web import web
from tests.sandbox.workers import leftovers, needs_linux

pytestmark = needs_linux
PYTHON, PATIENCE_S = "/usr/bin/python3", 20.0


def inner(**more):
    return Policy(programs=("/bin/sh", "/bin/cat", "/bin/ln"), processes=4, **more)


def said(running, argv, asked):
    near, number = running.start(argv, asked)
    with near:
        near.settimeout(PATIENCE_S)
        near.shutdown(socket.SHUT_WR)
        text = b"".join(iter(lambda: near.recv(4096), b""))
    running.end(number)
    return text


@pytest.mark.process
@pytest.mark.parametrize("tier", ["sandbox", "landlock"])
def test_a_link_that_a_workspace_made_is_not_followed_for_the_next(tmp_path, tier):
    out, secret = tmp_path / "out", tmp_path / "secret"
    out.mkdir()
    out.chmod(0o777)
    secret.mkdir()
    (secret / "key").write_text("hunter2")
    running = Workspaces(Policy(workspaces=1, workspace=inner(tier=tier, write=(str(out),))))
    said(running, ["/bin/ln", "-s", str(secret), f"{out}/x"], None)
    assert (out / "x").is_symlink()
    for asked in (inner(tier=tier, read=(f"{out}/x",)), inner(tier=tier, write=(f"{out}/x",))):
        with pytest.raises(InvalidPolicy, match="lies below"):
            said(running, ["/bin/cat", f"{out}/x/key"], asked)
    assert said(running, ["/bin/cat", f"{out}/x/key"], None) == b""


def test_a_link_that_the_environment_could_have_made_is_refused(tmp_path):
    (tmp_path / "out" / "x").mkdir(parents=True)
    granted = Policy(write=(f"{tmp_path}/out",), workspaces=1, workspace=inner(read=(str(tmp_path),)))
    with pytest.raises(InvalidPolicy, match="lies below"):
        Workspaces(granted).start(["/bin/cat"], inner(read=(f"{tmp_path}/out/x",)))


def test_a_link_of_this_machine_that_leads_out_of_the_grant_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "away").symlink_to("/etc")
    running = Workspaces(Policy(workspaces=1, workspace=inner(read=(f"{tmp_path}/data",))))
    with pytest.raises(NotPermitted, match="leads out"):
        running.start(["/bin/cat"], inner(read=(f"{tmp_path}/data/away",)))


@contextmanager
def workspace_server(policy):
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    far.settimeout(PATIENCE_S)
    with far:
        opened = WorkspaceServer(near, policy)
        try:
            yield opened, far
        finally:
            opened.close()


def ask(far, argv):
    far.send(json.dumps({"argv": argv, "policy": None}).encode())
    answer, fds, _, _ = socket.recv_fds(far, 1 << 16, 1)
    return json.loads(answer), socket.socket(fileno=fds[0])


@pytest.mark.process
def test_closing_the_server_ends_all_though_somebody_holds_its_other_end():
    before = leftovers()
    with workspace_server(Policy(workspaces=2, workspace=inner())) as (opened, far), far.dup() as handed_on:
        _, program = ask(far, ["/bin/cat"])
        with program:
            program.settimeout(PATIENCE_S)
            opened.close()
            assert program.recv(1) == b""
            assert not {one for one in leftovers() - before if one[0] == "process"}
        with pytest.raises(BrokenPipeError):
            handed_on.send(b"{}")
        opened.close()


@pytest.mark.process
def test_threads_that_ask_at_once_get_workspaces_of_their_own(monkeypatch):
    def one(number):
        with workspace(["/bin/sh", "-c", f"echo {number}"]) as program:
            return program.communicate(timeout_s=PATIENCE_S)

    with workspace_server(Policy(workspaces=4, workspace=inner())) as (_, far), ThreadPoolExecutor(4) as threads:
        monkeypatch.setattr(workspaces, "_walled", True)
        monkeypatch.setattr(workspaces, "_server", far)
        assert list(threads.map(one, range(24))) == [b"%d\n" % number for number in range(24)]


@pytest.mark.process
def test_answers_that_nobody_reads_close_the_server_and_end_the_workspaces():
    with workspace_server(Policy(workspaces=1, workspace=inner())) as (_, far):
        _, program = ask(far, ["/bin/cat"])
        with program:
            program.settimeout(PATIENCE_S)
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                for _ in range(100_000):
                    far.send(b'{"argv": 1}')
            assert program.recv(1) == b""  # it alone had the other end


@pytest.mark.process
def test_a_workspace_reaches_its_hosts_and_its_listener_is_not_for_the_environment():
    code = (
        "import os, urllib.request as u, sys\n"
        "for url in sys.argv[1:]:\n"
        "    try: print(u.urlopen(url, timeout=10).read().decode())\n"
        "    except OSError as error: print(error.code)\n"
    )
    with web(lambda *_: {"body": b"hello"}) as server, web() as other:
        granted = Policy(programs=(PYTHON,), processes=2, hosts=(f"127.0.0.1:{server.port}",))
        running = Workspaces(Policy(workspaces=1, workspace=granted))
        urls = [f"http://127.0.0.1:{one.port}/" for one in (server, other)]
        assert said(running, [PYTHON, "-c", code, *urls], None) == b"hello\n403\n"
        assert other.seen == []
