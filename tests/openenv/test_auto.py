"""AutoEnv and AutoAction with packages that are installed, and none that is not."""

import sys

import pytest

import paddock.openenv.auto_env as auto
from paddock.errors import PlanError
from paddock.openenv import AutoAction, AutoEnv, GenericAction, GenericEnvClient
from tests.openenv.scripted_server import ScriptedServer, echo

CLIENT = """
from paddock.openenv import GenericAction, GenericEnvClient
class {name}Env(GenericEnvClient): pass
class {name}Action(GenericAction): pass
"""


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """Two packages: one whose names follow the convention, and one whose manifest names them."""
    for module, name, manifest in (
        ("tall_tree_env", "TallTree", None),
        (
            "maze_env",
            "Maze",
            'spec_version: 1\nname: "maze_env"  # its name\ndescription: Find out.\naction: MazeAction\n',
        ),
    ):
        info = tmp_path / f"openenv_{module}-0.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: openenv-{module}\nVersion: 0.2\n")
        package = tmp_path / module
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "client.py").write_text(CLIENT.format(name=name))
        if manifest is not None:
            (package / "openenv.yaml").write_text(manifest)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("tall_tree_env", "maze_env")]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def space(monkeypatch):
    """No test reaches a Space; ``space`` is the URLs that were asked."""
    asked = []
    monkeypatch.setattr(auto, "is_healthy", lambda url, timeout_s: asked.append(url) or False)
    return asked


class Containers:
    def __init__(self, url, failure=None):
        self.url, self.failure, self.calls = url, failure, []

    def start_container(self, image, port=None, env_vars=None):
        self.calls.append((image, port, env_vars))
        return self.url

    def wait_for_ready(self, base_url, timeout_s=30.0):
        self.calls.append(timeout_s)
        if self.failure:
            raise self.failure

    def stop_container(self):
        self.calls.append("stop")


def test_installed_packages_are_described_without_importing_them(capsys):
    assert AutoEnv.get_env_info("maze") == {
        "env_key": "maze",
        "name": "maze_env",
        "package": "openenv-maze_env",
        "version": "0.2",
        "description": "Find out.",
        "env_class": "MazeEnv",
        "action_class": "MazeAction",
        "observation_class": "MazeObservation",
        "module": "maze_env.client",
        "default_image": "maze-env:latest",
        "spec_version": 1,
    }
    assert AutoAction.get_action_info("tall-tree")["action_class"] == "TallTreeAction"
    AutoEnv.list_environments()
    AutoAction.list_actions()
    printed = capsys.readouterr().out
    assert "maze           : Find out. (v0.2), package openenv-maze_env" in printed
    assert "tall_tree      : TallTreeAction" in printed
    assert not {"maze_env", "tall_tree_env"} & sys.modules.keys()


@pytest.mark.parametrize("name", ["tall_tree", "tall-tree", "tall-tree-env", "tall_tree_env", "org/tall-tree-env"])
def test_the_classes_are_found_by_each_form_of_the_name(name):
    assert AutoEnv.get_env_class(name).__name__ == "TallTreeEnv"
    assert AutoAction.from_env(name) is AutoAction.from_hub(name)
    assert AutoAction.from_env(name).__name__ == "TallTreeAction"


def test_a_class_that_is_not_there_is_an_import_error():
    with pytest.raises(ImportError, match="maze_env.client gives no MazeObservation"):
        auto.discover()["maze"].get_observation_class()


def test_a_name_that_is_not_installed_is_suggested():
    with pytest.raises(
        ValueError, match=r"Unknown environment 'mase'. Did you mean: maze\? Available.*maze, tall_tree"
    ):
        AutoEnv.from_env("mase")
    with pytest.raises(ValueError, match="Unknown environment"):
        AutoAction.from_env("nothing")


@pytest.mark.parametrize("name", ["org/strange", "https://huggingface.co/spaces/org/strange"])
def test_nothing_is_installed_from_a_hub(name):
    for call in (AutoEnv.from_env, AutoEnv.from_hub, AutoAction.from_env):
        with pytest.raises(PlanError, match=r"(?s)would install.*skip_install=True.*paddock\.make\('\./folder'\)"):
            call(name)
    with pytest.raises(PlanError, match="whatever trust_remote_code= says"):
        AutoEnv.from_env(name, trust_remote_code=True)


def test_a_server_is_reached_with_the_environments_own_client():
    with ScriptedServer(echo) as server, AutoEnv.from_env("maze", server.url, message_timeout_s=9.0) as env:
        assert type(env).__name__ == "MazeEnv"
        assert env.reset().observation["value"][0] == "reset"


def test_a_container_is_started_and_stopped_with_the_client():
    with ScriptedServer(echo) as server:
        provider = Containers(server.url)
        made = AutoEnv.from_env("maze", container_provider=provider, wait_timeout=7.0, env_vars={"A": "1"}, port=5)
        with made as env:
            env.reset()
        assert provider.calls == [("maze-env:latest", 5, {"A": "1"}), 7.0, "stop"]


def test_a_container_that_does_not_become_ready_is_stopped():
    provider = Containers("http://127.0.0.1:1", failure=TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        AutoEnv.from_env("maze", docker_image="mine:1", container_provider=provider)
    assert (provider.calls[0][0], provider.calls[-1]) == ("mine:1", "stop")


def test_a_server_of_this_machine_that_is_not_there_is_started_and_one_elsewhere_is_an_error(monkeypatch):
    with ScriptedServer(echo) as server:
        provider = Containers(server.url)
        AutoEnv.from_env("maze", "http://127.0.0.1:1", container_provider=provider).close()
        assert provider.calls[0][0] == "maze-env:latest"
    monkeypatch.setattr(auto, "_answers", lambda url: False)
    with pytest.raises(ConnectionError, match=r"Server not available at envs\.example\.org\."):
        AutoEnv.from_env("maze", "https://TOKEN@envs.example.org")


def test_without_installing_the_generic_client_talks_to_anything(space):
    with ScriptedServer(echo) as server:
        with AutoEnv.from_env("nothing", server.url, skip_install=True) as env:
            assert type(env) is GenericEnvClient
            env.reset()
        provider = Containers(server.url)
        AutoEnv.from_env("Org/My_Env", container_provider=provider, skip_install=True).close()
        assert provider.calls[0][0] == "registry.hf.space/org-my-env:latest"
        AutoEnv.from_env("x", docker_image="mine:1", container_provider=provider, skip_install=True).close()
        assert provider.calls[3][0] == "mine:1"
    assert space == ["https://org-my-env.hf.space"]
    assert AutoAction.from_env("org/strange", skip_install=True) is GenericAction


def test_without_installing_a_place_is_needed():
    with pytest.raises(ValueError, match="base_url= or docker_image="):
        AutoEnv.from_env("nothing", skip_install=True)
    with pytest.raises(ConnectionError, match="Server not available"):
        AutoEnv.from_env("nothing", "http://127.0.0.1:1", skip_install=True)


def test_the_factories_are_not_made():
    for factory in (AutoEnv, AutoAction):
        with pytest.raises(TypeError, match="factory class"):
            factory()


def test_a_space_that_answers_is_used(monkeypatch):
    monkeypatch.setattr(auto, "is_healthy", lambda url, timeout_s: True)
    monkeypatch.setattr(auto, "_answers", lambda url: True)
    assert AutoEnv.from_env("org/strange", skip_install=True).base_url == "https://org-strange.hf.space"
