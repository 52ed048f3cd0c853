"""Which ids belong to which package, by name alone: nothing is imported to find out."""

import sys

import pytest

import paddock
from paddock.errors import DependencyNotInstalled, DeprecatedEnv, NameNotFound, NamespaceNotFound
from paddock.making import locate, plan
from paddock.sources.families import FAMILIES, family_of
from paddock.sources.foreign import translate_errors


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
        family.check_installed_for("'Some-v0'")
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


@pytest.mark.parametrize("find", [paddock.spec, paddock.gym.spec])
@pytest.mark.parametrize(("id", "family"), [("LunarLander-v3", "Box2D"), ("ALE/Pong-v5", "Atari")])
def test_the_spec_of_a_familys_id_is_told_how_to_be_had(find, id, family, monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: False)
    monkeypatch.setattr("paddock.gym.envs.registration._has_gymnasium", lambda: False)
    with pytest.raises((NameNotFound, NamespaceNotFound)) as raised:
        find(id)
    told = f"one of {family}'s environments", f"paddock info --make {id}", f"pip install {family_of(id).install}"
    for words in told:
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("LunarLandr-v3", "`LunarLander`"),
        ("HalfCheeta-v5", "`HalfCheetah`"),
        ("AEL/Pong-v5", "`ALE`"),
        ("Cartpol-v1", "`CartPole`"),
    ],
)
def test_a_typo_of_a_known_name_gets_a_suggestion(typo, meant):
    with pytest.raises((NameNotFound, NamespaceNotFound), match=f"Did you mean: {meant}"):
        paddock.make(typo)


@pytest.mark.parametrize(
    ("target", "meant"),
    [("dmcontrol:cartpole/balance", "dm_control:cartpole/balance"), ("procgen:coinrun", "gym3:procgen/coinrun")],
)
def test_a_prefix_that_is_none_gets_a_suggestion(target, meant):
    with pytest.raises(ModuleNotFoundError, match=f"Did you mean '{meant}'"):
        paddock.make(target)


def test_another_missing_module_gets_no_suggestion():
    with pytest.raises(ModuleNotFoundError) as raised:
        paddock.make("my_own_maze:Maze-v0")
    assert "Did you mean" not in str(raised.value)


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("id", ["HalfCheetah-v3", "Ant-v2"])
def test_mujocos_old_versions_name_the_new_one(id, here, monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: here)
    with pytest.raises(DeprecatedEnv, match=f"use `{id[:-1]}5` instead"):
        paddock.make(id)


def test_gymnasium_robotics_says_which_mujoco_it_needs():
    family = family_of("FetchReach-v4")
    assert "'mujoco<3.4'" in family.install
    with (
        pytest.raises(DependencyNotInstalled, match="MuJoCo 3.4 and later.*'mujoco<3.4'"),
        translate_errors(family, "x"),
    ):
        raise AssertionError
    with pytest.raises(AssertionError), translate_errors(family_of("Ant-v5"), "x"):
        raise AssertionError


@pytest.mark.parametrize(
    ("target", "module"), [("gymnasium:no_such_mod:Foo-v0", "no_such_mod"), ("gymnasium:phys2d/CartPole-v1", "jax")]
)
def test_what_is_missing_beside_gymnasium_is_named(target, module, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.phys2d")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(DependencyNotInstalled) as raised:
        paddock.make(target)
    assert f"pip install {module}" in str(raised.value)
    assert "pip install gymnasium" not in str(raised.value)


def test_a_wrapper_of_ours_says_how_to_take_an_environment_of_gymnasium():
    import gymnasium

    with pytest.raises(TypeError, match=r"paddock\.sources\.from_gymnasium\(env\)"):
        paddock.gym.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 5)


def test_a_wrong_keyword_is_told_of_once():
    with pytest.raises(TypeError) as raised:
        paddock.make("gymnasium:CartPole-v1", gravty=3)
    assert str(raised.value).count("was raised from the environment creator") == 1
