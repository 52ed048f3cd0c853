"""How a server starts: this machine only, a token that is told once; other machines over TLS alone."""

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from paddock.errors import PlanError, Unreachable
from paddock.hosting.messages import Close, Make, Reset, Step
from paddock.hosting.remote_address import parse_address
from paddock.hosting.remote_channel import RemoteChannel
from paddock.server.auth import AddressRates, OriginCheck, Tokens
from paddock.server.settings import Settings
from tests.server.in_process import vault_server
from tests.server.raw_peers import Peer


def serve(*arguments):
    command = [sys.executable, "-u", "-m", "paddock", "serve", "CartPole-v1", "--port", "0", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def processes_of(pid):
    """The process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_default_start_is_for_this_machine_with_a_token_told_once():
    running = serve()
    try:
        lines = [running.stdout.readline(), running.stdout.readline()]
        place = re.fullmatch(r"serving CartPole-v1 on http://127\.0\.0\.1:(\d+)\n", lines[0])
        token = re.fullmatch(r"token ([\w-]{43})\n", lines[1])  # 256 bits in base64
        assert place and token, lines
        with Peer(("127.0.0.1", int(place[1])), token=token[1]) as peer:
            assert peer.ask("POST", "/reset", body={}).status == 200  # a worker lives now
            with Peer(("127.0.0.1", int(place[1]))) as stranger:
                assert stranger.ask("GET", "/metadata").status == 401
            for pid in processes_of(running.pid):
                for name in ("cmdline", "environ"):
                    assert token[1].encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
            assert len(processes_of(running.pid)) > 1
        listening = [line.split()[1] for line in Path(f"/proc/{running.pid}/net/tcp").read_text().splitlines()[1:]]
        assert f"0100007F:{int(place[1]):04X}" in listening
        assert f"00000000:{int(place[1]):04X}" not in listening
    finally:
        running.send_signal(signal.SIGTERM)
        rest, told = running.communicate(timeout=30)
    assert token[1] not in rest + told


def test_each_start_has_a_token_of_its_own():
    assert len({Tokens.fresh()[1] for _ in range(100)}) == 100


@pytest.mark.process
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1.evil"])
def test_other_machines_are_not_served_without_tls(host):
    running = serve("--host", host)
    rest, told = running.communicate(timeout=30)
    assert running.returncode == 2
    assert "--tls-cert" in told and "token " not in rest


def test_settings_that_would_be_unsafe():
    hosts = ("0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.evil", "127.1", "")
    for wrong in (*({"host": host} for host in hosts), {"tls_cert": Path("c")}, {"tls_key": Path("k")}):
        with pytest.raises(PlanError):
            Settings(**wrong).check()
    for fine in ({}, {"host": "::1"}, {"host": "127.8.8.8"}, {"host": "0.0.0.0", "uds": Path("s")}):
        Settings(**fine).check()


def test_names_that_a_server_goes_by():
    everywhere = OriginCheck.for_bind("0.0.0.0", hosts=frozenset({"Envs.example.org"}))
    for host in ("envs.example.org", "envs.example.org:443", "192.0.2.7", "[2001:db8::1]:8443", "localhost"):
        assert everywhere.refusal({"host": host}) is None, host
    for host in ("evil.example.org", "envs.example.org.evil", "2001:db8::1", "[::1", "1.2.3.4.5", "", "a b"):
        assert everywhere.refusal({"host": host}) is not None, host
    assert OriginCheck.for_bind("127.0.0.1").refusal({"host": "192.0.2.7"}) is not None
    assert OriginCheck.for_bind("::1").refusal({"host": "[::1]:8000"}) is None


# Tokens

TOKEN = "0123456789abcdef-token"


def test_only_digests_of_tokens_are_kept(tmp_path):
    (tmp_path / "tokens").write_text(f"agent {TOKEN}\n")
    tokens = Tokens.from_file(tmp_path / "tokens")
    seen, left = set(), [tokens]
    while left:  # everything that can be reached from it
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        assert TOKEN not in repr(one)
        left += list(vars(one).values()) if hasattr(one, "__dict__") else []
        left += list(one) if isinstance(one, (list, tuple)) else []
    assert tokens.principal(f"Bearer {TOKEN}").role == "agent"
    assert TOKEN[:8] not in tokens.principal(f"Bearer {TOKEN}").name


def test_tokens_are_compared_in_constant_time(monkeypatch, tmp_path):
    (tmp_path / "tokens").write_text("".join(f"token-number-{index:04}\n" for index in range(20)))
    tokens, compared = Tokens.from_file(tmp_path / "tokens"), []
    import hmac

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    for word in ("token-number-0000", "token-number-0019", "nothing"):
        compared.clear()
        tokens.principal(f"Bearer {word}")
        assert len(compared) == 20  # all of them, whichever is right
        assert all(len(a) == len(b) == 32 for a, b in compared)


def test_an_end_counts_from_its_second_on(tmp_path):
    now = datetime(2027, 1, 31, tzinfo=timezone.utc)
    (tmp_path / "tokens").write_text(f"operator {TOKEN} 2027-01-31T00:00:00Z\n")
    tokens = Tokens.from_file(tmp_path / "tokens")
    assert tokens.principal(f"Bearer {TOKEN}", now=now - timedelta(seconds=1)) is not None
    assert tokens.principal(f"Bearer {TOKEN}", now=now) is None


def test_a_file_that_can_not_be_read_any_more_lets_nobody_in(tmp_path):
    file = tmp_path / "tokens"
    for broken in (b"operator short\n", b"", b"\xff\xfe", None):
        file.write_text(f"operator {TOKEN}\n")
        tokens = Tokens.from_file(file)
        assert tokens.principal(f"Bearer {TOKEN}") is not None
        file.unlink() if broken is None else file.write_bytes(broken)
        assert tokens.principal(f"Bearer {TOKEN}") is None, broken


@pytest.mark.parametrize(
    "line", ["short", "operator", "king 0123456789abcdef x y", "a b c d", "agent 0123456789abcdef x"]
)
def test_a_token_file_with_a_mistake_names_the_line_and_no_token(tmp_path, line):
    (tmp_path / "tokens").write_text(f"# who may\noperator {TOKEN}\n{line}\n")
    with pytest.raises(PlanError, match="line 3") as caught:
        Tokens.from_file(tmp_path / "tokens")
    assert TOKEN not in str(caught.value) and "0123456789abcdef" not in str(caught.value)


# TLS


def test_a_fresh_token_is_no_option_of_a_command(monkeypatch):
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: "--" + "x" * size)
    tokens, token = Tokens.fresh()
    assert token == "x" * 32 and tokens.principal(f"Bearer {token}").role == "operator"


@pytest.fixture(scope="module")
def secure(certificate, tmp_path_factory):
    place = tmp_path_factory.mktemp("secure")
    files = {"tls_cert": certificate / "cert.pem", "tls_key": certificate / "key.pem"}
    with vault_server(place, **files) as running:
        yield running


@pytest.mark.process
def test_http_and_websockets_over_tls_ask_for_the_same_token(secure, certificate):
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    with secure.peer(context=context) as peer:
        assert peer.sock.version() in ("TLSv1.2", "TLSv1.3")
        assert peer.ask("GET", "/metadata").status == 200
        assert peer.ask("POST", "/reset", body={}).status == 200
    for role, status in (("operator", 101), ("expired", 401), (None, 401)):
        with secure.peer(role, context=context) as peer:
            assert peer.upgrade(native=True).status == status
    with secure.peer(context=context) as peer:
        assert peer.upgrade(headers={"origin": "https://evil.example"}).status == 403


@pytest.mark.process
def test_a_client_with_the_right_authority_steps(secure, certificate):
    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    url = f"https://127.0.0.1:{secure.port}/Vault-v0"
    channel = RemoteChannel(parse_address(url, token=secure.tokens["operator"], environ={}), context=context)
    try:
        for request in (Make(0, {}), Reset(0), Step([0], [3])):
            channel.send(request)
            answer = channel.recv(30.0)
        assert answer.value[0][1] == 3.0
        channel.send(Close())
        channel.recv(30.0)
    finally:
        channel.close()


@pytest.mark.process
def test_a_client_that_does_not_know_the_authority_says_nothing(secure):
    url = f"https://127.0.0.1:{secure.port}/Vault-v0"
    with pytest.raises(Exception, match=r"(?i)certificate"):
        RemoteChannel(parse_address(url, token=secure.tokens["operator"], environ={}))
    with pytest.raises(ssl.SSLCertVerificationError):
        secure.peer(context=ssl.create_default_context())


@pytest.mark.process
def test_plain_http_to_a_port_with_tls_is_told_to_use_https(secure, certificate):
    asked = {"GET": b"", "POST": b"x" * 100_000}
    for method, body in asked.items():
        with secure.peer() as peer:
            answer = peer.ask(method, "/health", body=body)
            assert answer.status == 400 and "Use https://" in answer.json["detail"]
            assert peer.sock.recv(1) == b""  # and it is let go
    with secure.peer() as peer:
        assert peer.upgrade(native=True).status == 400
    url = f"http://127.0.0.1:{secure.port}/Vault-v0"
    with pytest.raises(Unreachable, match=r"speaks TLS. Use https://"):
        RemoteChannel(parse_address(url, token=secure.tokens["operator"], environ={}))


@pytest.mark.process
def test_plain_http_to_a_port_with_tls_has_a_rate(secure, monkeypatch):
    monkeypatch.setattr(secure.api, "_open_asks", AddressRates(0.1, 2))
    found = []
    for _ in range(3):
        with secure.peer() as peer:
            found.append(peer.ask("GET", "/health").status)
    assert found == [400, 400, 429]


@pytest.mark.process
def test_old_tls_gets_nothing(secure, certificate):
    old = ssl.create_default_context(cafile=certificate / "cert.pem")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that they are old is the point
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secure.peer(context=old)
    with secure.peer(context=ssl.create_default_context(cafile=certificate / "cert.pem")) as peer:
        assert peer.ask("GET", "/health").status == 200


@pytest.mark.process
def test_a_unix_socket_is_for_its_owner(tmp_path):
    place = tmp_path / "socket"
    with vault_server(tmp_path, uds=place) as server:
        assert os.stat(place).st_mode & 0o777 == 0o600
        with Peer(str(place)) as stranger:
            assert stranger.ask("GET", "/metadata").status == 401
        with Peer(str(place), token=server.tokens["operator"]) as peer:
            assert peer.ask("GET", "/metadata").status == 200


@pytest.mark.process
@pytest.mark.parametrize("name", ["sibling", "\0sibling", "127.0.0.1:1"])
def test_the_name_of_a_peers_unix_socket_means_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with vault_server(tmp_path, uds=tmp_path / "socket"), socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(20.0)
        peer.bind(name)
        peer.connect(str(tmp_path / "socket"))
        peer.sendall(b"GET /sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.recv(12) == b"HTTP/1.1 401"
