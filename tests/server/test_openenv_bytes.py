"""The bytes of the whole server, next to those that the real packages gave for the same environment."""

import json
import re

import pytest

from tests.openenv.capture import EXCHANGES, HTTP, TASKS
from tests.openenv.golden import golden, plain
from tests.server.paddock_serve import exchange, paddock_serve

pytestmark = pytest.mark.process

FORMS = ["0.10", "0.3"]
ECHO, TASK = "tests.openenv.worlds:EchoEnv", "tests.openenv.worlds:TaskEnv"
# OpenEnv's /state loses the fields of a State's subclass, and its schemas have descriptions that are not ours to copy.
NOT_OURS = ("/state", "/schema")


@pytest.fixture(scope="module", params=FORMS)
def serving(request, tmp_path_factory):
    with paddock_serve(tmp_path_factory.mktemp("serve"), ECHO, "--wire", request.param) as server:
        yield request.param, server


def test_frames(serving):
    form, server = serving
    with server.socket() as peer:
        ours = plain([exchange(peer, text) for text in EXCHANGES])
    for asked, mine, theirs in zip(EXCHANGES, ours, plain(golden(form)["frames"]), strict=True):
        if '"crash"' in asked:  # a text of the environment's never leaves
            mine = re.sub(r"The environment raised RuntimeError \(incident \w{12}\)\.", "it broke", mine)
        assert (asked, mine) == (asked, theirs)


def test_http(serving):
    form, server = serving
    for (method, path, body), theirs in zip(HTTP, plain(golden(form)["http"]), strict=True):
        answer = server.ask(method, path, body)
        if path not in NOT_OURS:
            assert (path, body, plain([answer.status, answer.body.decode()])) == (path, body, theirs)
        else:
            assert (path, answer.status) == (path, 200)


def test_the_state_has_the_fields_of_its_class(serving):
    _, server = serving
    assert server.ask("GET", "/state").json == {"episode_id": "e0", "step_count": 0, "total": 0}
    assert "total" in server.ask("GET", "/schema").json["state"]["properties"]


def test_the_schemas_are_those_of_the_classes(serving):
    from tests.openenv import worlds

    form, server = serving
    schemas = server.ask("GET", "/schema").json
    assert schemas["action"] == worlds.EchoAction.model_json_schema()
    assert schemas["observation"] == worlds.EchoObservation.model_json_schema()
    assert schemas["state"] == worlds.EchoState.model_json_schema()
    assert ("reset_observation" in schemas) == (form == "0.10")


def test_tasks(tmp_path):
    theirs = golden("0.10")["tasks"]
    with paddock_serve(tmp_path, TASK) as server:
        for (method, path, body), answer in zip(TASKS[:-1], theirs, strict=False):
            ours = server.ask(method, path, body)
            assert (path, body, [ours.status, ours.body.decode()]) == (path, body, answer)


def test_an_environment_without_tasks_says_so(serving, tmp_path):
    _, server = serving
    method, path, body = TASKS[-1]
    ours = server.ask(method, path, body)
    assert [ours.status, ours.body.decode()] == golden("0.10")["tasks"][-1]
    with paddock_serve(tmp_path, "CartPole-v1") as plain_env:
        assert plain_env.ask("GET", "/CartPole-v1/splits").status == 501
        assert plain_env.ask("POST", "/CartPole-v1/num_tasks", '{"split":"train"}').status == 501


def test_the_websocket_mcp_has_frames_with_spaces(serving):
    _, server = serving
    with server.socket("/mcp") as peer:
        made = exchange(peer, '{"jsonrpc":"2.0","method":"openenv/session/create","id":1}')
        own = json.loads(made)["result"]["session_id"]
        assert made == json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"session_id": own}})
        close = {"jsonrpc": "2.0", "method": "openenv/session/close", "params": {"session_id": own}, "id": 2}
        assert json.loads(exchange(peer, json.dumps(close)))["error"]["code"] == -32600
        listed = json.loads(exchange(peer, '{"jsonrpc":"2.0","method":"tools/list","id":3}'))
        assert listed["error"] == {"code": -32603, "message": "Environment does not support MCP", "data": None}
        assert json.loads(exchange(peer, "{"))["error"]["code"] == -32700
