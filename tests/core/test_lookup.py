"""Looking up an id: the newest version, a plugin, or one error that helps."""

import importlib.metadata
import warnings

import pytest

import paddock
from paddock.core.registry import plugin_faults
from paddock.errors import (
    DeprecatedEnv,
    NameNotFound,
    NamespaceNotFound,
    PluginError,
    RegistryConflict,
    VersionNotFound,
)
from tests.package.signed import OWNER, trust

pytestmark = pytest.mark.usefixtures("fresh_registry")


@pytest.mark.parametrize(
    ("id", "error", "words"),
    [
        ("CartPol-v1", NameNotFound, "Environment `CartPol` doesn't exist. Did you mean: `CartPole`?"),
        ("Zzzzzz-v1", NameNotFound, "Environment `Zzzzzz` doesn't exist."),
        ("CartPole-v7", VersionNotFound, "Environment version `v7` for environment `CartPole` doesn't exist."),
        ("lab/Maze-v0", NamespaceNotFound, "Namespace lab not found. Have you installed the proper package for lab?"),
    ],
)
def test_an_unknown_id_says_which_part_is_wrong(id, error, words):
    for look in (paddock.spec, paddock.make):
        with pytest.raises(error) as caught:
            look(id)
        assert str(caught.value).startswith(words)


def test_an_unknown_namespace_asks_for_its_module():
    with pytest.raises(NamespaceNotFound, match=r"Was its module imported\? make\('module:lab/Maze-v0'\) does that"):
        paddock.make("lab/Maze-v0")


def test_an_older_version_than_all_is_deprecated():
    paddock.register("me/Counter-v3", "tests.toys:Counter")
    with pytest.raises(DeprecatedEnv, match="Please use `me/Counter-v3` instead"):
        paddock.spec("me/Counter-v1")


def test_without_a_version_make_takes_the_newest_and_says_so():
    with pytest.warns(UserWarning, match="Using the latest versioned environment `CartPole-v1`") as caught:
        assert paddock.make("CartPole").spec.id == "CartPole-v1"
    assert caught[0].filename == __file__


def test_an_out_of_date_version_warns():
    with pytest.warns(DeprecationWarning, match="CartPole-v0 is out of date.*`v1`") as caught:
        paddock.make("CartPole-v0")
    assert caught[0].filename == __file__


class Plugins:
    """Plants entry points, as installed distributions would bring them."""

    def __init__(self, monkeypatch, entries):
        found = [importlib.metadata.EntryPoint(name, value, "paddock.envs") for name, value in entries]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)


def test_a_plugin_is_listed_without_importing_it_and_made_on_demand(monkeypatch, tmp_path):
    (tmp_path / "canary_plugin.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('touched').touch()\nfrom tests.toys import Counter as Env\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    Plugins(monkeypatch, [("acme/Maze-v0", "canary_plugin:Env")])
    assert paddock.spec("acme/Maze-v0").entry_point == "canary_plugin:Env"
    assert not (tmp_path / "touched").exists()
    assert paddock.make("acme/Maze-v0").spec.id == "acme/Maze-v0"
    assert (tmp_path / "touched").exists()


def test_a_plugin_may_offer_a_whole_spec(monkeypatch, tmp_path):
    (tmp_path / "spec_plugin.py").write_text(
        "from paddock import EnvSpec\nspec = EnvSpec('x/Y-v0', 'tests.toys:Counter', max_episode_steps=2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    Plugins(monkeypatch, [("acme/Limited-v0", "spec_plugin:spec")])
    env = paddock.make("acme/Limited-v0")
    assert (env.spec.id, env.spec.max_episode_steps) == ("acme/Limited-v0", 2)


def test_a_plugin_that_raises_at_import_is_one_clear_error(monkeypatch, tmp_path):
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('boom')\n")
    monkeypatch.syspath_prepend(tmp_path)
    Plugins(monkeypatch, [("acme/Broken-v0", "broken_plugin:Env")])
    before = dict(paddock.registry)
    with pytest.raises(PluginError, match="acme/Broken-v0.*broken_plugin:Env.*RuntimeError: boom"):
        paddock.make("acme/Broken-v0")
    assert dict(paddock.registry) == before


def test_malformed_and_doubled_plugins_are_reported_and_left_out(monkeypatch):
    Plugins(monkeypatch, [("not an id", "a:b"), ("acme/A-v0", "no colon"), ("acme/B-v0", "a:B"), ("acme/B-v0", "c:D")])
    assert len(plugin_faults()) == 3
    for id in ("acme/A-v0", "acme/B-v0"):  # of two with one id nobody knows which was meant
        with pytest.raises(NamespaceNotFound):
            paddock.spec(id)


@pytest.mark.parametrize(
    "ids",
    [
        ("acme/Maze-v0", "acme/maze-v0"),
        ("acme/Maze-v0", "acrne/Maze-v0"),
        ("acme/Maze-v0", "acme/M4ze-v0", "ACME/MAZE-v0"),
    ],
)
def test_plugins_whose_ids_look_alike_are_not_offered(monkeypatch, ids):
    Plugins(monkeypatch, [(id, "a:B") for id in ids])
    alike = [ids[0], ids[-1]]
    assert all(any(repr(id) in fault and "can be taken for" in fault for fault in plugin_faults()) for id in alike)
    for id in alike:
        with pytest.raises(NamespaceNotFound):
            paddock.spec(id)


@pytest.mark.parametrize(
    ("space", "near"),
    [
        ("padd0ck", "paddock"),
        ("PADDOCK", "paddock"),
        ("paddok", "paddock"),
        ("gymnasiurn", "gymnasium"),
        ("ale", "ALE"),
        ("dm-control", "dm_control"),
    ],
)
def test_a_plugins_namespace_can_not_be_taken_for_anothers(monkeypatch, space, near):
    Plugins(monkeypatch, [(f"{space}/Maze-v0", "evil:Env")])
    (fault,) = plugin_faults()
    assert f"It can be taken for {near!r}" in fault
    with pytest.raises(NamespaceNotFound):
        paddock.spec(f"{space}/Maze-v0")


def test_a_plugin_in_the_namespace_of_a_key_is_refused(monkeypatch, home):
    trust()
    Plugins(monkeypatch, [("acme/Maze-v0", "evil:Env"), ("other/Maze-v0", "fine:Env")])
    (fault,) = plugin_faults()
    with pytest.raises(NamespaceNotFound) as caught:
        paddock.make("acme/Maze-v0")
    for text in (fault, str(caught.value)):
        assert f"'acme' belongs to the key {OWNER.public.fingerprint}, and a plugin is not signed" in text
    assert paddock.spec("other/Maze-v0").entry_point == "fine:Env"


@pytest.mark.parametrize("id", ["c\u0430rtPole-v1", "CartPole\u200b-v1", "\uff23artPole-v1"])
def test_letters_of_other_alphabets_are_in_no_id(monkeypatch, id):
    Plugins(monkeypatch, [(id, "evil:Env"), (f"acme/{id}", "evil:Env")])
    assert len(plugin_faults()) == 2
    with pytest.raises(paddock.errors.InvalidId):
        paddock.register(id, "evil:Env")


@pytest.mark.parametrize("id", ["cartpole-v1", "CARTPOLE-v7", "Cart_Pole-v1", "CartP0le-v0", "TAXI"])
def test_what_can_be_taken_for_a_built_in_id_is_not_registered(fresh_registry, id):
    before = dict(paddock.registry)
    with pytest.raises(RegistryConflict, match="can be taken for '(CartPole|Taxi)', which is built in"):
        paddock.register(id, "evil:Env")
    with pytest.raises(RegistryConflict, match="can be taken for"):
        paddock.registry[id] = paddock.EnvSpec(id, "evil:Env")
    assert dict(paddock.registry) == before


def test_another_version_of_a_built_in_name_is_never_the_newest(fresh_registry):
    paddock.register("CartPole-v9", "evil:Env")
    with pytest.warns(UserWarning, match="the latest versioned environment `CartPole-v1`"):
        assert paddock.make("CartPole").spec.id == "CartPole-v1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paddock.make("CartPole-v1").spec.id == "CartPole-v1"


def test_the_namespaces_of_all_families_are_taken():
    from paddock.core.registry import TAKEN_NAMESPACES
    from paddock.sources.families import FAMILIES, SOURCES

    of_ids = {part.partition("/")[0] for one in FAMILIES for part in one.shown.split(", ") if "/" in part}
    assert of_ids | set(SOURCES) <= set(TAKEN_NAMESPACES)


def test_a_plugin_never_replaces_a_registered_id(monkeypatch):
    Plugins(monkeypatch, [("CartPole-v1", "evil:Env")])
    assert paddock.spec("CartPole-v1").entry_point.startswith("paddock.")


@pytest.mark.parametrize("id", ["CartPole", "cartpole-v1", "CartPole-v2", "paddock/Echo2-v0", "Paddock/Maze-v0"])
def test_a_plugin_needs_a_namespace_of_its_own(monkeypatch, id):
    Plugins(monkeypatch, [(id, "evil:Env")])
    assert [fault for fault in plugin_faults() if "namespace of its own, as 'acme/" in fault]
    for look in (paddock.spec, paddock.make):
        try:
            with warnings.catch_warnings(action="ignore"):
                found = look(id)
        except paddock.PaddockError:
            continue
        assert "evil" not in str(getattr(found, "spec", found).entry_point)


def test_spec_and_make_mean_the_same_where_a_plugin_offers_an_id_without_a_version(monkeypatch):
    paddock.register("acme/Maze-v3", "tests.toys:Counter")
    Plugins(monkeypatch, [("acme/Maze", "evil:Env")])
    with pytest.warns(UserWarning, match="acme/Maze-v3"):
        assert paddock.make("acme/Maze").spec.id == "acme/Maze-v3"
    with pytest.raises(VersionNotFound, match="v3"):
        paddock.spec("acme/Maze")
