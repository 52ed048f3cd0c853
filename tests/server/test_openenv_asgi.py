"""``create_app`` under uvicorn, as OpenEnv's users run it: the same code with another import line, or with none."""

import json
import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import pytest

from paddock.server import asgi
from paddock.server.auth import AddressRates, OriginCheck
from paddock.server.http_api import HttpApi
from paddock.server.service import Service
from paddock.server.settings import Settings
from tests.openenv.capture import EXCHANGES
from tests.openenv.golden import golden, plain
from tests.peers import ROOT, run_with_peer
from tests.server.paddock_serve import exchange
from tests.server.raw_peers import Peer
from tests.server.serving import wait_until

# As `openenv init` lays a project out, run in its own folder: `models` and `helper` lie beside the package `server`.
PROJECT = {
    "models.py": """
        from paddock.openenv import Action, Observation

        class Guess(Action):
            number: int

        class Hint(Observation):
            text: str = ""
        """,
    "helper.py": """
        def compare(a, b):
            return "higher" if a < b else "lower" if a > b else "found"
        """,
    "server/__init__.py": "",
    "server/environment.py": """
        from helper import compare
        from models import Guess, Hint
        from paddock.openenv import Environment, State

        class Guessing(Environment):
            SUPPORTS_CONCURRENT_SESSIONS = True

            def __init__(self):
                super().__init__()
                self._state = State()

            def reset(self, seed=None, episode_id=None, **kwargs):
                self._state = State(episode_id=episode_id, step_count=0)
                return Hint(text="guess")

            def step(self, action, timeout_s=None, **kwargs):
                self._state.step_count += 1
                text = compare(action.number, 7)
                return Hint(text=text, reward=float(text == "found"), done=text == "found")

            @property
            def state(self):
                return self._state
        """,
    "server/app.py": """
        from models import Guess, Hint
        from paddock.openenv import create_app
        from server.environment import Guessing

        app = create_app(Guessing, Guess, Hint, env_name="guessing", max_concurrent_envs=2)
        """,
    "server/small.py": """
        from paddock.openenv import Action, Environment, Observation, State, create_app

        class Count(Environment):
            def reset(self, seed=None, episode_id=None, **kwargs):
                return Observation()

            def step(self, action, timeout_s=None, **kwargs):
                return Observation(reward=1.0)

            @property
            def state(self):
                return State(episode_id="own")

        app = create_app(Count, Action, Observation)
        """,
}

RUN = """
import importlib, socket, sys
import uvicorn
module, lifespan = sys.argv[1:]
app = importlib.import_module(module).app
sock = socket.create_server(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan=lifespan)).run(sockets=[sock])
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    return folder


@contextmanager
def uvicorn(folder, module="server.app", *, python=sys.executable, lifespan="on", **variables):
    """The port of a server that uvicorn runs in this folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PADDOCK_")}
    environment["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{folder}"
    server = subprocess.Popen(
        [python, "-c", RUN, module, lifespan],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, **variables},
        cwd=folder,
    )
    try:
        port = server.stdout.readline().strip()
        assert port, server.stderr.read()
        yield int(port)
    finally:
        server.terminate()
        _, errors = server.communicate(timeout=30)
    # Of the server's own, that is: what an environment printed stands in records of the log.
    assert not [line for line in errors.splitlines() if line.startswith("Traceback")], errors


def ask(port, method, path, body=b"", token=None, **headers):
    with Peer(("127.0.0.1", port), token=token, timeout=60.0) as peer:
        return peer.ask(method, path, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@contextmanager
def socket(port, path="/ws", **options):
    with Peer(("127.0.0.1", port), timeout=60.0) as peer:
        assert peer.upgrade(path, **options).status == 101
        yield peer


@pytest.mark.process
def test_a_project_runs_by_its_import_line(project):
    with uvicorn(project) as port:
        assert ask(port, "GET", "/health").json == {"status": "healthy"}
        assert ask(port, "GET", "/list_environments").json == ["guessing"]
        assert "number" in ask(port, "GET", "/schema").json["action"]["properties"]
        first = ask(port, "POST", "/reset", b'{"episode_id":"e"}')
        id = first.headers["x-paddock-session"]
        found = ask(port, "POST", "/step", b'{"action":{"number":7}}', x_paddock_session=id).json
        assert (found["observation"]["text"], found["reward"], found["done"]) == ("found", 1.0, True)
        with socket(port) as peer:
            exchange(peer, '{"type":"reset"}')
            hint = json.loads(exchange(peer, '{"type":"step","data":{"number":3}}'))["data"]
            assert hint["observation"]["text"] == "higher"
            assert json.loads(exchange(peer, '{"type":"state"}'))["data"]["step_count"] == 1
            assert (
                json.loads(exchange(peer, '{"type":"step","data":{"number":"x"}}'))["data"]["code"]
                == "VALIDATION_ERROR"
            )
            peer.frame(1, b'{"type":"close"}')
            assert peer.message()[0] == 8


@pytest.mark.process
def test_an_environment_in_the_module_of_its_application_and_without_lifespan(project):
    with uvicorn(project, "server.small", lifespan="off") as port, socket(port) as peer:
        assert json.loads(exchange(peer, '{"type":"step","data":{}}'))["data"]["reward"] == 1.0
        with socket(port) as late:  # OpenEnv's default is one session
            assert json.loads(late.message()[1])["data"]["code"] == "CAPACITY_REACHED"


@pytest.mark.process
def test_a_token_is_asked_for_where_one_is_set(project):
    token = "0123456789abcdef"
    with uvicorn(project, PADDOCK_TOKEN=token) as port:
        assert ask(port, "GET", "/health").status == 200
        assert ask(port, "GET", "/schema").status == 401
        assert ask(port, "GET", "/schema", token=token).status == 200
        with Peer(("127.0.0.1", port)) as peer:
            assert peer.upgrade("/ws").status == 401
        with Peer(("127.0.0.1", port)) as peer:  # without a token its body is not waited for
            peer.send(peer.head("POST", "/reset", {"content-length": "1000"}))
            assert peer.answer().status == 401
        with socket(port, headers={"authorization": f"Bearer {token}"}) as peer:
            assert json.loads(exchange(peer, '{"type":"reset"}'))["type"] == "observation"


def test_headers_that_say_two_things_have_a_rate(monkeypatch):
    api = HttpApi(Service([], Settings()), OriginCheck.for_bind("127.0.0.1"), None)
    monkeypatch.setattr(api, "_open_asks", AddressRates(0.1, 2))
    scope = {"headers": [(b"host", b"localhost"), (b"host", b"evil.example")], "client": ("192.0.2.1", 80)}
    assert [asgi._request(api, scope).status for _ in range(3)] == [400, 400, 429]


@pytest.mark.process
def test_other_names_and_pages_are_refused(project):
    with uvicorn(project, PADDOCK_ALLOW_HOSTS="env.example, other.example") as port:
        assert ask(port, "GET", "/schema", host="env.example:8000").status == 200
        assert ask(port, "GET", "/schema", host="10.1.2.3:8000").status == 200
        assert ask(port, "GET", "/schema", host="evil.example").status == 403
        assert ask(port, "GET", "/schema", origin="http://evil.example").status == 403
        with Peer(("127.0.0.1", port)) as peer:
            assert peer.upgrade("/ws", {"origin": "http://evil.example"}).status == 403
    with uvicorn(project) as port:
        assert ask(port, "GET", "/schema", host="env.example").status == 403
        assert ask(port, "GET", "/schema", host="10.1.2.3").status == 403


@pytest.mark.process
def test_another_wall_is_chosen_by_a_variable(project):
    with uvicorn(project, PADDOCK_ISOLATION="landlock") as port, socket(port) as peer:
        assert json.loads(exchange(peer, '{"type":"reset"}'))["type"] == "observation"
    with pytest.raises(AssertionError, match="has no wall"), uvicorn(project, PADDOCK_ISOLATION="none"):
        pass


@pytest.mark.process
def test_who_goes_away_takes_its_session_along(project):
    with uvicorn(project) as port:
        for request in ((b"POST", b"/step", b'{"action":{"number":1}}'), (b"POST", b"/reset", b"{}")):
            with Peer(("127.0.0.1", port)) as peer:
                peer.send(peer.head(request[0].decode(), request[1].decode(), None, request[2]) + request[2])
        with socket(port) as peer:
            exchange(peer, '{"type":"reset"}')
        wait_until(lambda: ask(port, "GET", "/sessions").json == {"sessions": []}, 30.0)


@pytest.mark.process
def test_production_is_chosen_by_openenvs_variable(project):
    with uvicorn(project, OPENENV_MODE="production") as port:
        assert ask(port, "POST", "/reset").status == 404
        with socket(port) as peer:
            assert json.loads(exchange(peer, '{"type":"reset"}'))["data"]["code"] == "EXECUTION_ERROR"


@pytest.mark.process
def test_the_native_wire_is_there_too(project):
    import paddock

    with uvicorn(project) as port:
        env = paddock.make(f"http://127.0.0.1:{port}/guessing")
        try:
            env.reset()
            observation, reward, terminated, _, _ = env.step({"number": 7})
            assert (observation["text"], reward, terminated) == ("found", 1.0, True)
        finally:
            env.close()


REAL = """
from paddock.openenv import create_app
from tests.openenv import worlds
assert worlds.API.startswith("openenv.")
app = create_app(worlds.EchoEnv, worlds.EchoAction, worlds.EchoObservation, state_cls=worlds.EchoState)
"""


@pytest.mark.peers
@pytest.mark.parametrize("peer_name", ["openenv10", "openenv03"])
def test_an_environment_of_the_real_package_is_served_unchanged(peer_name, tmp_path):
    (tmp_path / "real_app.py").write_text(REAL)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    made = subprocess.run([ROOT / "scripts" / "peer", peer_name], capture_output=True, text=True, check=True)
    with uvicorn(tmp_path, "real_app", python=made.stdout.strip()) as port:
        with socket(port) as peer:
            ours = plain([exchange(peer, text) for text in EXCHANGES])
        for asked, mine, theirs in zip(EXCHANGES, ours, plain(golden("0.10")["frames"]), strict=True):
            if '"crash"' not in asked:
                assert (asked, mine) == (asked, theirs)
        schemas = run_with_peer(
            peer_name,
            """
            import json
            from tests.openenv import worlds
            classes = worlds.EchoAction, worlds.EchoObservation, worlds.EchoState
            print(json.dumps([one.model_json_schema() for one in classes]))
            """,
        )
        shown = ask(port, "GET", "/schema").json
        assert [shown["action"], shown["observation"], shown["state"]] == schemas
