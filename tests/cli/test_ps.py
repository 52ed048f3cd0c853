"""``paddock ps`` and ``paddock kill``: what they do with a server, and what they say when they can't."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from paddock.errors import SessionGone
from tests.hosting.websocket.servers import certificate
from tests.server.in_process import vault_server
from tests.server.serving import Client, alive, serving, wait_until
from tests.serving import shared

server = shared(serving)


@pytest.mark.process
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


@pytest.mark.process
def test_token_comes_from_the_environment_too(paddock, server, monkeypatch):
    monkeypatch.setenv("PADDOCK_TOKEN", server.token)
    assert paddock("ps", "--url", server.url).code == 0


@pytest.mark.process
def test_wrong_token_and_no_server_are_one_line(paddock, server):
    refused = paddock("ps", "--url", server.url, "--token", "x" * 20)
    assert refused.code == 1 and "does not know this token" in refused.err and "x" * 20 not in refused.err
    assert "wants a token" in paddock("ps", "--url", server.url).err
    nobody = paddock("ps", "--url", "http://127.0.0.1:9", "--token", "x" * 20)
    assert nobody.code == 1 and "does not answer" in nobody.err
    mistaken = paddock("ps", "--url", "http://example.org", "--token", "x" * 20)
    assert mistaken.code == 2 and "TLS" in mistaken.err


@pytest.mark.process
def test_session_is_killed_as_ps_shows_it(paddock, server):
    client = Client(server.address(), 1).reset()
    worker = server.worker(client)
    shown = paddock("kill", client.session[:8], "--url", server.url, "--token", server.token)
    assert shown.code == 0, shown.err
    (row,) = [one for one in server.log.splitlines() if "killed by operator-" in one]
    owner = json.loads(row)["principal"]
    assert shown.out == f"ended {client.session[:8]}, Witness-v0 of {owner}\n"
    with pytest.raises(SessionGone, match="An operator ended it"):
        client.step(1)
    wait_until(lambda: not alive([worker]))
    other = Client(server.address(), 2).reset()
    document = paddock("kill", other.session, "--url", server.url, "--token", server.token, "--json").document
    assert document == {"session": other.session[:8], "environment": "Witness-v0", "principal": owner}
    other.abandon()


@pytest.mark.process
def test_kill_says_that_there_is_no_such_session_or_that_the_token_may_not(paddock, server):
    observer = "an-observers-token"
    server.token_file.write_text(f"{server.token_file.read_text()}observer {observer}\n")
    with Client(server.address(), 3) as client:
        client.reset()
        unknown = paddock("kill", "0" * 8, "--url", server.url, "--token", server.token)
        assert unknown.code == 1 and f"{server.url} has no session '00000000'. Those it has: paddock ps" in unknown.err
        refused = paddock("kill", client.session[:8], "--url", server.url, "--token", observer, "--json")
        assert refused.code == 1 and refused.document["error"]["code"] == "FORBIDDEN"
        assert f"Ending a session on {server.url} needs an operator's token." in refused.err
        nobody = paddock("kill", client.session[:8], "--url", server.url, "--token", "x" * 20)
        assert nobody.code == 1 and "does not know this token" in nobody.err
        client.step(1)


def test_kill_believes_that_a_session_is_gone_only_if_the_server_says_so(paddock):
    class NotFound(BaseHTTPRequestHandler):
        def do_DELETE(self):
            self.send_response(404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), NotFound) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        for answer, code in (
            ({"detail": "Not Found"}, "REFUSED"),
            ({"code": ["odd"]}, "REFUSED"),
            ([], "REFUSED"),
            ({"code": "SESSION_GONE"}, "SESSION_GONE"),
        ):
            body = json.dumps(answer).encode()
            url = f"http://127.0.0.1:{other.server_port}"
            shown = paddock("kill", "0" * 8, "--url", url, "--token", "x" * 20, "--json")
            assert shown.code == 1 and shown.document["error"]["code"] == code
        other.shutdown()


@pytest.mark.process
def test_sessions_that_wait_are_in_the_first_line(paddock, tmp_path, monkeypatch):
    queue = {"workers_starting": 2, "sessions_waiting": 1}
    with vault_server(tmp_path) as server:
        monkeypatch.setattr(type(server.service), "queue", queue)
        where = ("--url", f"http://127.0.0.1:{server.port}", "--token", server.tokens["operator"])
        assert paddock("ps", *where).out.endswith("; sessions: 0, workers starting: 2, sessions waiting: 1\n")
        assert queue.items() <= paddock("ps", *where, "--json").document.items()


@pytest.mark.process
def test_a_certificate_of_ones_own_is_believed_with_ca(paddock, tmp_path):
    certificate(tmp_path)
    files = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    with vault_server(tmp_path, **files) as server:
        where = ("--url", f"https://localhost:{server.port}", "--token", server.tokens["operator"])
        ca = ("--ca", str(tmp_path / "cert.pem"))
        assert paddock("ps", *where, *ca, "--json").document["sessions"] == []
        stranger = paddock("ps", *where)
        assert stranger.code == 1 and "For a certificate of your own: --ca FILE" in stranger.err
        unknown = paddock("kill", "0" * 8, *where, *ca)
        assert unknown.code == 1 and "has no session" in unknown.err
        for wrong, words in ((tmp_path / "none.pem", "No such file"), (tmp_path / "tokens", "can't read certificates")):
            refused = paddock("ps", *where, "--ca", str(wrong))
            assert refused.code == 2 and f"--ca {wrong}: " in refused.err and words in refused.err
        plain = paddock("ps", "--url", "http://127.0.0.1:9", *ca)
        assert plain.code == 2 and "--ca is for TLS" in plain.err
