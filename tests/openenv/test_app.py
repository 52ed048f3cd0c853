"""create_app and HTTPEnvServer: a FastAPI application, in whatever way it is run, for whatever makes an environment."""

import functools
import json
import subprocess
import sys
import types
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from paddock.errors import PlanError
from paddock.openenv import (
    ConcurrencyConfigurationError,
    HTTPEnvServer,
    create_app,
    create_fastapi_app,
)
from paddock.openenv.app import InertApp, recording
from tests.openenv import worlds
from tests.peers import ROOT, run_with_peer

CLASSES = worlds.EchoAction, worlds.EchoObservation


class Marked(worlds.EchoEnv):
    """Echoes with a mark, and what else came with the action."""

    def __init__(self, mark="!"):
        super().__init__()
        self.mark = mark

    def step(self, action, timeout_s=None, **kwargs):
        if action.text == "crash":
            raise RuntimeError("secret")
        return worlds.EchoObservation(echoed=action.text + self.mark, anything={"timeout_s": timeout_s, **kwargs})


def step(client, text, path="/ws"):
    with client.websocket_connect(path) as peer:
        peer.send_json({"type": "step", "data": {"text": text}})
        return peer.receive_json()["data"]["observation"]["echoed"]


def ask(client, **fields):
    return client.post("/step", json={"action": {"text": "a"}, **fields})


@pytest.fixture(scope="module")
def app():
    app = create_app(Marked, *CLASSES, env_name="an environment (local mode)", max_concurrent_envs=2)

    @app.get("/hello")
    def hello() -> str:
        return "mine"

    @app.middleware("http")
    async def mark(request, call_next):
        response = await call_next(request)
        response.headers["x-marked"] = "yes"
        return response

    other = FastAPI()
    other.get("/deep")(lambda: "deeper")
    app.mount("/mounted", other)
    return app


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app) as client:
        yield client


@pytest.mark.process
def test_the_application_is_fastapis_and_takes_more_routes_middleware_and_mounts(app, client):
    assert isinstance(app, FastAPI)
    assert {"/reset", "/step", "/state", "/ws", "/mcp", "/health", "/schema"} <= {route.path for route in app.routes}
    assert client.get("/hello").json() == "mine"
    assert client.get("/mounted/deep").json() == "deeper"
    assert client.get("/health").headers["x-marked"] == "yes"
    assert client.post("/health").status_code == 405


@pytest.mark.process
def test_the_document_has_the_users_routes_too(app, client):
    document = client.get("/openapi.json").json()
    assert document["info"] == {"title": "OpenEnv Environment HTTP API", "version": "1.0.0"}
    assert {"/hello", "/reset", "/step", "/metrics"} <= document["paths"].keys()
    assert document == app.openapi()


@pytest.mark.process
def test_a_name_may_be_any_text(client):
    assert client.get("/list_environments").json() == ["an environment (local mode)"]
    assert client.get("/an environment (local mode)/splits").status_code == 501
    assert client.get("/other/splits").json() == {"detail": "unknown environment 'other'"}


@pytest.mark.process
def test_paths_without_a_route_are_the_servers(client):
    assert "paddock_sessions" in client.get("/metrics").text
    assert step(client, "a", "/an%20environment%20%28local%20mode%29/ws") == "a!"
    assert client.get("/nowhere").status_code == 404
    assert [client.get(path).status_code for path in ("/web", "/web/a/b")] == [501, 501]


@pytest.mark.process
def test_arguments_beside_the_action_reach_the_step_that_they_came_with(client):
    assert ask(client, timeout_s=2.5, request_id="r", more=1).json()["observation"]["anything"] == {
        "timeout_s": 2.5,
        "request_id": "r",
        "more": 1,
    }
    session = {"x-paddock-session": client.post("/reset").headers["x-paddock-session"]}
    for timeout_s in (1.0, None):
        body = {"action": {"text": "a"}} | ({} if timeout_s is None else {"timeout_s": timeout_s})
        answer = client.post("/step", json=body, headers=session).json()
        assert answer["observation"]["anything"]["timeout_s"] == timeout_s


@pytest.mark.process
def test_an_error_of_the_environment_is_a_500_without_its_text(client):
    answer = client.post("/step", json={"action": {"text": "crash"}})
    assert (answer.status_code, answer.json()["code"]) == (500, "EXECUTION_ERROR")
    assert "RuntimeError" in answer.text and "incident" in answer.text and "secret" not in answer.text


@pytest.mark.process
def test_a_full_server_says_so_in_json_rpc_where_that_is_spoken(client):
    with client.websocket_connect("/ws") as first, client.websocket_connect("/ws") as second:
        for peer in (first, second):
            peer.send_json({"type": "state"})
            peer.receive_json()
        with client.websocket_connect("/mcp") as third:
            error = third.receive_json()["error"]
            assert (error["code"], error["data"]) == (-32000, {"active_sessions": 2, "max_sessions": 2})
        with client.websocket_connect("/ws") as third:
            assert third.receive_json()["data"]["code"] == "CAPACITY_REACHED"


@pytest.mark.process
def test_only_the_test_client_itself_may_call_the_server_testserver(app):
    assert TestClient(app, client=("192.0.2.1", 50000)).get("/schema").status_code == 403
    assert TestClient(app, base_url="http://evil.example").get("/schema").status_code == 403


@pytest.mark.process
def test_without_a_lifespan_sessions_outlive_the_event_loops_of_their_requests():
    client = TestClient(create_fastapi_app(Marked, *CLASSES, max_concurrent_envs=2))  # a loop for each request
    session = {"x-paddock-session": client.post("/reset", json={"episode_id": "mine"}).headers["x-paddock-session"]}
    assert client.get("/state", headers=session).json()["episode_id"] == "mine"
    assert step(client, "b") == "b!"
    with client:  # it goes on where it is, and stops with the lifespan
        assert client.get("/state", headers=session).json()["episode_id"] == "mine"
    assert client.get("/state", headers=session).status_code == 404


@asynccontextmanager
async def note(app):
    app.state.events.append("start")
    yield
    app.state.events.append("stop")


@pytest.mark.process
def test_a_lifespan_of_the_users_own_is_kept():
    app, events = FastAPI(lifespan=note), []
    app.state.events = events
    server = HTTPEnvServer(Marked, *CLASSES)
    server.register_routes(app)
    with TestClient(app) as client:
        assert client.get("/health").json() == {"status": "healthy"}
        assert client.get("/metrics").status_code == 404  # an application of the user's own has OpenEnv's routes only
        assert "/metrics" not in app.openapi()["paths"] and "/step" in app.openapi()["paths"]
    assert events == ["start", "stop"]


@pytest.mark.process
def test_a_server_tells_of_its_sessions():
    app, server = FastAPI(), HTTPEnvServer(Marked, *CLASSES, max_concurrent_envs=2)
    server.register_routes(app, "SIMULATION")
    assert (server.active_sessions, server.get_session_info("x")) == (0, None)
    with TestClient(app) as client:
        id = client.post("/reset").headers["x-paddock-session"]
        assert server.get_capacity_status().model_dump() == {"active_sessions": 1, "max_sessions": 2}
        info = server.get_session_info(id)
        assert (info.session_id, info.environment_type) == (id, "Marked")
        assert abs(info.last_activity_at - info.created_at) < 60.0
    assert server.active_sessions == 0


class Factory:
    """Makes environments when it is called."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self):
        return Marked(self.mark)


def local(mark):
    class Local(Marked):
        def __init__(self):
            super().__init__(mark)

    return Local


def without_file(mark):
    module = types.ModuleType("made_at_run_time")
    module.Marked = Marked
    exec(f"class Made(Marked):\n def __init__(self):\n  super().__init__({mark!r})", module.__dict__)
    sys.modules[module.__name__] = module
    return module.Made


@pytest.mark.process
@pytest.mark.parametrize(
    "make",
    [
        lambda mark: lambda: Marked(mark),
        lambda mark: functools.partial(Marked, mark=mark),
        lambda mark: Factory(mark).__call__,
        Factory,
        local,
        without_file,
    ],
    ids=["closure", "partial", "bound method", "instance", "local class", "module without a file"],
)
def test_anything_that_can_be_called_makes_environments(make):
    with TestClient(create_app(make("?"), *CLASSES)) as client:
        assert step(client, "a") == "a?"


@pytest.mark.process
def test_classes_of_records_may_be_local_too():
    class Word(worlds.Action):
        word: str

    class Reply(worlds.Observation):
        same: bool

    class Compares(worlds.EchoEnv):
        def step(self, action, timeout_s=None, **kwargs):
            return Reply(same=type(action) is Word)

    with TestClient(create_app(Compares, Word, Reply)) as client:
        assert client.get("/schema").json()["action"]["title"] == "Word"
        assert client.post("/step", json={"action": {"word": "a"}}).json()["observation"]["same"] is True


@pytest.mark.process
def test_classes_that_are_not_given_are_those_that_the_class_declares():
    with TestClient(create_app(worlds.made, None, None)) as client:
        assert client.get("/schema").json()["action"]["title"] == "EchoAction"
        assert step(client, "a") == "a"


@pytest.mark.peers
def test_a_fastmcp_server_in_a_closure_goes_along_with_its_tools():
    program = """
    import json
    from fastapi.testclient import TestClient
    from fastmcp import FastMCP
    from paddock.openenv import MCPEnvironment, Observation, create_app

    server = FastMCP("calculator")
    server.tool(lambda a, b: a + b, name="add", description="Adds.")

    class Calculator(MCPEnvironment):
        def __init__(self):
            super().__init__(server)
        def reset(self, **kwargs):
            return Observation()
        def _step_impl(self, action, **kwargs): ...
        @property
        def state(self): ...

    call = {"name": "add", "arguments": {"a": 1, "b": 4}}
    with TestClient(create_app(Calculator, None, None)) as client:
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "method": "tools/call", "params": call, "id": 1})
        print(json.dumps(answer.json()["result"]["content"][0]["text"]))
    """
    assert run_with_peer("openenv10", program) == "5"


@pytest.mark.process
def test_where_openenv_means_ours_it_does_in_workers_too(tmp_path):
    (tmp_path / "thing.py").write_text("""
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

class Env(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs): ...
    def step(self, action, timeout_s=None, **kwargs):
        return Observation(reward=4.0)
    @property
    def state(self): ...
""")
    (tmp_path / "main.py").write_text("""
import paddock.openenv
paddock.openenv.install()
import thing
from fastapi.testclient import TestClient
from openenv.core.env_server.http_server import create_app
for env in (thing.Env, lambda: thing.Env()):
    with TestClient(create_app(env, thing.Action, thing.Observation)) as client:
        print(client.post("/step", json={"action": {}}).json()["reward"])
""")
    done = subprocess.run([sys.executable, tmp_path / "main.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "4.0\n4.0\n"


def make_lonely() -> worlds.Lonely:
    return worlds.Lonely()


def make_untold():
    return worlds.Lonely()


@pytest.mark.parametrize("env", [worlds.Lonely, functools.partial(worlds.Lonely), make_lonely])
def test_several_sessions_need_a_class_that_allows_them(env):
    with pytest.raises(ConcurrencyConfigurationError, match="Lonely does not allow 2"):
        HTTPEnvServer(env, *CLASSES, max_concurrent_envs=2)
    assert not HTTPEnvServer(env, *CLASSES).is_concurrency_safe


def test_a_factory_that_does_not_say_what_it_makes_is_believed_and_never_called():
    assert HTTPEnvServer(make_untold, *CLASSES, max_concurrent_envs=2).is_concurrency_safe
    assert HTTPEnvServer(lambda: 1 / 0, *CLASSES, max_concurrent_envs=2).max_concurrent_envs == 2


def test_a_recorder_takes_what_is_served_and_the_application_is_inert():
    with recording() as servers:
        app = create_app(make_untold, *CLASSES, "a name", 3, state_cls=worlds.EchoState, gradio_builder=None)
        HTTPEnvServer(Marked, *CLASSES).register_routes(app)

        @app.get("/more")
        def more():
            return 5

        app.add_middleware(FastAPI, allow_origins=["*"])
        app.state.level = 4
        app.mount("/web", FastAPI())
        assert (more(), app.state.level, [route.path for route in app.routes]) == (5, 4, [])
    assert isinstance(app, InertApp)
    first, second = servers
    assert (first.env, first.env_name, first.max_concurrent_envs) == (make_untold, "a name", 3)
    assert (first.action_cls, first.observation_cls, first.state_cls) == (*CLASSES, worlds.EchoState)
    assert (first.reset_observation_cls, second.env_name) == (worlds.EchoObservation, "Marked")


@pytest.mark.process
def test_the_module_needs_fastapi_only_for_an_application():
    program = """
import sys
sys.modules["fastapi"] = None
from paddock.openenv.app import create_app, recording
from paddock.errors import DependencyNotInstalled
from paddock.openenv import State
with recording() as servers:
    create_app(dict, State, State)
try:
    create_app(dict, State, State)
except DependencyNotInstalled as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "create_app('dict') needs FastAPI: pip install fastapi\n"


@pytest.mark.process
def test_the_web_interface_is_not_ignored_in_silence(monkeypatch):
    with pytest.warns(UserWarning, match=r"gradio_builder, title_override has no effect\. .*paddock\.make"):
        app = create_app(Marked, *CLASSES, gradio_builder=print, title_override="T")
    with TestClient(app) as client:
        answer = client.get("/web/")
        assert (answer.status_code, answer.json()["detail"][:29]) == (501, "paddock has no web interface.")
        assert client.get("/web").status_code == 501
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "true")
    with pytest.warns(UserWarning, match="ENABLE_WEB_INTERFACE has no effect"):
        create_app(Marked, *CLASSES)


def test_an_isolation_without_a_wall_is_refused(monkeypatch):
    monkeypatch.setenv("PADDOCK_ISOLATION", "none")
    with pytest.raises(PlanError, match="has no wall"):
        create_app(Marked, *CLASSES)


# The same program with the real package and with ours.
WALK = """
import json, sys
from importlib import import_module
name = sys.argv[1] if len(sys.argv) > 1 else "openenv"
server = import_module(f"{name}.core.env_server.http_server")
types = import_module(f"{name}.core.env_server.types")
interfaces = import_module(f"{name}.core.env_server.interfaces")
from fastapi import FastAPI
from fastapi.testclient import TestClient

class Word(types.Action):
    word: str

class Env(interfaces.Environment):
    def reset(self, seed=None, episode_id=None, **kwargs):
        return types.Observation(metadata=kwargs)

    def step(self, action, timeout_s=None, request_id=None):
        if action.word == "crash":
            raise RuntimeError("it broke")
        return types.Observation(metadata={"word": action.word, "timeout_s": timeout_s, "request_id": request_id})

    @property
    def state(self):
        return types.State()

def records(app):
    found = {}
    with TestClient(app, raise_server_exceptions=False) as client:
        found["paths"] = sorted({route.path for route in app.routes} & {
            "/reset", "/step", "/state", "/metadata", "/health", "/schema", "/mcp", "/ws", "/list_environments",
            "/{env_name}/splits", "/{env_name}/tasks", "/docs", "/redoc", "/openapi.json"})
        for path in ("/health", "/list_environments", "/schema", "/docs"):
            found[path] = client.get(path).status_code
        found["names"] = client.get("/list_environments").json()
        for body in ({"word": "a"}, {"word": "crash"}, {"word": 1}):
            answer = client.post("/step", json={"action": body, "timeout_s": 3, "request_id": "r", "unknown": 1})
            found[str(body)] = answer.status_code, answer.json() if answer.status_code == 200 else None
        with client.websocket_connect("/mcp") as first:
            first.send_json({"jsonrpc": "2.0", "method": "openenv/session/create", "id": 1})
            first.receive_json()
            with client.websocket_connect("/mcp") as second:
                found["full"] = second.receive_json()
        found["openapi"] = app.openapi()["info"]["title"], "/mine" in app.openapi()["paths"]
    return found

def make():
    return Env()

def main():
    app = server.create_app(make, Word, types.Observation, env_name="a name (really)")
    app.get("/mine")(lambda: 1)
    production = server.create_fastapi_app(make, Word, types.Observation, mode="production")
    own = FastAPI()
    served = server.HTTPEnvServer(make, Word, types.Observation)
    served.register_routes(own)
    facts = served.active_sessions, served.max_concurrent_envs, served.get_capacity_status().available_slots
    print(json.dumps([records(app), [route.path for route in production.routes if route.path in ("/reset", "/step")],
        sorted({route.path for route in own.routes} & {"/reset", "/ws"}), facts]))

if __name__ == "__main__":
    main()
"""


@pytest.mark.peers
def test_the_real_package_gives_the_same_records(tmp_path):
    (tmp_path / "walk.py").write_text(WALK)
    done = subprocess.run(
        [sys.executable, tmp_path / "walk.py", "paddock.openenv"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert json.loads(done.stdout.splitlines()[-1]) == run_with_peer("openenv10", WALK)
