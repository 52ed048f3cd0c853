"""The registry: nothing built in is ever replaced, and nothing is half registered."""

import copy
import dataclasses
import warnings

import gymnasium
import pytest

import paddock
import paddock.gym as gym
from paddock.core.registry import namespace
from paddock.errors import InvalidId, RegistrationError, RegistryConflict
from tests.toys import Counter

pytestmark = pytest.mark.usefixtures("fresh_registry")


def test_an_id_can_be_registered_and_looked_up():
    paddock.register("me/Counter-v0", "tests.toys:Counter", max_episode_steps=7, kwargs={"goal": 3})
    found = paddock.spec("me/Counter-v0")
    assert (found.namespace, found.name, found.version) == ("me", "Counter", 0)
    assert found.max_episode_steps == 7
    assert paddock.make("me/Counter-v0").unwrapped.goal == 3


@pytest.mark.parametrize("register", [paddock.register, gym.register])
def test_a_built_in_id_is_never_replaced(register):
    before = paddock.spec("CartPole-v1")
    with pytest.raises(RegistryConflict, match="built in"):
        register("CartPole-v1", entry_point="tests.toys:Counter")
    assert paddock.spec("CartPole-v1") == before


def test_a_built_in_id_is_not_replaced_with_replace_either():
    with pytest.raises(RegistryConflict):
        paddock.register("CartPole-v1", "tests.toys:Counter", replace=True)


@pytest.mark.parametrize(
    "attack",
    [
        lambda r, s: r.__setitem__("CartPole-v1", s),
        lambda r, s: r.__delitem__("CartPole-v1"),
        lambda r, s: r.pop("CartPole-v1"),
        lambda r, s: r.update({"CartPole-v1": s}),
        lambda r, s: r.__ior__({"CartPole-v1": s}),
    ],
)
def test_the_dict_methods_do_not_replace_a_built_in_id(attack):
    before = paddock.registry["CartPole-v1"]
    with pytest.raises(RegistryConflict):
        attack(paddock.registry, paddock.EnvSpec("CartPole-v1", "tests.toys:Counter"))
    assert paddock.registry["CartPole-v1"] == before


def test_clear_and_popitem_leave_what_is_built_in():
    paddock.register("me/Counter-v0", "tests.toys:Counter")
    assert paddock.registry.popitem()[0] == "me/Counter-v0"
    paddock.registry.clear()
    assert "CartPole-v1" in paddock.registry


def test_the_same_registration_again_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for register in (paddock.register, gym.register):
            register("me/Counter-v0", entry_point="tests.toys:Counter")
            register("me/Counter-v0", entry_point="tests.toys:Counter")


def test_a_class_from_a_cell_that_ran_again_is_the_same_code():
    def cell():
        return type("Mine", (Counter,), {"__module__": "__main__", "__qualname__": "Mine"})

    paddock.register("me/Mine-v0", cell())
    newest = cell()
    paddock.register("me/Mine-v0", newest)
    assert paddock.spec("me/Mine-v0").entry_point is newest


def test_another_entry_point_raises_unless_replace():
    paddock.register("me/Counter-v0", "tests.toys:Counter")
    with pytest.raises(RegistryConflict, match="replace=True"):
        paddock.register("me/Counter-v0", "tests.toys:Painter")
    assert paddock.spec("me/Counter-v0").entry_point == "tests.toys:Counter"
    paddock.register("me/Counter-v0", "tests.toys:Painter", replace=True)
    assert paddock.spec("me/Counter-v0").entry_point == "tests.toys:Painter"


def test_two_lambdas_are_not_the_same_code():
    paddock.register("me/A-v0", lambda: Counter(1))
    with pytest.raises(RegistryConflict):
        paddock.register("me/A-v0", lambda: Counter(2))


def test_through_the_gym_door_another_entry_point_warns_and_replaces():
    gym.register("me/Counter-v0", "tests.toys:Counter")
    with pytest.warns(UserWarning, match="Overriding environment me/Counter-v0 already in registry"):
        gym.register("me/Counter-v0", "tests.toys:Painter")
    assert gym.spec("me/Counter-v0").entry_point == "tests.toys:Painter"


@pytest.mark.parametrize(
    ("id", "entry_point"),
    [
        ("me/X-v0", None),
        ("me/X-v0", "no colon"),
        ("me/X-v0", "a:b:c"),
        ("me/X-v0", "../evil:Env"),
        ("me/X-v0", "mod:__class__"),
        ("me/X-v0", "mоd:Env"),
        ("me/X-v0", 42),
        ("me /X-v0", "tests.toys:Counter"),
    ],
)
def test_a_malformed_registration_changes_nothing(id, entry_point):
    before = dict(paddock.registry)
    with pytest.raises(RegistrationError):
        paddock.register(id, entry_point)
    assert dict(paddock.registry) == before


def test_versioned_and_unversioned_ids_of_one_name_do_not_mix():
    paddock.register("me/Plain", "tests.toys:Counter")
    with pytest.raises(RegistrationError, match="unversioned environment `me/Plain`"):
        paddock.register("me/Plain-v0", "tests.toys:Counter")
    with pytest.raises(RegistrationError, match="versioned environment"):
        paddock.register("CartPole", "tests.toys:Counter")


def test_namespace_ends_when_its_block_raises():
    with pytest.raises(ZeroDivisionError), namespace("lab"):
        paddock.register("Counter-v0", "tests.toys:Counter")
        assert gym.envs.registration.current_namespace == "lab"
        raise ZeroDivisionError
    assert gym.envs.registration.current_namespace is None
    assert "lab/Counter-v0" in paddock.registry


def test_the_current_namespace_wins_over_the_ids_own():
    with namespace("lab"), pytest.warns(UserWarning, match="overridden by namespace `lab`"):
        paddock.register("home/Counter-v0", "tests.toys:Counter")
    assert "lab/Counter-v0" in paddock.registry


def test_a_malformed_namespace_is_refused():
    with pytest.raises(InvalidId), namespace("a/b"):
        pass


@pytest.mark.parametrize("field", ["id", "entry_point", "vector_entry_point"])
def test_the_code_of_a_built_in_id_can_not_be_set_in_its_spec(field):
    for given in (paddock.spec("FrozenLake-v1"), paddock.registry["FrozenLake-v1"], *paddock.registry.values()):
        if paddock.registry.is_protected(given.id):
            with pytest.raises(RegistryConflict, match=f"built in: its {field} can't be set"):
                setattr(given, field, "tests.toys:Counter")
    assert paddock.make("FrozenLake-v1").observation_space.n == 16
    for free in (dataclasses.replace(paddock.spec("FrozenLake-v1")), copy.deepcopy(paddock.spec("FrozenLake-v1"))):
        setattr(free, field, "tests.toys:Counter")


@pytest.mark.parametrize("library", [gym, gymnasium], ids=["ours", "theirs"])
@pytest.mark.parametrize(
    "give", [lambda gym, id: gym.spec(id), lambda gym, id: gym.registry[id]], ids=["spec", "registry"]
)
@pytest.mark.parametrize("id", ["CartPole-v1", "me/Counter-v0"])
def test_fields_that_are_set_on_a_registered_spec_take_effect(library, give, id, monkeypatch):
    if id not in library.registry:
        library.register(id, lambda: library.make("CartPole-v1").unwrapped)
        spec = library.registry.pop(id)
        monkeypatch.setitem(library.registry, id, spec)
    monkeypatch.setattr(give(library, id), "max_episode_steps", 3)
    env = library.make(id)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    assert env.spec.max_episode_steps == library.make(id).spec.max_episode_steps == 3
    monkeypatch.setitem(give(library, "FrozenLake-v1").kwargs, "map_name", "8x8")
    assert library.make("FrozenLake-v1").observation_space.n == 64


def test_an_id_that_lies_about_itself_replaces_nothing():
    class Liar(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return False

    with pytest.raises(RegistryConflict):
        paddock.registry[Liar("CartPole-v1")] = paddock.EnvSpec("CartPole-v1", "tests.toys:Counter")


@pytest.mark.parametrize("spec", [5, None, paddock.EnvSpec("me/Other-v0", "tests.toys:Counter")])
def test_only_specs_of_their_own_id_can_be_put_into_the_registry(spec):
    with pytest.raises(RegistrationError):
        paddock.registry["me/Junk-v0"] = spec
