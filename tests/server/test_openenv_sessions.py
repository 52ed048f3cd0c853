"""Sessions that are used by their id: whole episodes over HTTP, ``/ws?session_id=``, and production mode."""

import asyncio
import json
from contextlib import contextmanager

import pytest

import paddock
from paddock.errors import NotPermitted
from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from tests.server.paddock_serve import exchange, paddock_serve
from tests.server.raw_peers import BINARY, CLOSE
from tests.serving import shared

pytestmark = pytest.mark.process

RESET, STEP, STATE = '{"type":"reset"}', '{"type":"step","data":{"action":1}}', '{"type":"state"}'


server = shared(lambda folder: paddock_serve(folder, "CartPole-v1", "--max-sessions", "3"))
production = shared(lambda folder: paddock_serve(folder, "CartPole-v1", "--production"))


def rpc(server, method, **params):
    request = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
    answer = server.ask("POST", "/mcp", json.dumps(request))
    assert answer.status == 200
    return answer.json


@contextmanager
def session(server):
    """The id of one that was made over HTTP."""
    id = rpc(server, "openenv/session/create")["result"]["session_id"]
    yield id
    rpc(server, "openenv/session/close", session_id=id)


def data(text):
    return json.loads(text)["data"]


def test_an_episode_over_http_is_the_one_that_it_is_here(server):
    env = paddock.make("CartPole-v1")
    observation, _ = env.reset(seed=7)
    first = server.ask("POST", "/reset", '{"seed":7}')
    id = first.headers["x-paddock-session"]
    assert first.json["observation"]["value"] == observation.tolist()
    steps, terminated = 0, False
    while not terminated:
        steps += 1
        observation, reward, terminated, truncated, _ = env.step(1)
        answer = server.ask("POST", "/step", '{"action":{"action":1}}', x_paddock_session=id)
        assert answer.json == {
            "observation": {
                "value": observation.tolist(),
                "terminated": terminated,
                "truncated": truncated,
                "info": {},
            },
            "reward": reward,
            "done": terminated or truncated,
            "metadata": None,
        }
    assert server.ask("GET", "/state", x_paddock_session=id).json["step_count"] == steps
    again = server.ask("POST", "/reset", '{"seed":7}', x_paddock_session=id)
    assert (again.headers["x-paddock-session"], again.body) == (id, first.body)
    rpc(server, "openenv/session/close", session_id=id)
    assert server.ask("POST", "/step", '{"action":{"action":1}}', x_paddock_session=id).status == 404


def test_without_the_header_each_request_has_an_environment_of_its_own(server):
    before = len(server.ask("GET", "/sessions").json["sessions"])
    assert server.ask("GET", "/state").json["step_count"] == 0
    refused = server.ask("POST", "/step", '{"action":{"action":1}}')
    assert (refused.status, refused.json["code"]) == (409, "EXECUTION_ERROR")  # it was never reset
    assert refused.json["detail"].endswith("env.reset(). Send back the X-Paddock-Session header that /reset returned.")
    assert server.ask("POST", "/reset", '{"seed":-1}').status == 422
    assert len(server.ask("GET", "/sessions").json["sessions"]) == before


def test_sessions_over_http_make_place_for_others(server):
    ids = [server.ask("POST", "/reset").headers["x-paddock-session"] for _ in range(5)]
    states = [server.ask("GET", "/state", x_paddock_session=id).status for id in ids]
    assert states == [404, 404, 200, 200, 200]
    for id in ids[2:]:
        rpc(server, "openenv/session/close", session_id=id)


def test_many_requests_of_one_session_at_once_are_each_answered_once(server):
    async def ask(id, count):
        async def one():
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            body = b'{"action":{"action":1}}'
            writer.write(
                b"POST /step HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %s\r\nx-paddock-session: %s\r\n"
                b"connection: close\r\ncontent-length: %d\r\n\r\n%s"
                % (server.token.encode(), id.encode(), len(body), body)
            )
            answer = await reader.read()
            writer.close()
            return json.loads(answer.partition(b"\r\n\r\n")[2])["observation"]["value"][2]

        return await asyncio.gather(*(one() for _ in range(count)))

    with session(server) as id:
        server.ask("POST", "/reset", '{"seed":7}', x_paddock_session=id)
        count = 6
        seen = asyncio.run(ask(id, count))
        env = paddock.make("CartPole-v1")
        env.reset(seed=7)
        assert sorted(seen) == sorted(env.step(1)[0].tolist()[2] for _ in range(count))
        assert server.ask("GET", "/state", x_paddock_session=id).json["step_count"] == count


def test_a_websocket_joins_a_session_and_leaves_it_alive(server):
    with session(server) as id:
        with server.socket(f"/ws?session_id={id}") as peer:
            exchange(peer, RESET)
            exchange(peer, STEP)
            with server.socket(f"/ws?session_id={id}") as second:
                assert data(second.message()[1]) == {
                    "message": f"Session {id} already has an attached WebSocket",
                    "code": "SESSION_ERROR",
                }
                assert second.message()[0] == CLOSE
            assert data(exchange(peer, STATE))["step_count"] == 1
        assert server.ask("GET", "/state", x_paddock_session=id).json["step_count"] == 1
        with server.socket(f"/ws?session_id={id}") as peer:
            exchange(peer, STEP)
            assert data(exchange(peer, STATE))["step_count"] == 2


def test_nobody_joins_a_session_that_is_not_there(server):
    with server.socket("/ws?session_id=nope") as peer:
        assert data(peer.message()[1]) == {"message": "Unknown session_id: nope", "code": "SESSION_ERROR"}
        assert peer.message()[0] == CLOSE


def test_a_session_that_is_joined_is_closed_when_its_websocket_goes(server):
    id = rpc(server, "openenv/session/create")["result"]["session_id"]
    with server.socket(f"/ws?session_id={id}") as peer:
        exchange(peer, RESET)
        assert rpc(server, "openenv/session/close", session_id=id)["result"] == {
            "session_id": id,
            "closed": False,
            "closing": True,
        }
        assert json.loads(exchange(peer, STEP))["type"] == "observation"
        peer.frame(1, b'{"type":"close"}')
        assert peer.message()[0] == CLOSE
    assert rpc(server, "openenv/session/close", session_id=id)["error"]["code"] == -32602


def test_a_session_of_a_websocket_cannot_be_closed_by_another_hand(server):
    with server.socket() as peer:
        exchange(peer, RESET)
        create = '{"type":"mcp","data":{"jsonrpc":"2.0","method":"openenv/session/create","id":1}}'
        id = data(exchange(peer, create))["result"]["session_id"]
        assert rpc(server, "openenv/session/close", session_id=id)["error"]["message"] == f"Unknown session_id: {id}"
        assert rpc(server, "tools/list", session_id=id)["error"]["code"] == -32602
        assert json.loads(exchange(peer, STEP))["type"] == "observation"


def test_tools_are_told_to_be_none(server):
    with session(server) as id:
        for params in ({}, {"session_id": id}):
            assert rpc(server, "tools/list", **params)["error"]["message"] == "Environment does not support MCP"
        assert rpc(server, "tools/call", name="x", session_id=id)["error"]["code"] == -32603


def test_production_closes_http(production):
    for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
        answer = production.ask(method, path, '{"action":{"action":1}}' if path == "/step" else b"")
        assert (answer.status, answer.json) == (404, {"detail": "Not Found"})
        assert production.ask(method, f"/CartPole-v1{path}").status == 404
    for path in ("/health", "/metadata", "/schema"):
        assert production.ask("GET", path).status == 200


def test_production_closes_websockets(production):
    with session(production) as id:
        for path in ("/ws", "/CartPole-v1/ws", f"/ws?session_id={id}"):
            with production.socket(path) as peer:
                for text in (RESET, STEP, STATE):
                    assert data(exchange(peer, text)) == {
                        "message": "This is not permitted here.",
                        "code": "EXECUTION_ERROR",
                    }
                tools = '{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/list","id":1}}'
                assert data(exchange(peer, tools))["error"]["code"] == -32603
        for method, path in (("POST", "/reset"), ("GET", "/state")):
            assert production.ask(method, path, x_paddock_session=id).status == 404


def test_production_closes_the_native_wire(production):
    with production.socket("/mcp") as peer:
        assert json.loads(exchange(peer, '{"jsonrpc":"2.0","method":"tools/list","id":1}'))["error"]["code"] == -32603
    from tests.server.raw_peers import Peer

    with Peer(("127.0.0.1", production.port), token=production.token, timeout=30.0) as peer:
        assert peer.upgrade(native=True).status == 101
        for number, request in enumerate((m.Hello(None), m.Reset(0, 1, None), m.Step([0], [1]), m.State(0))):
            peer.frame(BINARY, b"".join(encode(request, number)))
            reply = decode_frame(peer.message()[1])[1]
            assert isinstance(reply, m.Welcome) if number == 0 else reply.code == NotPermitted.code
