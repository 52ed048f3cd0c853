"""``paddock ps``: what it shows of a server, and what it says when it can't."""

import json

import pytest

from tests.server.serving import Client, serving, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_sessions_are_shown_as_a_table_and_as_json(paddock, server):
    with Client(server.address(), 1) as client:
        client.reset().step(1)
        wait_until(lambda: server.health() == "healthy")  # a server that the machine has just kept waiting says so
        shown = paddock("ps", "--url", server.url, "--token", server.token)
        assert shown.code == 0, shown.err
        assert "healthy; sessions: 1" in shown.out
        assert client.session[:8] in shown.out and client.session not in shown.out
        assert "Witness-v0" in shown.out
        assert not set(shown.out.splitlines()[-1].split()[3]) & set(",.")  # a process' id, to be copied
        document = json.loads(paddock("ps", "--url", server.url, "--token", server.token, "--json").out)
        assert document["status"] == "healthy"
        (row,) = document["sessions"]
        assert str(row["pid"]) in shown.out.split()
        assert (row["session"], row["replies"], row["connected"]) == (client.session[:8], 3, True)


def test_token_comes_from_the_environment_too(paddock, server, monkeypatch):
    monkeypatch.setenv("PADDOCK_TOKEN", server.token)
    assert paddock("ps", "--url", server.url).code == 0


def test_wrong_token_and_no_server_are_one_line(paddock, server):
    refused = paddock("ps", "--url", server.url, "--token", "x" * 20)
    assert refused.code == 1 and "wants a token" in refused.err and "x" * 20 not in refused.err
    nobody = paddock("ps", "--url", "http://127.0.0.1:9", "--token", "x" * 20)
    assert nobody.code == 1 and "does not answer" in nobody.err
    mistaken = paddock("ps", "--url", "http://example.org", "--token", "x" * 20)
    assert mistaken.code == 2 and "TLS" in mistaken.err
