"""``paddock serve``: its options, what it says when it is ready, and what it refuses before anyone is let in."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path

import pytest

import paddock
from paddock import RemoteOptions
from paddock.cli import main, serve
from paddock.cli.serve import url_of
from paddock.errors import Forbidden, NotPermitted, PaddockError, Unauthenticated
from tests.serving import serving, start

MANIFEST = """
[package]
name = "shelf"
version = "1.0.0"

[[env]]
id = "Left-v0"
entry = "shelf_env:Shelf"
kwargs = { side = "left" }

[[env]]
id = "Right-v0"
entry = "shelf_env:Shelf"
kwargs = { side = "right", books = 3 }
"""
MODULE = """
import paddock
from paddock.spaces import Discrete


class Shelf(paddock.Env):
    observation_space = Discrete(100)
    action_space = Discrete(2)

    def __init__(self, side, books=1, depth=1):
        self.side, self.books = side, books

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.books, {"side": self.side}

    def step(self, action):
        return self.books, 0.0, False, False, {}
"""
OPERATOR, AGENT, OBSERVER = "operator-0123456789abcdef", "agent-0123456789abcdef", "observer-0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("shelf")
    (made / "paddock.toml").write_text(MANIFEST)
    (made / "shelf_env.py").write_text(MODULE)
    return made


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder, "CartPole-v1", "--max-sessions", "4") as running:
        yield running


def get(running, path, token=None):
    headers = {"Authorization": f"Bearer {token or running.token}"}
    with urllib.request.urlopen(urllib.request.Request(running.url + path, headers=headers), timeout=20) as response:
        return json.load(response)


@pytest.mark.process
def test_a_folder_serves_all_ids_of_its_manifest_beside_other_targets(server):
    assert server.environments == ["Left-v0", "Right-v0", "CartPole-v1"]
    assert get(server, "/") == {"environments": server.environments}
    assert get(server, "/list_environments") == server.environments


@pytest.mark.process
def test_a_module_in_the_working_folder_is_found(tmp_path):
    register = '\npaddock.register("Here-v0", entry_point="shelf_here:Shelf", kwargs={"side": "left"})\n'
    (tmp_path / "shelf_here.py").write_text(MODULE + register)
    # As for the installed command: Python itself does not look there then.
    with (
        serving("shelf_here:Here-v0", cwd=tmp_path, env={"PYTHONSAFEPATH": "1"}) as server,
        paddock.make(server.with_token("/Here-v0")) as env,
    ):
        assert env.reset(seed=0) == (1, {"side": "left"})


@pytest.mark.process
def test_every_environment_has_its_routes_under_its_id(server):
    assert get(server, "/Right-v0/metadata")["name"] == "Right-v0"
    assert "action" in get(server, "/CartPole-v1/schema")
    with pytest.raises(urllib.error.HTTPError, match="404"):  # there are several, so the root has none
        get(server, "/schema")


@pytest.mark.process
def test_a_client_sets_arguments_that_the_spec_declares_and_no_others(server):
    with paddock.make(server.with_token("/Right-v0"), books=7) as env:
        assert env.reset() == (7, {"side": "right"})
    with pytest.raises(NotPermitted, match="books, side"):
        paddock.make(server.with_token("/Right-v0"), depth=2)


@pytest.mark.process
def test_health_alone_answers_without_a_token(server):
    with urllib.request.urlopen(server.url + "/health", timeout=20) as response:
        assert json.load(response)["status"] == "healthy"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(server.url + "/", timeout=20)
    with pytest.raises(Unauthenticated):
        paddock.make(server.url + "/CartPole-v1")


@pytest.mark.process
def test_no_more_sessions_than_it_was_told(server):
    held = []
    try:
        for _ in range(4):
            held.append(paddock.make(server.with_token("/CartPole-v1")))
        with pytest.raises(PaddockError) as refused:
            paddock.make(server.with_token("/CartPole-v1"), remote=RemoteOptions(connect_s=1.0))
        assert refused.value.code == "CAPACITY_REACHED"
    finally:
        for env in held:
            env.close()


@pytest.mark.process
def test_a_unix_socket_is_told_as_a_url_that_make_takes(tmp_path):
    with serving("CartPole-v1", "--uds", tmp_path / "a b.sock") as running:
        assert running.url == url_of(str(tmp_path / "a b.sock"))
        assert (tmp_path / "a b.sock").stat().st_mode & 0o777 == 0o600
        with paddock.make(running.with_token("/CartPole-v1")) as env:
            assert env.reset(seed=1)[0].shape == (4,)
        assert running.stop() == 0
    assert not (tmp_path / "a b.sock").exists()


@pytest.mark.process
def test_roles_and_production_come_from_the_command(tmp_path):
    (tmp_path / "tokens").write_text(f"# who\n{OPERATOR}\nagent {AGENT}\nobserver {OBSERVER}\n")
    (tmp_path / "tokens").chmod(0o600)
    with serving("CartPole-v1", "--production", "--wire", "0.3", "--token-file", tmp_path / "tokens") as running:
        assert running.token is None  # those of the file are known to who wrote it
        with paddock.make(running.with_token(token=OPERATOR)) as env, pytest.raises((NotPermitted, Forbidden)):
            env.reset(seed=1)
        assert get(running, "/sessions", OBSERVER)["sessions"] is not None
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(running, "/sessions", AGENT)


@pytest.mark.process
def test_it_speaks_tls_when_given_a_certificate(tmp_path):
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    tls = ("--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    with serving("CartPole-v1", *tls, "--journal", tmp_path / "journal") as running:
        assert running.url.startswith("https://127.0.0.1:")
        with paddock.make(running.with_token(), remote=RemoteOptions(ca=tmp_path / "cert.pem")) as env:
            assert env.reset(seed=1)[0].shape == (4,)
            assert len(list((tmp_path / "journal").iterdir())) >= 1
        plain = running.with_token().replace("https://", "http://")
        with pytest.raises(PaddockError, match="speaks TLS. Use https://"):
            paddock.make(plain)
        with pytest.raises(PaddockError, match="certificate"):
            paddock.make(running.with_token())


@pytest.mark.process
def test_it_prints_one_line_and_the_token_for_people():
    process = start("CartPole-v1", "--port", "0")
    try:
        first, second = process.stdout.readline().split(), process.stdout.readline().split()
        assert first[:3] == ["serving", "CartPole-v1", "on"]
        assert first[3].startswith("http://127.0.0.1:")
        assert (second[0], len(second[1]) >= 32) == ("token", True)
    finally:
        process.terminate()
        assert process.wait(60) == 0  # drained
        process.stdout.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["CartPol-v1"], "Did you mean: `CartPole`"),
        (["nowhere_at_all:X-v0"], "No module named 'nowhere_at_all'"),
        (["json:X-v0"], "Environment `X` doesn't exist"),
        (["CartPole-v1", "CartPole-v1"], "named twice"),
        (["CartPole-v1", "--isolation", "none"], "without one"),
        (["CartPole-v1", "--isolation", "glass"], "is not one of"),
        (["CartPole-v1", "--host", "0.0.0.0"], "--tls-cert"),
        (["CartPole-v1", "--tls-cert", "none.pem", "--tls-key", "none.pem"], "no such file"),
        (["CartPole-v1", "--uds", "x.sock", "--tls-cert", "x", "--tls-key", "x"], "no TLS"),
        (["CartPole-v1", "--deadline", "0"], "not a number above 0"),
        (["CartPole-v1", "--deadline", "nan"], "not a number above 0"),
        (["CartPole-v1", "--max-sessions", "0"], "--max-sessions"),
        (["CartPole-v1", "--port", "-1"], "--port"),
        (["CartPole-v1", "--wire", "0.9"], "--wire"),
        (["CartPole-v1", "--token-file", "none"], "No such file"),
        (["CartPole-v1", "--grant"], "--grant applies to folders"),
        ([], "TARGET"),
        (["https://example.org/CartPole-v1"], "server"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_started(paddock, monkeypatch, tmp_path, words, says):
    monkeypatch.chdir(tmp_path)
    result = paddock("serve", *words)
    assert result.code == 2
    assert says in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.process
def test_an_environment_that_can_not_be_made_is_one_line(paddock, tmp_path):
    (tmp_path / "paddock.toml").write_text(MANIFEST)
    broken = MODULE.replace("self.side, self.books = side, books", "raise KeyError('no shelf')")
    (tmp_path / "shelf_env.py").write_text(broken)
    result = paddock("serve", f"{tmp_path}:Left-v0", "--port", "0")
    assert result.code == 2
    assert result.err.endswith("the environment can't be made: KeyError: 'no shelf'\n")
    assert len(result.err.splitlines()) == 1


def test_a_folder_that_asks_for_more_is_served_once_that_is_granted(paddock, tmp_path):
    from paddock.server.served_env import prepare_envs

    (tmp_path / "paddock.toml").write_text(MANIFEST + '[permissions]\nhosts = ["a.example:443"]\n')
    (tmp_path / "shelf_env.py").write_text(MODULE)
    refused = paddock("serve", str(tmp_path))
    assert (refused.code, "on the command line with --grant" in refused.err) == (2, True)
    served = prepare_envs([str(tmp_path), "CartPole-v1"], "auto", grant=True)
    assert [(one.name, one.policy.hosts, one.policy.tier) for one in served] == [
        ("Left-v0", ("a.example:443",), "auto"),
        ("Right-v0", ("a.example:443",), "auto"),
        ("CartPole-v1", (), "auto"),
    ]
    walled = paddock("serve", str(tmp_path), "--grant", "--isolation", "none")
    assert walled.code == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("short", "the token has only 5 characters"),
        ("operater 0123456789abcdef", "not a role, and too short for a token"),
        ("agent", "a role without a token"),
        ("agent observer", "a role without a token"),
        ("agent 0123456789abcdef 2027-01-31 2028-01-31", "more than the token and its expiry"),
        ("agent 0123456789abcdef tomorrow", "is not an ISO time"),
    ],
)
def test_a_token_file_says_which_mistake_it_has(paddock, tmp_path, line, says):
    (tmp_path / "tokens").write_text(f"# who\n{line}\n")
    result = paddock("serve", "CartPole-v1", "--token-file", str(tmp_path / "tokens"))
    assert result.code == 2
    assert says in result.err and "line 2" in result.err
    assert "0123456789abcdef" not in result.err


def test_a_token_file_that_is_none_lets_nobody_in(paddock, tmp_path):
    (tmp_path / "tokens").write_text("short\n")
    result = paddock("serve", "CartPole-v1", "--token-file", str(tmp_path / "tokens"))
    assert (result.code, "line 1" in result.err, "short" in result.err) == (2, True, False)


@pytest.mark.process
def test_a_port_that_is_taken_is_named(paddock):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = paddock("serve", "CartPole-v1", "--port", str(taken.getsockname()[1]))
    assert (result.code, f"127.0.0.1:{taken}" in result.err or "in use" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("address", "secure", "url"),
    [
        (("127.0.0.1", 8000), False, "http://127.0.0.1:8000"),
        (("::1", 8000, 0, 0), True, "https://[::1]:8000"),
        ("/run/a b.sock", False, "http+unix://%2Frun%2Fa%20b.sock"),
    ],
)
def test_where_it_listens_is_told_as_a_url(address, secure, url):
    assert url_of(address, secure=secure) == url


@pytest.mark.parametrize(
    ("platform", "cores", "threads", "expected"),
    [("linux", 1, 1, 1), ("linux", 3, 1, 3), ("linux", 500, 1, 256), ("linux", 3, 2, 1), ("darwin", 3, 1, 1)],
)
def test_by_default_one_process_serves_per_core(monkeypatch, platform, cores, threads, expected):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    parser = ArgumentParser()
    serve.add_arguments(parser)
    assert serve._settings(parser.parse_args(["CartPole-v1"])).processes == expected
    assert serve._settings(parser.parse_args(["CartPole-v1", "--processes", "1"])).processes == 1


def _config(folder, text):
    file = folder / "serve.toml"
    file.write_text(text)
    return file


@pytest.mark.process
def test_a_config_file_serves_and_flags_win(tmp_path):
    audit = tmp_path / "audit.jsonl"
    text = f'targets = ["CartPole-v1"]\nprocesses = 1\nmax-sessions = 1\naudit = "{audit.name}"\n'
    with serving("--config", _config(tmp_path, text)) as server, paddock.make(server.with_token("/CartPole-v1")) as env:
        assert server.environments == ["CartPole-v1"]
        env.reset(seed=1)
        request = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": f"Bearer {server.token}"})
        metrics = urllib.request.urlopen(request).read().decode()
        for name in ("memory_bytes", "cpu_seconds"):
            found = re.search(rf'^paddock_workers_{name}{{environment="CartPole-v1"}} (\S+)$', metrics, re.MULTILINE)
            assert float(found[1]) > 0
        wrong = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": "Bearer " + "x" * 20})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(wrong)
        with pytest.raises(PaddockError, match="session"):
            paddock.make(server.with_token("/CartPole-v1"))
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert records and all(one["logger"] == "paddock.audit" for one in records)
    assert audit.stat().st_mode & 0o777 == 0o600 and server.token not in audit.read_text()
    with serving("Pendulum-v1", "--max-sessions", "9", "--config", _config(tmp_path, text)) as server:
        assert server.environments == ["Pendulum-v1"]


def _options():
    """Each option of the command: a value for a file, the same as words of the command line, and words for another."""
    parser = ArgumentParser(add_help=False)
    serve.add_arguments(parser)
    for option in parser._actions:
        flag, one, other = option.option_strings[-1:], 7, 8
        if option.type is Path or option.type is None:
            one, other = reversed(option.choices or ("/a", "/b"))
        if option.dest == "targets":
            yield option.dest, ["/a", "/b"], ["/a", "/b"], ["/c"]
        elif option.nargs == 0:
            yield option.dest, True, flag, flag
        elif isinstance(option.default, list):
            yield option.dest, ["/a", "/b"], [*flag, "/a", *flag, "/b"], [*flag, "/c"]
        elif option.dest != "config":
            yield option.dest, one, [*flag, str(one)], [*flag, str(other)]


@pytest.mark.parametrize(("name", "value", "flags", "others"), list(_options()))
def test_an_option_means_the_same_in_a_config_file_and_a_flag_wins(monkeypatch, tmp_path, name, value, flags, others):
    def read(*words):
        assert main(["serve", *words]) == 0
        return ran.pop()

    ran = []
    monkeypatch.setattr(serve, "run", lambda arguments, _: ran.append(vars(arguments) | {"config": None}) or 0)
    file = str(_config(tmp_path, f"{name.replace('_', '-')} = {json.dumps(value)}"))
    assert read("--config", file) == read(*flags) != read()
    assert read("--config", file, *others) == read(*others)


@pytest.mark.process
def test_tenants_of_a_config_file_share_their_sessions_over_all_processes(tmp_path):
    (tmp_path / "tokens").write_text(f"operator@vision {'a' * 20}\noperator@vision {'b' * 20}\n{'c' * 20}\n")
    text = """
targets = ["CartPole-v1"]
processes = 2
token-file = "tokens"
[tenants.vision]
sessions = 2
"""
    with serving("--config", _config(tmp_path, text)) as server:
        url = f"{server.url}/CartPole-v1"
        with ExitStack() as stack:
            for token in "ab":
                stack.enter_context(paddock.make(url, remote=paddock.RemoteOptions(token=token * 20)))
            with pytest.raises(PaddockError, match="Your tenant already has its 2 sessions"):
                paddock.make(url, remote=paddock.RemoteOptions(token="a" * 20, connect_s=1.0))
            paddock.make(url, remote=paddock.RemoteOptions(token="c" * 20)).close()
            request = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": f"Bearer {'c' * 20}"})
            metrics = urllib.request.urlopen(request).read().decode()
        assert '\npaddock_tenant_sessions{tenant="vision"} 2\n' in metrics
        assert 'paddock_sessions_refused_total{reason="tenant"}' in metrics


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max-session = 3", "Did you mean 'max-sessions'?"),
        ("max-sessions = true", "expected a string or a number"),
        ("max-sessions = 0", "max-sessions"),
        ("grant = 1", "expected true or false"),
        ("targets = 'CartPole-v1'", "expected a list of strings"),
        ("wire = 0.3", 'wire = 0.3: expected one of "0.10", "0.3"'),
        ("targets = [", "is not TOML"),
        ("", "nothing to serve"),
        ("tenants = 3", "expected tables [tenants.NAME]"),
        ("[tenants.Vision]", "[tenants.Vision]: expected tables"),
        ("[tenants.a]\nsession = 3", "[tenants.a]: session = '3': expected numbers for sessions, rate, cpu, memory"),
        ("[tenants.a]\ncpu = true", "[tenants.a]: cpu = 'True': expected numbers"),
        ("targets = ['CartPole-v1']\n[tenants.a]\nrate = -1", "[tenants.a] rate = -1: expected more than 0"),
    ],
)
def test_a_config_file_that_is_wrong_says_where(capsys, tmp_path, text, said):
    assert main(["serve", "--config", str(_config(tmp_path, text))]) == 2
    assert said in capsys.readouterr().err


def test_a_config_file_that_is_missing_is_named(capsys, tmp_path):
    assert main(["serve", "--config", str(tmp_path / "none.toml")]) == 2
    assert "none.toml can't be read: No such file" in capsys.readouterr().err


def test_paths_of_a_config_file_are_relative_to_it(tmp_path):
    text = "token-file = 'tokens'\ntargets = ['./maze', 'CartPole-v1']"
    found = serve.read_config(_config(tmp_path, text))
    assert found == {"token_file": str(tmp_path / "tokens"), "targets": [str(tmp_path / "maze"), "CartPole-v1"]}
