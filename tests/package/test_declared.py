"""What a package or a folder declares is compared with what its environment has when it is made."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import paddock
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import DependencyNotInstalled, EnvironmentViolation, PlanError
from paddock.package import dependencies, store
from paddock.package.pad import pack, sign
from paddock.sandbox.promises import holds
from paddock.spaces import Discrete
from paddock.spaces.json_form import to_json
from tests.package.signed import OWNER, trust, write_folder

DECLARED = {"observation": to_json(Discrete(5)), "action": to_json(Discrete(2))}


@pytest.fixture(autouse=True)
def trusting(home, monkeypatch, tmp_path):
    """No module of another test's package, and no dependencies but those beside paddock."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not Path(place, "maze_env.py").exists()])
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path / "cache"))
    sys.modules.pop("maze_env", None)
    trust()
    yield
    sys.modules.pop("maze_env", None)


def install(place, spaces):
    file = pack(write_folder(place), place.with_suffix(".pad"), {"Maze-v0": spaces})
    sign(file, OWNER)
    store.install(file, lambda _review: True)


@pytest.mark.parametrize("num_envs", [None, 2])
def test_environment_with_the_spaces_that_its_package_declares_is_made(tmp_path, num_envs):
    install(tmp_path / "maze", DECLARED)
    paddock.make("acme/maze@1", isolation="none", num_envs=num_envs).close()


@pytest.mark.parametrize("num_envs", [None, 2])
@pytest.mark.parametrize("what", ["observation", "action"])
def test_environment_with_other_spaces_is_closed(tmp_path, what, num_envs):
    install(tmp_path / "maze", {**DECLARED, what: to_json(Discrete(7))})
    options = {"isolation": "none", "num_envs": num_envs}
    with pytest.raises(EnvironmentViolation, match=f"declares the {what} space Discrete.7., and the") as raised:
        paddock.make("acme/maze@1", **options)
    assert raised.value.path == f"{what}_space"
    spec = paddock.wrappers.ClipReward.wrapper_spec(min_reward=0)
    paddock.make("acme/maze@1", **options, wrappers=[spec]).close()  # wrappers may change spaces


@pytest.mark.process
def test_environment_with_other_spaces_is_closed_behind_the_wall(tmp_path):
    if not holds("sandbox"):
        pytest.skip("this machine can't put up the wall; runs on Linux with user namespaces")
    install(tmp_path / "maze", {**DECLARED, "action": to_json(Discrete(7))})
    with pytest.raises(EnvironmentViolation, match="declares the action space"):
        paddock.make("acme/maze@1")


def test_declared_space_that_is_not_one_is_an_error_with_inert_text(tmp_path):
    install(tmp_path / "maze", {**DECLARED, "observation": "\x1b[2J"})
    with pytest.raises(EnvironmentViolation) as raised:
        paddock.make("acme/maze@1", isolation="none")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('numpy = ">=1.20,<99"', None),
        ('NumPy = "*"', None),
        ('numpy = "<1"', "beside paddock, where it is found first"),
        ('no-such-thing = "*"', "no-such-thing, which is not installed for it"),
    ],
)
def test_dependency_that_is_not_there_is_named_before_anything_runs(tmp_path, declared, words):
    folder = write_folder(tmp_path / "maze")
    (folder / "paddock.toml").write_text(f"{(folder / 'paddock.toml').read_text()}\n[dependencies]\n{declared}\n")
    if words is None:
        paddock.make(folder, isolation="none").close()
        return
    with pytest.raises(DependencyNotInstalled, match=words):
        paddock.make(folder, isolation="none")
    assert "maze_env" not in sys.modules


@pytest.mark.parametrize(
    ("version", "versions", "fits"),
    [
        ("2.1.0", ">=2,<3", True),
        ("2.0", "==2.0.0", True),
        ("2.0.1", "==2.0", False),
        ("2.0.1", "==2.0.*", True),
        ("2.1.1", "==2.0.*", False),
        ("2.1.1", "!=2.0.*", True),
        ("1.4.9", "~=1.4.2", True),
        ("1.5", "~=1.4.2", False),
        ("1.5", "~=1.4", True),
        ("2.0", "~=1.4", False),
        ("1.0", "!=1.0", False),
        ("1.10", ">1.9", True),
        ("1.9", "<=1.9.0", True),
        ("3.0", "<3", False),
        ("2.0rc1", ">=2", True),
    ],
)
def test_versions_are_compared_by_their_release_number(version, versions, fits):
    assert dependencies._is_among(version, versions) is fits


def test_wrapper_of_a_package_is_found_by_no_other_environment(tmp_path):
    code = f"import pathlib\npathlib.Path({str(tmp_path / 'canary')!r}).touch()\nEvil = Maze = None\n"
    file = pack(write_folder(tmp_path / "maze", code=code), tmp_path / "maze.pad")
    sign(file, OWNER)
    store.install(file, lambda _review: True)
    evil = WrapperSpec("Evil", "maze_env:Evil", {})
    spec = EnvSpec.from_json(replace(paddock.spec("CartPole-v1"), additional_wrappers=(evil,)).to_json())
    for target, wrappers in (("CartPole-v1", [evil]), (spec, [])):
        with pytest.raises(ModuleNotFoundError, match="maze_env"):
            paddock.make(target, wrappers=wrappers)
    assert not (tmp_path / "canary").exists()


def test_module_that_another_of_its_name_hides_is_not_taken_for_it(tmp_path):
    folder = write_folder(tmp_path / "maze", files={"numpy.py": "def env(): raise SystemExit\n"})
    (folder / "paddock.toml").write_text((folder / "paddock.toml").read_text().replace("maze_env:Maze", "numpy:env"))
    with pytest.raises(PlanError, match="'numpy' of .* is hidden by another"):
        paddock.make(folder, isolation="none")
    two = write_folder(tmp_path / "two"), write_folder(tmp_path / "three")
    paddock.make(two[0], isolation="none").close()
    with pytest.raises(PlanError, match="'maze_env' of .* is hidden by another"):
        paddock.make(two[1], isolation="none")
