"""What goes behind a wall: plain data and the files of the code it names, and nothing that runs here."""

import sys
from functools import partial

import numpy as np
import pytest

import paddock
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, PlanError
from paddock.making import locate, plan
from paddock.making.payload import locate_code, pack
from paddock.making.sandbox_worker import build_from_payload
from paddock.wrappers import ClipReward, TransformReward


def crossed(target, wrappers=(), max_episode_steps=None, **kwargs):
    wishes = {"wrappers": wrappers, "max_episode_steps": max_episode_steps, "env_kwargs": kwargs}
    return pack(plan(locate(target), isolation="sandbox", **wishes))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_module_is_found_without_being_imported(folder):
    (folder / "planted.py").write_text("raise SystemExit('imported')")
    assert locate_code("planted") == {"planted": str(folder / "planted.py")}
    assert "planted" not in sys.modules


def test_of_a_package_its_whole_folder_is_shown_and_nothing_beside_it(folder):
    (folder / "boxed").mkdir()
    (folder / "boxed" / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "secret.txt").write_text("beside it")
    assert locate_code("boxed.deep.inside") == {"boxed": str(folder / "boxed")}


def test_a_package_in_parts_shows_the_part_that_holds_the_module(tmp_path, monkeypatch):
    for part, module in (("one", "first"), ("two", "second")):
        (tmp_path / part / "spread").mkdir(parents=True)
        (tmp_path / part / "spread" / f"{module}.py").touch()
        monkeypatch.syspath_prepend(tmp_path / part)
    assert locate_code("spread.first") == {"spread": str(tmp_path / "one" / "spread")}
    assert locate_code("spread.second") == {"spread": str(tmp_path / "two" / "spread")}


@pytest.mark.parametrize("module", ["paddock.envs", "json", "numpy.linalg", "os.path"])
def test_what_comes_with_the_interpreter_needs_no_showing(module):
    assert locate_code(module) == {}


def test_a_module_that_does_not_exist_is_named():
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        locate_code("nowhere_at_all.envs")


def test_a_module_of_gymnasiums_that_does_not_exist_is_the_same_error_on_both_sides_of_the_wall():
    pytest.importorskip("gymnasium", reason="needs Gymnasium; runs with the test extra, which has it")
    told = []
    for isolation in (None, "sandbox"):
        with pytest.raises(DependencyNotInstalled) as raised:
            paddock.make("gymnasium:nowhere_at_all:X-v0", isolation=isolation)
        told.append(str(raised.value))
    assert "No module named 'nowhere_at_all'" in told[0] and told[0] == told[1]


def test_the_programs_own_file_does_not_cross():
    with pytest.raises(PlanError, match="__main__"):
        locate_code("__main__")


def test_what_crosses_makes_the_same_environment():
    wrappers = [ClipReward.wrapper_spec(min_reward=0.0, max_reward=0.5), partial(ClipReward, max_reward=0.25)]
    sent = crossed("FrozenLake-v1", is_slippery=False, max_episode_steps=7, wrappers=wrappers)
    assert sent.modules == {}
    env = build_from_payload(sent.what)
    assert env.spec.kwargs["is_slippery"] is False
    assert env.spec.max_episode_steps == 7
    assert [one.name for one in env.spec.additional_wrappers] == ["ClipReward", "ClipReward"]
    env.close()


def test_arguments_cross_in_their_wire_form():
    array = np.arange(3.0)
    sent = crossed(EnvSpec("Any-v0", "any_module_of_nobody:Env", kwargs={"start": array}), size=(1, 2)).what
    assert sent["kwargs"]["start"] is array
    assert sent["kwargs"]["size"] == (1, 2)


@pytest.fixture(autouse=True)
def module_of_nobody(folder):
    (folder / "any_module_of_nobody.py").touch()


def test_an_argument_without_a_wire_form_is_named():
    with pytest.raises(PlanError, match="callback"):
        crossed("CartPole-v1", callback=print)


def test_a_function_as_wrapper_is_named():
    with pytest.raises(PlanError, match="lambda"):
        crossed("CartPole-v1", wrappers=[lambda env: env])
    with pytest.raises(PlanError, match="func"):
        crossed("CartPole-v1", wrappers=[TransformReward.wrapper_spec(func=lambda reward: reward)])


def test_an_entry_point_that_only_this_process_has_is_named(fresh_registry):
    class Local(paddock.Env):
        pass

    paddock.register("CrossingLocal-v0", Local)
    with pytest.raises(PlanError, match=r"<locals>\.Local"):
        crossed("CrossingLocal-v0")


def test_a_class_of_a_module_crosses_by_its_name(fresh_registry):
    from tests.toys import Counter

    paddock.register("CrossingToy-v0", Counter)
    sent = crossed("CrossingToy-v0")
    assert '"tests.toys:' in sent.what["spec"]
    assert sent.modules["tests"].endswith("/tests")
