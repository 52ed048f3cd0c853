"""Targets of libraries that are not here: what they need is told by name, and nothing is imported to find out."""

import pytest

import paddock
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, InvalidSeed
from paddock.making import locate, plan
from paddock.sources.families import LIBRARIES, library_family
from paddock.sources.foreign import find_seed_argument, fit_seed

COMMANDS = {
    "dm_control:cartpole/balance": "pip install dm-control 'mujoco<4' packaging",
    "dm_env:my_module:make": "pip install dm-env",
    "gym3:procgen/coinrun": "pip install procgen2 gym3",
    "gym3:my_module:make": "pip install gym3",
    "gymnax:CartPole-v1": "pip install gymnax six",
    "gymnax:my_module:make": "pip install jax",
}


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: False)


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("isolation", [None, "process", "sandbox"])
@pytest.mark.parametrize("target", COMMANDS)
def test_make_tells_what_to_install(target, isolation):
    with pytest.raises(DependencyNotInstalled) as raised:
        paddock.make(target, isolation=isolation)
    assert str(raised.value).endswith(f"To install: {COMMANDS[target]}")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("target", COMMANDS)
def test_a_plan_says_where_it_comes_from(target):
    found = locate(target)
    assert found.kind == "source"
    family = library_family(found.module, found.id)
    words = dict(plan(found).lines())["library"]
    assert words.startswith(family.name)
    assert words.endswith(f", not installed: {COMMANDS[target]}")


def test_the_particular_family_comes_first():
    assert [one.name for one in LIBRARIES["gym3"]] == ["Procgen", "gym3"]
    assert library_family("gym3", "procgen/maze").name == "Procgen"
    assert library_family("gymnax", "CartPole-v1").name == "gymnax"


@pytest.mark.parametrize("name", ["from_dm_env", "from_gym3", "from_gymnax"])
def test_the_door_for_objects_is_found_without_the_library(name):
    assert callable(getattr(paddock.sources, name))


@pytest.mark.parametrize("bits", [31, 32])
def test_a_seed_that_fits_stays_and_a_larger_one_is_mixed_down(bits):
    largest = (1 << bits) - 1
    assert [fit_seed(seed, bits) for seed in (0, 5, largest)] == [0, 5, largest]
    mixed = [fit_seed((1 << bits) + number, bits) for number in range(50)]
    assert len(set(mixed)) == 50
    assert all(0 <= seed <= largest for seed in mixed)
    with pytest.raises(InvalidSeed):
        fit_seed(-1, bits)


def test_the_argument_for_a_seed_is_found_by_its_name():
    assert find_seed_argument(lambda level, seed=None: None) == "seed"
    assert find_seed_argument(lambda *, random=None: None) == "random"
    assert find_seed_argument(lambda level: None) is None
    assert find_seed_argument(dict.fromkeys) is None


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_package_is_told_with_the_whole_id():
    with pytest.raises(DependencyNotInstalled, match="^'dm_control:cartpole/balance' is one of dm_control's"):
        paddock.make("dm_control:cartpole/balance")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("name", "command"),
    [("from_gymnasium", "gymnasium"), ("from_dm_env", "dm-env"), ("from_gym3", "gym3"), ("from_gymnax", "jax")],
)
def test_a_door_for_objects_tells_what_to_install(name, command):
    with pytest.raises(DependencyNotInstalled, match=rf"^{name}\(\) needs .*To install: pip install {command}$"):
        getattr(paddock.sources, name)(object())


def test_what_a_dm_control_task_takes_is_told_where_to_go(monkeypatch):
    from paddock.sources import dm_control

    monkeypatch.setattr(dm_control, "spec_of", lambda id: None)
    with pytest.raises(TypeError, match=r"argument 'time_limit' \(for the task: task_kwargs=\{'time_limit': 5\}\)"):
        dm_control.FromDmControl.for_spec(EnvSpec("cartpole/balance"))(time_limit=5)
