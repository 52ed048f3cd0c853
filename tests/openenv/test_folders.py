"""Folders in OpenEnv's shape: made and served behind the wall as they are, and nothing of them runs outside it."""

import io
import json
import os
import sys

import pytest

import paddock
from paddock.cli import main
from paddock.errors import DependencyNotInstalled, EnvFailed, InvalidId, PlanError
from paddock.making import locate
from paddock.package.dependencies import find_wanted
from paddock.sandbox.policy import Policy
from tests.openenv.folder_plays import FOLDERS, PLAYS, play
from tests.serving import serving

HOSTILE = """
import os
open({canary!r}, "w").write(os.environ.get("A_SECRET", "not seen"))
from openenv.core.env_server import create_app
from server.small import Small
from openenv.core.env_server.types import Action, Observation
app = create_app(Small, Action, Observation)
"""
SMALL = """
import os
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

class Small(Environment):
    def reset(self, seed=None, **kwargs) -> Observation:
        return Observation(metadata={"secret": os.environ.get("A_SECRET"), "own": os.environ.get("OWN")})

    def step(self, action: Action, **kwargs) -> Observation:
        return Observation(done=True)

    @property
    def state(self) -> State:
        return State()
"""
YAML = "spec_version: 1\nname: small\napp: server.app:app\n"


@pytest.fixture
def folder(tmp_path):
    """``folder(app, ...)``: one with this server/app.py and other files by path."""

    def write(app, **files):
        place = tmp_path / "small_env"
        texts = {
            "openenv.yaml": YAML,
            "server/__init__.py": "",
            "server/app.py": app,
            "server/small.py": SMALL,
            **files,
        }
        for name, text in texts.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        return place

    return write


@pytest.mark.process
@pytest.mark.parametrize("name", sorted(set(PLAYS) - {"echo_env"}))  # which needs fastmcp: test_folders_interop
def test_folder_is_made_behind_the_wall(name):
    with paddock.make(FOLDERS / name) as env:
        records = play(env, PLAYS[name])
    assert env.spec.id == name
    assert len(records) == len(PLAYS[name]) + 1
    assert any(reward for _, reward, _ in records) or name == "chat_env"


@pytest.mark.process
def test_two_folders_with_modules_of_the_same_names():
    with paddock.make(FOLDERS / "maze_env") as maze, paddock.make(FOLDERS / "typed_env") as typed:
        assert maze.reset(seed=0)[0]["goal"] == [4, 4]  # by the manifest's variable MAZE_SIZE
        assert typed.reset()[0]["open_tables"] == [[1, 2], [3]]


@pytest.mark.process
def test_folder_in_lanes():
    with paddock.make(FOLDERS / "word_env", num_envs=2) as lanes:
        observations, _ = lanes.reset(seed=1)
        assert len(observations) == 2


@pytest.mark.process
def test_folder_is_served_with_its_name():
    with serving(FOLDERS / "maze_env", FOLDERS / "word_env") as server:
        assert server.environments == ["maze_env", "word_env"]
        with paddock.make(server.with_token("/maze_env")) as env:
            served = play(env, PLAYS["maze_env"])
    with paddock.make(FOLDERS / "maze_env") as env:
        assert served == play(env, PLAYS["maze_env"])


def test_port_of_the_manifest_is_the_default(monkeypatch):
    ports = []
    monkeypatch.setattr("paddock.server.listener.run", lambda _served, settings, *_, **__: ports.append(settings.port))
    for words in (["maze_env"], ["maze_env", "--port", "9000"], ["word_env"]):
        assert main(["serve", str(FOLDERS / words[0]), *words[1:]]) == 0
    assert ports == [8017, 9000, 8000]


class Terminal(io.StringIO):
    """Someone who types."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("words", "stdin", "code", "installs"),
    [
        pytest.param([], Terminal("y\n"), 0, 1, id="agreed"),
        pytest.param([], Terminal("\n"), 2, 0, id="not agreed"),
        pytest.param([], io.StringIO("y\n"), 2, 0, id="nobody to ask"),
        pytest.param(["--yes"], io.StringIO(), 0, 1, id="asked before"),
    ],
)
def test_install_says_what_and_asks(monkeypatch, capsys, tmp_path, words, stdin, code, installs):
    installed = []
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path))
    monkeypatch.setattr("paddock.package.dependencies.install", installed.append)
    monkeypatch.setattr("paddock.server.listener.run", lambda *_, **__: None)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["serve", str(FOLDERS / "echo_env"), "--install", *words]) == code
    said = capsys.readouterr().err
    assert "fastmcp>=3,<4" in said
    assert "stands for them: openenv" in said
    assert len(installed) == installs


@pytest.mark.process
def test_installed_libraries_are_seen_by_this_folder_only(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path / "cache"))
    place = folder("import tiny\n" + HOSTILE.format(canary="/tmp/own"), **{"requirements.txt": "tiny\n"})
    libraries = find_wanted(place).place
    libraries.mkdir(parents=True)
    (libraries / "tiny.py").write_text("")
    with paddock.make(place) as env:
        env.reset()
    (place / "requirements.txt").write_text("tiny>1\n")
    with pytest.raises(DependencyNotInstalled, match="'tiny'"):
        paddock.make(place)


def test_explain_shows_the_call_and_the_variables(capsys):
    assert main(["explain", str(FOLDERS / "maze_env")]) == 0
    said = capsys.readouterr().out
    assert "partial(MazeEnvironment, SIZE, goal_reward=REWARD)" in said
    assert "MAZE_SIZE='5'" in said


def test_web_interface_that_a_folder_asks_for_is_warned_of(folder):
    call = "create_app(Small, Action, Observation, None, None, None, print, title_override='T', custom_tab_name=None)"
    with pytest.warns(UserWarning, match=r"small_env: create_app's gradio_builder, title_override has no effect\. "):
        locate(folder(f"app = {call}\n"))


@pytest.mark.process
@pytest.mark.parametrize("command", ["locate", "explain", "permissions", "serve", "make"])
def test_app_has_no_effect_outside_the_wall(folder, tmp_path, monkeypatch, capsys, command):
    monkeypatch.setenv("A_SECRET", "hunter2")
    canary = tmp_path / "canary"
    place = folder(HOSTILE.format(canary=str(canary)))
    modules = set(sys.modules)
    if command == "locate":
        assert locate(place).id == "small"
    elif command == "make":
        with pytest.raises(EnvFailed, match="canary"), paddock.make(place) as env:
            env.reset()
    elif command == "serve":
        monkeypatch.setattr("paddock.server.listener.run", lambda served, *_, **__: served[0].describe())
        assert main(["serve", str(place)]) != 0
    else:
        assert main([command, str(place)]) == 0
    assert not canary.exists()
    assert not {name for name in set(sys.modules) - modules if name.partition(".")[0] in ("server", "openenv")}


@pytest.mark.process
def test_only_variables_of_the_manifest_are_seen(folder, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    app = HOSTILE.format(canary="/tmp/own")  # a scratch folder behind the wall
    with paddock.make(folder(app, **{"openenv.yaml": f"{YAML}variables:\n  OWN: 'it''s'\n"})) as env:
        assert env.reset()[0]["metadata"] == {"secret": None, "own": "it's"}
    assert "OWN" not in os.environ


@pytest.mark.process
def test_missing_dependency_is_named(folder):
    with pytest.raises(DependencyNotInstalled, match=r"'no_such_library'.*--install"):
        paddock.make(folder("import no_such_library.part\n"))


@pytest.mark.process
def test_first_real_error_is_reported(folder):
    """As a module of the package it gets further than as a module of the folder."""
    app = "try:\n    from ..models import A\nexcept ImportError:\n    from models import A\n"
    with pytest.raises(DependencyNotInstalled, match="'no_such_library'"):
        paddock.make(folder(app, **{"__init__.py": "", "models.py": "import no_such_library\nA = 1\n"}))


@pytest.mark.process
def test_folder_whose_name_is_no_module(folder, tmp_path):
    app = (
        "from .small import Small\nfrom ..models import A, create_app, Observation\ncreate_app(Small, A, Observation)\n"
    )
    models = "from openenv.core.env_server import Action as A, Observation, create_app\n"
    place = folder(app, **{"openenv.yaml": "name: 'a b'\n", "models.py": models}).rename(tmp_path / "my env-2")
    with paddock.make(place) as env:
        assert env.spec.id == "a-b"


def test_path_that_begins_like_an_id(monkeypatch):
    monkeypatch.chdir(FOLDERS.parents[1])
    with pytest.raises(InvalidId, match=r"Did you mean \./openenv/folders/maze_env\?"):
        locate("openenv/folders/maze_env")


@pytest.mark.process
def test_app_that_makes_no_environment(folder):
    with pytest.raises(paddock.errors.InvalidSpec, match="create_app"):
        paddock.make(folder("app = None\n"))


@pytest.mark.process
def test_classes_of_a_manifest_without_an_app(folder):
    yaml = "name: small\naction: SmallAction\nobservation: Observation\n"
    models = "from core.env_server.types import Action, Observation\nclass SmallAction(Action):\n    go: int\n"
    place = folder("", **{"openenv.yaml": yaml, "models.py": models})
    (place / "server" / "app.py").unlink()
    with paddock.make(place) as env:
        assert json.loads(env.unwrapped.metadata["openenv"]["schemas"]["action"])["title"] == "SmallAction"


@pytest.mark.process
def test_paddock_manifest_wins(folder):
    toml = '[package]\nname = "own"\nversion = "1"\n[[env]]\nid = "Own-v0"\nentry = "own:Own"\n'
    assert locate(folder("", **{"paddock.toml": toml, "own.py": ""})).id == "Own-v0"


def test_install_is_for_folders_with_a_manifest(capsys):
    with pytest.raises(PlanError, match="folders with a manifest, and 'CartPole-v1'"):
        paddock.make("CartPole-v1", install=True)
    assert main(["serve", "CartPole-v1", "--install"]) == 2
    assert "none of the targets is one" in capsys.readouterr().err


def test_no_wall_at_all_is_refused():
    with pytest.raises(PlanError, match="isolation='process'"):
        paddock.make(FOLDERS / "maze_env", isolation="none")


@pytest.mark.process
def test_process_and_policy():
    for isolation in ("process", Policy(memory_mb=1024)):
        with paddock.make(FOLDERS / "maze_env", isolation=isolation) as env:
            assert env.reset(seed=0)[0]["goal"] == [4, 4]
