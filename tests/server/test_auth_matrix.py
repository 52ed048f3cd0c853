"""Who gets in: every route, by every path, with every credential; the cases are made from the server's own table."""

import base64
import hashlib
import logging

import pytest

from paddock.server.http_api import ROUTES, Route
from tests.server.in_process import vault_server
from tests.server.serving import wait_until
from tests.serving import shared

ALL = {"operator", "agent", "observer"}
# What was decided for each route. One that is not here was added without a decision, and fails the first test.
POLICY = {
    ("GET", "health"): None,
    ("GET", "health/live"): None,
    ("GET", "health/ready"): None,
    ("GET", ""): ALL,
    ("GET", "metrics"): {"operator", "observer"},
    ("GET", "sessions"): {"operator", "observer"},
    ("DELETE", "sessions/{session}"): {"operator"},
    ("GET", "openapi.json"): ALL,
    ("GET", "list_environments"): ALL,
    ("POST", "reset"): {"operator"},
    ("POST", "step"): {"operator", "agent"},
    ("GET", "state"): {"operator"},
    ("GET", "metadata"): ALL,
    ("GET", "schema"): ALL,
    ("POST", "mcp"): {"operator", "agent"},
    ("DELETE", "mcp"): {"operator", "agent"},
    ("POST", "handover"): {"operator"},
    ("GET", "handover"): {"operator"},
    ("GET", "splits"): {"operator"},
    ("POST", "tasks"): {"operator"},
    ("POST", "num_tasks"): {"operator"},
    ("POST", "task"): {"operator"},
    ("POST", "task_range"): {"operator"},
    ("WS", "ws"): ALL,
    ("WS", "mcp"): {"operator", "agent"},
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
BODY = {"action": {"action": 1}, "split": "train", "index": 0, "jsonrpc": "2.0", "method": "tools/list", "id": 1}


def paths(route):
    return [f"/{route.name}"] if route.scope == "root" else [f"/{route.name}", f"/Vault-v0/{route.name}"]


CASES = [(route, path) for route in ROUTES for path in paths(route)]


server = shared(lambda folder: vault_server(folder, failures_per_s=1e6))


@pytest.fixture
def untouched(server):
    """Nothing may reach an environment in this test: no worker is started, and one that lives is left alone."""
    with server.peer("other") as owner:
        assert owner.upgrade().status == 101
        owner.text({"type": "reset", "data": {}})
        started = server.workers_started
        yield
        assert server.workers_started == started
        assert owner.text({"type": "state"})["data"]["step_count"] == 0
        step = owner.text({"type": "step", "data": {"action": 1}})
        assert step["data"]["observation"]["value"] == [1.0]
        assert step["data"]["observation"]["info"] == {"resets": 1}


def asked(server, route, path, headers=None, role=None, method=None):
    """The status of a request of its own connection."""
    with server.peer(role) as peer:
        if (method or route.method) == "WS":
            return peer.upgrade(path, headers).status
        body = b"" if (method or route.method) != "POST" else {} if route.name == "reset" else BODY
        return peer.ask(method or route.method, path, headers, body).status


def test_every_route_has_a_policy_that_was_decided():
    assert {(route.method, route.name): route.roles and set(route.roles) for route in ROUTES} == POLICY
    assert len(POLICY) == len(ROUTES)
    with pytest.raises(TypeError):
        Route("new", "GET")  # who may take it can't be left out


def wrong_credentials(server):
    token = server.tokens["operator"]
    basic = base64.b64encode(f"x:{token}x".encode()).decode()
    return {
        "no token": None,
        "empty": "",
        "wrong": f"Bearer {token[:-1]}!",
        "a part": f"Bearer {token[:-1]}",
        "twice": f"Bearer {token} {token}",
        "bare": token,
        "another scheme": f"Digest {token}",
        "no space": f"Bearer{token}",
        "expired": f"Bearer {server.tokens['expired']}",
        "revoked": f"Bearer {server.tokens['revoked']}",
        "wrong password": f"Basic {basic}",
        "token as user": f"Basic {base64.b64encode(f'{token}:'.encode()).decode()}",
        "no base64": f"Basic {token}:é",
        "no text": f"Basic {base64.b64encode(bytes([58, 255])).decode()}",
        "digest of it": "Bearer " + hashlib.sha256(token.encode()).hexdigest(),
    }


@pytest.mark.process
def test_no_wrong_credential_passes(server, untouched):
    passed = []
    for route, path in CASES:
        for name, value in wrong_credentials(server).items():
            status = asked(server, route, path, {"authorization": value})
            if status != (200 if route.roles is None else 401):
                passed.append((name, route.method, path, status))
    assert passed == []


@pytest.mark.process
def test_a_refused_token_is_not_called_a_missing_one(server):
    details = {}
    for name, value in wrong_credentials(server).items():
        with server.peer(None) as peer:
            details[name] = peer.ask("GET", "/sessions", {"authorization": value}).json["detail"]
    refused = {"wrong", "a part", "twice", "expired", "revoked", "wrong password", "digest of it"}
    assert {name for name, detail in details.items() if detail != "A token is needed."} == refused
    assert {details[name] for name in refused} == {"This token is not valid: it is not known here, or it has expired."}


@pytest.mark.process
def test_a_token_gets_the_environments_when_the_path_names_another_one(server):
    with server.peer("operator") as peer:
        answer = peer.ask("POST", "/Vualt-v0/reset", None, {})
    assert (answer.status, answer.json) == (404, {"detail": "Not Found", "environments": ["Vault-v0"]})


def by_role(server, *, right):
    """The status for each role that may, or may not, take each route."""
    for route, path in CASES:
        for role in sorted(ALL):
            if right is (route.roles is None or role in route.roles):
                yield (role, route.method, path), asked(server, route, path, role=role)


@pytest.mark.process
def test_no_other_role_passes(server, untouched):
    assert [case for case, status in by_role(server, right=False) if status != 403] == []


@pytest.mark.process
def test_the_right_roles_pass(server):
    # 400, 404: no session is named. 409: a step without a reset. 422: a body for another route. 501: it has no tasks.
    passed = (101, 200, 400, 404, 409, 422, 501)
    assert [(case, status) for case, status in by_role(server, right=True) if status not in passed] == []


@pytest.mark.process
def test_paths_that_are_none_tell_strangers_nothing(server, untouched):
    for path in ("/nothing", "/Vault-v0/nothing", "/Vault-v0/health", "/../sessions", "/%2e%2e/x", "/Vault-v0", "/*"):
        for method in METHODS:
            with server.peer(None) as peer:
                assert peer.ask(method, path).status == 401, (method, path)
        with server.peer(None) as peer:
            assert peer.upgrade(path).status == 401


@pytest.mark.process
def test_other_spellings_of_a_path_have_its_policy(server, untouched):
    for path in (
        "//sessions",
        "/sessions/",
        "/%73essions",
        "/sessions?x=/health",
        "/health/../sessions",
        "/./sessions",
    ):
        with server.peer("agent") as peer:
            assert peer.ask("GET", path).status in (403, 404), path
        with server.peer(None) as peer:
            assert peer.ask("GET", path).status == 401, path


def hostile_headers(port):
    yield from (
        {"host": "attacker.example"},
        {"host": f"attacker.example:{port}"},
        {"host": "localhost.evil"},
        {"host": f"127.0.0.1.evil:{port}"},
        {"host": "localhost."},
        {"host": "[::1].evil"},
        {"host": f"localhost:{port}@evil"},
        {"host": f"localhost, 127.0.0.1:{port}"},
        {"host": "127.0.0.1:port"},
        {"host": "0x7f.1"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost.evil"},
        {"origin": f"http://127.0.0.1:{port}"},
        {"origin": "http://localhost"},
        {"origin": "file://"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "CROSS-SITE"},
        {"sec-fetch-site": "anything"},
    )


@pytest.mark.process
@pytest.mark.parametrize("method", [*METHODS, "WS"])
def test_a_foreign_host_or_origin_is_turned_away_by_every_method(server, untouched, method):
    passed = []
    for route, path in CASES:
        for headers in hostile_headers(server.port):
            status = asked(server, route, path, headers, role="operator", method=method)
            if status != 403:
                passed.append((path, headers, status))
    assert passed == []


@pytest.mark.process
def test_no_host_at_all_is_malformed(server, untouched):
    for method in METHODS:
        with server.peer() as peer:
            assert peer.ask(method, "/health", {"host": None}).status == 400
    with server.peer() as peer:
        assert peer.upgrade(headers={"host": None}).status == 400


@pytest.mark.process
def test_two_hosts_origins_or_tokens_are_malformed(server, untouched):
    twice = {
        "host": (f"127.0.0.1:{server.port}", "evil.example"),
        "authorization": (f"Bearer {server.tokens['agent']}", f"Bearer {server.tokens['operator']}"),
        "origin": ("https://a.example", "https://b.example"),
    }
    for name, (one, other) in twice.items():
        for ask in ("GET", "WS"):
            with server.peer(None) as peer:
                headers = {name: f"{one}\r\n{name.title()}: {other}"}
                answer = peer.upgrade(headers=headers) if ask == "WS" else peer.ask("GET", "/sessions", headers)
                assert answer.status == 400, (name, ask)


@pytest.mark.process
def test_a_url_in_the_first_line_counts_as_host(server, untouched):
    with server.peer() as peer:
        assert peer.ask("GET", "http://evil.example/sessions").status == 403
        assert peer.ask("GET", f"http://127.0.0.1:{server.port}/sessions").status == 200
    with server.peer() as peer:
        assert peer.upgrade("http://evil.example/ws").status == 403


@pytest.mark.process
def test_methods_that_a_route_does_not_have(server, untouched):
    with server.peer() as peer:
        for route, path in CASES:
            own = {other.method for other in ROUTES if other.name == route.name}
            for method in METHODS:
                if method in own or (method == "HEAD" and "GET" in own):
                    continue
                answer = peer.ask(method, path)
                assert answer.status == (426 if own == {"WS"} else 405), (method, path)
                if method != "HEAD":
                    assert answer.json["detail"]


@pytest.mark.process
def test_an_origin_that_is_allowed_and_no_other(tmp_path):
    allowed = frozenset({"https://studio.example"})
    with vault_server(tmp_path, origins=allowed) as server:
        for origin, status in {
            "https://studio.example": 200,
            "https://STUDIO.example": 200,
            "http://studio.example": 403,
            "https://studio.example.evil": 403,
            "https://studio.example:8443": 403,
            "null": 403,
        }.items():
            headers = {"origin": origin, "sec-fetch-site": "cross-site"}
            with server.peer() as peer:
                assert peer.ask("GET", "/schema", headers).status == status, origin
            with server.peer() as peer:
                assert peer.upgrade(headers=headers).status == (101 if status == 200 else status), origin
        with server.peer(None) as peer:
            assert peer.ask("GET", "/schema", {"origin": "https://studio.example"}).status == 401


@pytest.mark.process
def test_basic_authentication_with_the_token_as_password(server):
    for user in ("anything", "", "a b", "ü"):
        word = base64.b64encode(f"{user}:{server.tokens['operator']}".encode()).decode()
        with server.peer(None) as peer:
            assert peer.ask("GET", "/sessions", {"authorization": f"Basic {word}"}).status == 200
        with server.peer(None) as peer:
            assert peer.upgrade(headers={"authorization": f"Basic {word}"}).status == 101


@pytest.mark.process
def test_refusals_are_logged_with_a_reason_and_no_token_is(server, caplog):
    def all_are_logged():
        for role in (None, "agent", "expired", "operator"):
            with server.peer(role) as peer:
                peer.ask("GET", f"/sessions?token={server.tokens['operator']}")
                peer.ask("GET", "/sessions", {"host": "evil.example"})
        return all(f"refused {reason} GET /sessions" in caplog.text for reason in ("token", "role", "gate"))

    with caplog.at_level(logging.DEBUG):
        # One line per reason and second: a test before this one may have had the line of this second.
        assert wait_until(all_are_logged)
    for token in server.tokens.values():
        assert token not in caplog.text
