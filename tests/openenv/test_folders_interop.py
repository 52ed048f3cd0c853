"""The same folders served by OpenEnv's own server and by paddock: every client gets the same records from both."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import paddock
from paddock.package.dependencies import find_wanted, install
from paddock.package.openenv import read_openenv
from tests.openenv.folder_plays import FOLDERS, PLAYS, SEED, play
from tests.peers import ROOT, run_with_peer
from tests.serving import serving

pytestmark = [pytest.mark.peers, pytest.mark.process]

# Each app under uvicorn, on a port of its own, in one process: importing the real package takes seconds.
SERVERS = """
import asyncio, importlib, json, socket, sys
import uvicorn
apps = {name: importlib.import_module(f"{name}.server.app").app for name in sys.argv[1:]}
socks = {name: socket.create_server(("127.0.0.1", 0)) for name in apps}

async def main():
    configs = {name: uvicorn.Config(app, log_level="error") for name, app in apps.items()}
    servers = [uvicorn.Server(config).serve([socks[name]]) for name, config in configs.items()]
    print(json.dumps({name: f"http://127.0.0.1:{one.getsockname()[1]}" for name, one in socks.items()}), flush=True)
    await asyncio.gather(*servers)

asyncio.run(main())
"""

# Each folder's own client, with the real package, on both servers.
CLIENTS = """
import importlib, json, sys
from openenv.core import EnvClient
sys.path.insert(0, FOLDERS)

def record(result):
    fields = result.observation if isinstance(result.observation, dict) else result.observation.model_dump(mode="json")
    hidden = ("reward", "done", "metadata")
    return [{name: one for name, one in fields.items() if name not in hidden}, result.reward, result.done]

def play(name, url, actions):
    package, models = importlib.import_module(name), importlib.import_module(f"{name}.models")
    client = next(one for one in vars(package).values() if isinstance(one, type) and issubclass(one, EnvClient))
    action = next(one for key, one in vars(models).items() if key.endswith("Action") and key != "Action")
    with client(base_url=url).sync() as env:
        tools = [tool.model_dump() for tool in env.list_tools()] if hasattr(client, "list_tools") else []
        records = [record(env.reset(seed=SEED)), *(record(env.step(action(**one))) for one in actions)]
        state = env.state()
    state = state if isinstance(state, dict) else state.model_dump(mode="json")
    return {"tools": tools, "records": records, "state": {**state, "episode_id": type(state["episode_id"]).__name__}}

print(json.dumps({name: [play(name, url, PLAYS[name]) for url in urls] for name, urls in URLS.items()}))
"""


@contextmanager
def real_servers():
    """The URL of each folder's app under the real package."""
    made = subprocess.run([ROOT / "scripts" / "peer", "openenv10"], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    variables = [read_openenv(FOLDERS / name).variables for name in PLAYS]
    environment = {**os.environ, **{key: text for one in variables for key, text in one.items()}}
    environment["PYTHONPATH"] = str(FOLDERS)
    command = [made.stdout.strip(), "-c", SERVERS, *PLAYS]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=environment)
    try:
        line = server.stdout.readline()
        assert line, "the servers did not start"
        yield json.loads(line)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture(scope="module")
def cache():
    """Where the folders' dependencies are; they are installed once, as the peers are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PADDOCK_CACHE", str(ROOT / ".peers" / "cache"))
        install(find_wanted(FOLDERS / "echo_env"))
        yield


@pytest.fixture(scope="module")
def both(cache):
    """By folder: its URL at the real server, and at ours."""
    with real_servers() as real, serving(*(FOLDERS / name for name in PLAYS)) as server:
        token = f"x:{server.token}"
        yield {name: (real[name], server.with_token(f"/{name}", token)) for name in PLAYS}


@pytest.fixture(scope="module")
def stock(both):
    """By folder: what its own client saw at the real server, and at ours."""
    values = {"FOLDERS": repr(str(FOLDERS)), "PLAYS": repr(PLAYS), "SEED": repr(SEED), "URLS": repr(both)}
    program = "".join(f"{name} = {text}\n" for name, text in values.items()) + CLIENTS
    return run_with_peer("openenv10", program)


@pytest.mark.parametrize("name", PLAYS)
def test_stock_client_gets_the_same_from_both_servers(stock, name):
    real, ours = stock[name]
    assert ours == real


@pytest.mark.parametrize("name", PLAYS)
def test_make_gets_what_the_stock_client_gets(stock, both, name):
    expected = _comparable(stock[name][0]["records"])
    for target in (FOLDERS / name, *both[name]):
        with paddock.make(target) as env:
            assert _comparable(play(env, PLAYS[name])) == expected, f"make({target})"


def test_real_package_is_used_where_it_is_installed():
    """In the worker too: what its HTTPEnvServer is given is recorded."""
    program = """
    import json, sys, paddock
    from tests.openenv.folder_plays import FOLDERS, PLAYS, play
    with paddock.make(FOLDERS / "typed_env") as env:
        print(json.dumps(play(env, PLAYS["typed_env"])))
    """
    with paddock.make(FOLDERS / "typed_env") as env:
        assert run_with_peer("openenv10", program) == play(env, PLAYS["typed_env"])


def _comparable(records):
    """Without what make() has no room for: the reward of a reset, and a step's reward of None, which is 0."""
    return [[fields, number and (reward or 0.0), done] for number, (fields, reward, done) in enumerate(records)]
