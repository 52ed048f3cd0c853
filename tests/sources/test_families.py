"""Which ids belong to which package, by name alone: nothing is imported to find out."""

import pytest

import paddock
from paddock.errors import DependencyNotInstalled, NameNotFound
from paddock.making import locate, plan
from paddock.sources.families import FAMILIES, family_of


@pytest.mark.parametrize(
    ("id", "family"),
    [
        ("LunarLander-v3", "Box2D"),
        ("BipedalWalkerHardcore-v3", "Box2D"),
        ("CarRacing-v2", "Box2D"),
        ("HalfCheetah-v5", "MuJoCo"),
        ("HumanoidStandup-v4", "MuJoCo"),
        ("ALE/Pong-v5", "Atari"),
        ("PongNoFrameskip-v4", "Atari"),
        ("MiniGrid-Empty-5x5-v0", "MiniGrid"),
        ("BabyAI-GoToObj-v0", "MiniGrid"),
        ("highway-fast-v0", "highway-env"),
        ("FetchReach-v4", "Gymnasium-Robotics"),
        ("PointMaze_UMaze-v3", "Gymnasium-Robotics"),
        ("Meta-World/MT1", "Meta-World"),
        ("NetHackScore-v0", "NetHack"),
        ("MiniHack-Room-5x5-v0", "MiniHack"),
        ("VizdoomBasic-v0", "ViZDoom"),
        ("PandaReach-v3", "panda-gym"),
        ("browsergym/openended", "BrowserGym"),
        ("dm_control/cartpole-balance-v0", "Shimmy"),
    ],
)
def test_an_id_belongs_to_its_family(id, family):
    assert family_of(id).name == family


@pytest.mark.parametrize("id", ["LunarLandr-v3", "Antarctica-v1", "Maze-v0", "me/Ant-v5", "ALE", "minigrid-x"])
def test_other_ids_belong_to_none(id):
    assert family_of(id) is None


def test_no_built_in_id_is_taken():
    assert [id for id in paddock.registry if family_of(id) is not None] == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_missing_package_is_named_with_the_command(family, monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: module == "gymnasium")
    with pytest.raises(DependencyNotInstalled) as raised:
        family.check_installed("Some-v0")
    assert str(raised.value).endswith(f"To install: pip install {family.install}")
    assert all(name in str(raised.value) for name in family.needs)


@pytest.mark.parametrize("isolation", [None, "process", "sandbox"])
def test_make_tells_what_to_install(isolation, monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: module == "gymnasium")
    with pytest.raises(DependencyNotInstalled, match="needs Box2D, pygame, which are not installed. To install: pip"):
        paddock.make("LunarLander-v3", isolation=isolation)


def test_what_is_registered_here_comes_before_a_family(fresh_registry):
    from tests.toys import Counter

    paddock.register("LunarLander-v3", Counter)
    assert locate("LunarLander-v3").kind == "registered"


def test_a_plan_says_where_it_comes_from(monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: module == "gymnasium")
    rows = dict(plan(locate("Ant-v5"), num_envs=3).lines())
    assert rows["target"] == "Ant-v5 (source)"
    assert rows["library"] == "MuJoCo through Gymnasium, not installed: pip install 'gymnasium[mujoco]'"
    assert dict(plan(locate("gymnasium:Maze-v0")).lines())["library"] == "Gymnasium"


def test_a_name_that_nobody_has_is_an_error_of_ours():
    with pytest.raises(NameNotFound, match="List all: paddock list"):
        paddock.make("LunarLandr-v3")
