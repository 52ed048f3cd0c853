"""OpenEnv's clients against a server that misbehaves on cue. Every test is told for plain and for async code."""

import asyncio
import gc
import threading
import warnings

import numpy as np
import pytest

from paddock.errors import BadFrame, InvalidAction, PlanError, SessionGone, Unreachable
from paddock.hosting.openenv import client as blocking
from paddock.hosting.openenv.client import endpoint_of
from paddock.openenv import (
    ConnectionLost,
    EnvClient,
    GenericAction,
    GenericEnvClient,
    MCPToolClient,
    OutcomeUnknown,
    ServerError,
    StepResult,
    SyncEnvClient,
)
from tests.openenv.scripted_server import ScriptedServer, echo


class Async:
    """An async client as if it were a plain one, so that one test serves both."""

    def __init__(self, *args, **kwargs):
        self._loop = asyncio.new_event_loop()
        self._client = self._run(self._make(*args, **kwargs))

    async def _make(self, *args, **kwargs):
        return GenericEnvClient(*args, **kwargs)

    def _run(self, coroutine):
        return self._loop.run_until_complete(coroutine)

    def __getattr__(self, name):
        async def call(*args, **kwargs):
            return await getattr(self._client, name)(*args, **kwargs)

        return lambda *args, **kwargs: self._run(call(*args, **kwargs))

    def __enter__(self):
        self._run(self._client.__aenter__())
        return self

    def __exit__(self, *error):
        self._run(self._client.__aexit__(*error))
        self._loop.close()


@pytest.fixture(params=[GenericEnvClient, Async], ids=["plain", "async"])
def client(request):
    return request.param


def test_an_episode(client):
    with ScriptedServer(echo) as server, client(base_url=server.url) as env:
        assert env.reset(seed=3) == StepResult({"value": ["reset", {"seed": 3}, 0]}, 0.0, False, None)
        assert env.step({"a": 1}).observation["value"] == ["step", {"a": 1}, 1]
        assert env.step(GenericAction(a=2)).observation["value"] == ["step", {"a": 2}, 2]
        assert env.state() == {"episode_id": "e", "step_count": 2}


def test_arrays_in_an_action_are_sent_as_lists(client):
    with ScriptedServer(echo) as server, client(base_url=server.url) as env:
        assert env.step({"a": np.arange(2), "b": np.float32(0.5)}).observation["value"][1] == {"a": [0, 1], "b": 0.5}


def test_nan_in_an_action_is_refused_and_nothing_is_sent(client):
    with ScriptedServer(echo) as server, client(base_url=server.url) as env:
        env.reset()
        with pytest.raises(InvalidAction, match="NaN"):
            env.step({"a": float("nan")})
        assert env.step({"a": 1}).observation["value"][2] == 1


def test_an_error_of_the_server_leaves_the_session_as_it_was(client):
    def script(peer):
        peer.ask()
        peer.send({"type": "error", "data": {"message": "no", "code": "EXECUTION_ERROR", "more": 1}})
        echo(peer)

    with ScriptedServer(script) as server, client(base_url=server.url) as env:
        with pytest.raises(RuntimeError, match=r"^Server error: no \(code: EXECUTION_ERROR\)$") as caught:
            env.step({})
        assert isinstance(caught.value, ServerError)
        assert (caught.value.wire_code, caught.value.details["more"]) == ("EXECUTION_ERROR", 1)
        assert env.step({}).observation["value"][2] == 1


def test_a_late_answer_is_never_taken_for_another(client):
    waited = threading.Event()

    def late(peer):
        peer.ask()
        assert waited.wait(30)
        peer.observe("late")
        peer.ask()

    with ScriptedServer(late, echo) as server, client(base_url=server.url, message_timeout_s=0.05) as env:
        with pytest.raises(OutcomeUnknown, match="unknown"):
            env.step({})
        waited.set()
        for call in (env.state, lambda: env.step({})):
            with pytest.raises(SessionGone, match="reset"):
                call()
        assert env.reset().observation["value"] == ["reset", {}, 0]
        assert env.step({"a": 1}).observation["value"] == ["step", {"a": 1}, 1]


def test_a_timeout_is_a_timeout_error(client):
    with (
        ScriptedServer(lambda peer: [peer.ask(), peer.ask()]) as server,
        client(base_url=server.url, message_timeout_s=0.05) as env,
        pytest.raises(TimeoutError),
    ):
        env.reset()


def test_an_answer_that_nobody_asked_for_ends_the_session(client):
    def script(peer):
        peer.ask()
        peer.observe(1, 2)
        peer.ask()

    with ScriptedServer(script, echo) as server, client(base_url=server.url) as env:
        assert env.reset().observation["value"] == 1
        with pytest.raises(ConnectionLost, match="an answer without a request"):
            env.step({})
        assert env.reset().observation["value"][0] == "reset"


@pytest.mark.parametrize("payload", [b"{", b"[]", b'{"type":"state","data":{}}', b'{"type":"observation","data":5}'])
def test_what_is_no_answer_to_the_question_ends_the_session(client, payload):
    def script(peer):
        peer.ask()
        peer.send(payload)
        peer.ask()

    with ScriptedServer(script) as server, client(base_url=server.url) as env:
        with pytest.raises(BadFrame):
            env.reset()
        with pytest.raises(SessionGone):
            env.step({})


def test_a_connection_that_the_server_closes_is_told_once_and_reset_makes_another(client):
    def script(peer):
        peer.ask()
        peer.close(1011)

    with ScriptedServer(script, echo) as server, client(base_url=server.url) as env:
        with pytest.raises(ConnectionError, match="1011"):
            env.step({})
        with pytest.raises(SessionGone):
            env.step({})
        assert env.reset().observation["value"][0] == "reset"


def test_a_connection_that_was_closed_between_two_episodes_is_replaced_unseen(client):
    def script(peer):
        peer.ask()
        peer.observe(1)
        peer.close()

    with ScriptedServer(script, echo) as server, client(base_url=server.url) as env:
        env.reset()
        with pytest.raises(ConnectionError):
            env.step({})
        assert env.reset().observation["value"] == ["reset", {}, 0]


def test_a_server_without_room_says_so(client):
    def full(peer):
        data = {"message": "Server at capacity", "code": "CAPACITY_REACHED", "active_sessions": 1, "max_sessions": 1}
        peer.send({"type": "error", "data": data})
        peer.close()

    with ScriptedServer(full, echo) as server, client(base_url=server.url) as env:
        with pytest.raises(ServerError, match="CAPACITY_REACHED"):
            env.reset()
        assert env.reset().observation["value"][0] == "reset"


def test_leaving_says_close(client):
    said = []

    def script(peer):
        while True:
            said.append(peer.ask()["type"])

    with ScriptedServer(script) as server, client(base_url=server.url):
        pass
    assert said == ["close"]


def test_a_server_that_is_not_there_is_a_connection_error(client):
    with ScriptedServer(echo) as server:
        url = server.url
    with pytest.raises(ConnectionError, match="Failed to connect") as caught, client(base_url=url):
        pass
    assert isinstance(caught.value, Unreachable)


@pytest.mark.slow
def test_a_slow_server_that_answers_pings_is_waited_for_and_one_that_does_not_is_gone(client):
    def answering(peer):
        peer.ask()
        opcode, data = peer.receive()
        assert opcode == 9
        peer.send(data, opcode=10)
        peer.observe("slow")
        peer.ask()

    def deaf(peer):
        peer.ask()
        peer.receive()
        peer.receive()

    options = {"websocket_ping_interval_s": 0.05, "websocket_ping_timeout_s": 0.05}
    with ScriptedServer(answering) as server, client(base_url=server.url, **options) as env:
        assert env.reset().observation["value"] == "slow"
    with (
        ScriptedServer(deaf) as server,
        client(base_url=server.url, **options) as env,
        pytest.raises(ConnectionLost, match="ping"),
    ):
        env.reset()


def test_pings_are_answered_while_nobody_asks(monkeypatch):
    monkeypatch.setattr(blocking, "_LOOK_S", 0.01)
    answered = threading.Event()

    def script(peer):
        peer.send(b"there?", opcode=9)
        assert peer.receive() == (10, b"there?")
        answered.set()
        echo(peer)

    with ScriptedServer(script) as server, GenericEnvClient(base_url=server.url) as env:
        assert answered.wait(30)
        assert env.reset().observation["value"][0] == "reset"


def test_a_cancelled_call_closes_the_connection():
    asked = threading.Event()

    def script(peer):
        peer.ask()
        asked.set()
        peer.ask()

    async def main(url):
        async with GenericEnvClient(base_url=url) as env:
            task = asyncio.create_task(env.step({}))
            await asyncio.to_thread(asked.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(SessionGone):
                await env.state()

    with ScriptedServer(script) as server:
        asyncio.run(main(server.url))


def test_two_calls_at_once_are_refused():
    async def main(url):
        async with GenericEnvClient(base_url=url) as env:
            results = await asyncio.gather(env.reset(), env.step({}), return_exceptions=True)
            assert isinstance(results[1], RuntimeError)
            assert (await env.step({})).observation["value"][2] == 1

    with ScriptedServer(echo) as server:
        asyncio.run(main(server.url))


class Typed(EnvClient):
    def _step_payload(self, action):
        return {"n": action}

    def _parse_result(self, payload):
        return StepResult(payload["observation"]["value"], payload["reward"], payload["done"])

    def _parse_state(self, payload):
        return payload["step_count"]

    async def twice(self, action):
        await self.step(action)
        return (await self.step(action)).observation


def test_typed_clients_convert_and_their_coroutines_run_for_plain_code():
    with ScriptedServer(echo) as server, Typed(server.url).sync() as env:
        assert isinstance(env, SyncEnvClient)
        env.reset()
        assert env.step(5).observation == ["step", {"n": 5}, 1]
        assert env.twice(6) == ["step", {"n": 6}, 3]
        assert env.state() == 3
        assert env.base_url == server.url


def test_plain_code_works_where_a_loop_runs():
    async def main(url):
        with GenericEnvClient(base_url=url) as env:
            return env.reset().observation["value"][0]

    with ScriptedServer(echo) as server:
        assert asyncio.run(main(server.url)) == "reset"


def test_one_client_is_for_one_kind_of_code():
    async def main(env):
        async with env:
            pass

    with (
        ScriptedServer(echo) as server,
        GenericEnvClient(base_url=server.url) as env,
        pytest.raises(RuntimeError, match="already being used in sync mode"),
    ):
        asyncio.run(main(env))


def test_a_new_session_is_one_of_its_own_and_is_closed_with_the_first():
    with ScriptedServer(echo) as server, GenericEnvClient(base_url=server.url) as env:
        other = env.new_session()
        env.reset()
        env.step({})
        assert other.step({}).observation["value"][2] == 1
        assert env.step({}).observation["value"][2] == 2
        line = other._line
    assert not line.live


def test_a_tool_client_calls_tools_whatever_production_mode_a_program_sets():
    def tools(peer):
        asked = peer.ask()["data"]
        peer.send({"type": "mcp", "data": {"jsonrpc": "2.0", "id": asked["id"], "result": {"data": asked["method"]}}})
        peer.ask()

    with ScriptedServer(tools) as server, MCPToolClient(base_url=server.url) as env:
        assert env.use_production_mode is True
        env.use_production_mode = False
        assert env.call_tool("look") == "tools/call"


def test_the_mode_is_fixed(monkeypatch):
    monkeypatch.setenv("OPENENV_CLIENT_MODE", "Production")
    env = GenericEnvClient(base_url="http://host")
    assert env._mode == "production"
    with pytest.raises(AttributeError, match="Cannot modify mode"):
        env._mode = "simulation"
    with pytest.raises(ValueError, match="Invalid mode: 'other'"):
        GenericEnvClient(base_url="http://host", mode="other")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://host", ("host", 80, "/ws", False)),
        ("https://host/", ("host", 443, "/ws", True)),
        ("ws://host:8000/ws", ("host", 8000, "/ws", False)),
        ("http://[::1]:9/ALE%2FPong-v5/", ("::1", 9, "/ALE%2FPong-v5/ws", False)),
        ("host:8000", ("host", 8000, "/ws", False)),
    ],
)
def test_where_the_websocket_is(url, place):
    found = endpoint_of(url)
    assert (found.host, found.port, found.path, found.secure) == place


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http://host:99999", "http://u:p@host:x"])
def test_a_url_that_is_none_is_refused_and_no_password_is_shown(url):
    with pytest.raises(PlanError) as caught:
        GenericEnvClient(base_url=url)
    assert "u:p" not in str(caught.value)


def test_the_user_part_of_the_url_and_a_header_authenticate(client):
    heads = []

    def script(peer):
        heads.append(peer.head)
        echo(peer)

    with ScriptedServer(script) as server:
        with client(base_url=server.url.replace("://", "://any:TOKEN@")):
            pass
        with client(base_url=server.url, headers={"Authorization": "Bearer T"}):
            pass
        with client(base_url=server.url.replace("://", "://TOKEN@")):
            pass
    assert b"Authorization: Basic YW55OlRPS0VO\r\n" in heads[0]
    assert b"Authorization: Bearer T\r\n" in heads[1]
    assert b"Authorization: Bearer TOKEN\r\n" in heads[2]


class Provider:
    def __init__(self, url):
        self.url, self.calls = url, []

    def start(self):
        self.calls.append("start")
        return self.url

    def wait_for_ready(self):
        self.calls.append("ready")

    def stop(self):
        self.calls.append("stop")


class Containers(Provider):
    def start_container(self, image, port=None):
        self.calls.append((image, port))
        return self.url

    def wait_for_ready(self, base_url):
        self.calls.append(base_url)

    def stop_container(self):
        self.calls.append("stop")


def test_a_provider_starts_and_stops_the_server(client):
    with ScriptedServer(echo) as server:
        provider = Provider(server.url)
        with client(provider=provider) as env:
            env.reset()
        assert provider.calls == ["start", "ready", "stop"]


def test_a_container_is_started_for_an_image():
    with ScriptedServer(echo) as server:
        provider = Containers(server.url)
        with GenericEnvClient.from_docker_image("image:1", provider, port=7, message_timeout_s=9.0).sync() as env:
            env.reset()
            assert env.base_url == server.url
        assert provider.calls == [("image:1", 7), server.url, "stop"]


def test_a_container_is_awaited_in_async_code():
    async def main(provider):
        env = await GenericEnvClient.from_docker_image("image:1", provider)
        await env.reset()
        await env.close()

    with ScriptedServer(echo) as server:
        provider = Containers(server.url)
        asyncio.run(main(provider))
        assert provider.calls == [("image:1", None), server.url, "stop"]


def test_a_factory_starts_nothing_until_it_is_used_and_only_once():
    with ScriptedServer(echo) as server:
        provider = Containers(server.url)
        starting = GenericEnvClient.from_docker_image("image:1", provider)
        assert (provider.calls, repr(starting)) == ([], "<Starting: await it, or call sync()>")
        with starting.sync(), pytest.raises(RuntimeError, match="started already"):
            starting.sync()


def test_a_container_is_stopped_when_the_client_cannot_be_made_or_is_not_awaited_any_more():
    class Slow(Containers):
        began, ends = threading.Event(), threading.Event()

        def wait_for_ready(self, base_url):
            self.began.set()
            assert self.ends.wait(30)

    async def main():
        slow = Slow("http://127.0.0.1:1")
        task = asyncio.create_task(GenericEnvClient.from_docker_image("image:1", slow))
        await asyncio.to_thread(slow.began.wait, 30)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, slow.ends.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        return slow.calls

    assert asyncio.run(main()) == [("image:1", None), "stop"]
    provider = Containers("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="Invalid mode"):
        GenericEnvClient.from_docker_image("image:1", provider, mode="other").sync()
    assert provider.calls[-1] == "stop"


def test_a_subclass_that_needs_a_url_gets_one():
    class Picky(GenericEnvClient):
        def __init__(self, base_url, provider=None):
            super().__init__(base_url.rstrip("/"), provider=provider)

    with ScriptedServer(echo) as server, Picky.from_docker_image("image:1", Containers(server.url)).sync() as env:
        assert env.reset().observation["value"][0] == "reset"


def test_a_client_from_asyncio_run_goes_on_in_plain_code_with_a_new_episode():
    with ScriptedServer(echo) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of asyncio, for a transport that outlives its loop
        env = asyncio.run(GenericEnvClient.from_docker_image("image:1", Containers(server.url)))
        with pytest.raises(SessionGone, match="reset"):
            env.step({})
        assert env.reset().observation["value"][0] == "reset"
        env.close()
        gc.collect()


def test_a_container_is_stopped_when_no_connection_can_be_made(client):
    with ScriptedServer(echo) as server:
        url = server.url
    provider = Containers(url)
    with pytest.raises(ConnectionError, match="Failed to connect"):
        GenericEnvClient.from_docker_image("image:1", provider).sync()
    assert provider.calls[-1] == "stop"
    with pytest.raises(ConnectionError), client(base_url=url, provider=provider):
        pass
    assert provider.calls.count("stop") == 2


def test_a_provider_of_a_running_server_is_stopped_with_the_client(client):
    with ScriptedServer(echo) as server:
        provider = Provider(server.url)
        with client(base_url=server.url, provider=provider) as env:
            env.reset()
        assert provider.calls == ["stop"]


def test_a_stop_that_fails_is_tried_again():
    class Stubborn(Provider):
        def stop(self):
            super().stop()
            if self.calls.count("stop") == 1:
                raise OSError("busy")

    with ScriptedServer(echo) as server:
        env = GenericEnvClient(provider=Stubborn(server.url))
        env.reset()
        with pytest.raises(OSError, match="busy"):
            env.close()
        env.close()
        env.close()
        assert env._server._provider.calls == ["start", "ready", "stop", "stop"]


@pytest.mark.parametrize(
    ("provider", "error", "text"),
    [(Containers(""), ValueError, r"start_container\(\) requires image"), (object(), TypeError, "start_container")],
)
def test_a_provider_that_cannot_start_by_itself_is_refused(provider, error, text):
    with pytest.raises(error, match=text):
        GenericEnvClient(provider=provider).reset()


def test_a_new_session_starts_the_server_if_need_be(client):
    with ScriptedServer(echo) as server:
        env = client(provider=Provider(server.url))
        env.new_session()
        env.close()
        assert server.sessions == 1


def test_sync_returns_the_same_client_each_time():
    env = GenericEnvClient(base_url="http://host")
    assert env.sync() is env.sync()


def test_a_result_in_a_running_loop_may_be_awaited_or_looked_at():
    async def awaited(url):
        env = GenericEnvClient(base_url=url)
        await env.reset()
        task = asyncio.create_task(env.step({}))
        assert (await task).observation["value"][2] == 1
        await env.close()

    async def looked_at(url):
        env = GenericEnvClient(base_url=url)
        pending = env.reset()
        assert "await" in repr(pending)
        assert pending.observation["value"][0] == "reset"
        assert "reset" in repr(pending)
        assert env.step({}).observation["value"][2] == 1
        env.close()

    with ScriptedServer(echo) as server:
        asyncio.run(awaited(server.url))
        asyncio.run(looked_at(server.url))


def test_an_answer_that_is_too_large_names_the_limit(client):
    def script(peer):
        peer.ask()
        peer.observe("x" * 40_000)
        peer.ask()

    with (
        ScriptedServer(script) as server,
        client(base_url=server.url, max_message_size_mb=1 / 32) as env,
        pytest.raises(ConnectionLost, match=r"max_message_size_mb=0\.03125"),
    ):
        env.reset()


def test_nothing_is_downloaded():
    with pytest.raises(PlanError, match=r"paddock\.make\('\./folder'\)"):
        GenericEnvClient.from_env("org/thing", use_docker=False)
    with pytest.raises(ValueError, match="app"):
        GenericEnvClient.from_env("org/thing", use_docker=False, provider=Provider(""), app="x:y")
    with pytest.raises(PlanError, match="base_url="):
        GenericEnvClient()


def test_a_space_runs_as_its_image_or_from_a_folder():
    with ScriptedServer(echo, echo, echo) as server:
        provider = Containers(server.url)
        for call in (GenericEnvClient.from_env, GenericEnvClient.from_hub):
            call("Org/My_Env", provider=provider, tag="v2", port=5).sync().close()
        assert provider.calls[0] == provider.calls[3] == ("registry.hf.space/org-my-env:v2", 5)
        runtime = Provider(server.url)
        GenericEnvClient.from_env("org/thing", use_docker=False, provider=runtime).sync().close()
        assert runtime.calls == ["start", "ready", "stop"]
