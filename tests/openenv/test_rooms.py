"""OpenEnv's rubrics, models, evals, harness and tools: the same calls give the same records as the real package."""

import importlib.util
import json
from pathlib import Path

import pytest

import paddock.openenv
from paddock.errors import UnsupportedMode
from paddock.openenv.core.env_server.web_interface import WebInterfaceManager, create_web_interface_app
from paddock.openenv.core.llm_client import AnthropicClient, OpenAIClient
from paddock.openenv.core.tools import GitServerClient, PyExecutor
from tests.openenv import rooms, worlds
from tests.peers import run_with_peer

GOLDEN = json.loads((Path(__file__).parent / "rooms_0_10.json").read_text())


NEED_FASTMCP = {"harness_environments", "bridges"}  # the peer has it: see the tests below


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    for name in ("anthropic", "inspect_ai"):  # a room puts fakes there
        monkeypatch.delitem(rooms.sys.modules, name, raising=False)
    monkeypatch.setattr(rooms.FakeSDK, "calls", [])
    paddock.openenv.install()
    yield
    paddock.openenv.uninstall()
    vars(importlib.import_module("paddock.openenv.llm_client")).pop("AsyncOpenAI", None)


@pytest.mark.process
@pytest.mark.parametrize("name", sorted(rooms.ROOMS.keys() - NEED_FASTMCP))
def test_the_same_calls_give_the_same_records(name):
    assert [rooms.plain(one) for one in rooms.ROOMS[name]()] == GOLDEN[name]


@pytest.mark.peers
def test_recorded_answers_are_those_of_the_real_package():
    real = run_with_peer(
        "openenv10", "import json; from tests.openenv import rooms; print(json.dumps(rooms.records()))"
    )
    assert real == GOLDEN


@pytest.mark.peers
def test_answers_are_the_same_beside_the_real_package():
    program = """
    import json
    import paddock.openenv
    from tests.openenv import rooms
    paddock.openenv.install()
    print(json.dumps(rooms.records()))
    """
    ours = run_with_peer("openenv10", program)
    assert [name for name in GOLDEN if ours[name] != GOLDEN[name]] == []


@pytest.mark.parametrize("client", [OpenAIClient, AnthropicClient])
def test_missing_package_of_a_vendor_is_named_with_its_command(client, monkeypatch):
    package = client.__name__.removesuffix("Client").lower()
    monkeypatch.setitem(rooms.sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{client.__name__} requires .*: pip install {package}$"):
        client("http://localhost", 1, "m")


def test_a_password_in_an_endpoint_is_not_quoted():
    with pytest.raises(ValueError, match=r"\*\*\*@host") as caught:
        OpenAIClient("http://me:secret@host", 1, "m")
    assert "secret" not in str(caught.value)


@pytest.mark.process
def test_code_runs_in_a_workspace_not_here():
    executor = PyExecutor(["math"])
    ran = executor.run("import os, sys; x = 1; print(os.getpid()); print('why', file=sys.stderr); sys.exit(3)")
    assert int(ran.stdout) != rooms.os.getpid()
    assert (ran.stderr, ran.exit_code) == ("why\n", 3)
    ran = executor.run("print(x)")
    assert ran.exit_code == 1 and "NameError" in ran.stderr  # each run is a program of its own


@pytest.mark.process
@pytest.mark.parametrize("name", ["../outside", "/etc"])
def test_git_stays_in_its_workspace(tmp_path, name):
    client = GitServerClient("http://localhost:3000", "me", "secret", str(tmp_path / "work"))
    client.is_ready = True
    for call in (
        lambda: client.clone_to_workspace("it", target_dir=name),
        lambda: client.reset_workspace(name),
        lambda: client.execute_git_command("status", name),
    ):
        with pytest.raises(ValueError, match="leads out of the workspace"):
            call()


def test_web_page_is_refused_in_words():
    with pytest.raises(UnsupportedMode, match="no web interface"):
        WebInterfaceManager(worlds.EchoEnv, worlds.EchoAction, worlds.EchoObservation)
    with pytest.warns(UserWarning, match="create_web_interface_app is create_app"):
        app = create_web_interface_app(worlds.EchoEnv, worlds.EchoAction, worlds.EchoObservation, "echo")
    assert type(app) is type(paddock.openenv.create_app(worlds.EchoEnv, worlds.EchoAction, worlds.EchoObservation))
