"""The API diff: every public name and signature of the installed Gymnasium, in `paddock.gym` under the same path.

What is missing is in KNOWN_GAPS: a gap that has been filled must leave it.
"""

import importlib
import importlib.util
import os
import pickle
import pkgutil
import subprocess
import sys
import types
import typing

import gymnasium
import numpy as np
import pytest

import paddock.gym as gym
from paddock.errors import DependencyNotInstalled
from tests.gym.surface import WITH_ARRAYS, check_name, public_names

KNOWN_GAPS: dict[str, str] = {}
# Gymnasium's save_video can't be imported without moviepy; to read signatures an empty class will do.
MOVIEPY = ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip")
if importlib.util.find_spec("moviepy") is None:
    for module_name in MOVIEPY:
        sys.modules.setdefault(module_name, types.ModuleType(module_name))
    sys.modules[MOVIEPY[-1]].ImageSequenceClip = type("ImageSequenceClip", (), {})
COVERED = (
    "core",
    "spaces",
    "envs.registration",
    "utils",
    "error",
    "logger",
    "vector",
    "vector.utils",
    "experimental",
    "wrappers",
    "wrappers.vector",
)
# A text that this module imports: nothing tells it from one that the module defines.
NOT_THEIRS = {("vector.utils.shared_memory", "typecodes")}


def modules():
    found = []
    for name in COVERED:
        module = importlib.import_module(f"gymnasium.{name}")
        found.append(name)
        for child in pkgutil.iter_modules(getattr(module, "__path__", [])):
            if child.name not in WITH_ARRAYS:
                found.append(f"{name}.{child.name}")
    return list(dict.fromkeys(found))


def pairs():
    for path in modules():
        if path in KNOWN_GAPS:
            continue
        for name in sorted(public_names(importlib.import_module(f"gymnasium.{path}"))):
            if f"{path}.{name}" not in KNOWN_GAPS and (path, name) not in NOT_THEIRS:
                yield path, name


@pytest.mark.parametrize(("path", "name"), list(pairs()))
def test_the_name_exists_with_the_same_signature(path, name):
    check_name(path, name)


@pytest.mark.parametrize("gap", sorted(KNOWN_GAPS))
def test_a_known_gap_is_still_a_gap(gap):
    parent, _, name = gap.rpartition(".")
    module = importlib.import_module(f"paddock.gym.{parent}")
    try:
        found = hasattr(module, name) or importlib.import_module(f"paddock.gym.{gap}")
    except ImportError:
        found = False
    assert not found, f"{gap} is there now: take it out of KNOWN_GAPS"


@pytest.mark.parametrize("name", [n for n in gymnasium.__all__ if n not in {"experimental"} and not n.startswith("__")])
def test_the_top_level_has_every_name(name):
    assert hasattr(importlib.import_module("paddock.gym"), name)


def test_error_classes_are_ours_and_keep_their_ancestry():
    theirs, ours = gymnasium.error, importlib.import_module("paddock.gym.error")
    for name in public_names(theirs):
        for other in public_names(theirs):
            if issubclass(getattr(theirs, name), getattr(theirs, other)):
                assert issubclass(getattr(ours, name), getattr(ours, other)), (name, other)


def loaded_submodules():
    """Dotted names that `import gymnasium` alone makes reachable; asked in a fresh interpreter."""
    code = "import gymnasium, sys; print(*(m for m in sys.modules if m.startswith('gymnasium.')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = (name.removeprefix("gymnasium.") for name in done.stdout.split())
    return sorted(names)


@pytest.mark.process
def test_submodules_are_attributes_after_one_import():
    missing = []
    for name in loaded_submodules():
        found = importlib.import_module("paddock.gym")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            missing.append(name)
    assert missing in ([], ["utils.colorize"]), missing  # a function of that name hides the module, as in Gymnasium


def test_a_closure_can_be_pickled_in_a_cloudpickle_wrapper():
    render_mode = "rgb_array"
    for library in (gym, gymnasium):
        wrapper = library.vector.utils.CloudpickleWrapper(lambda: render_mode)
        assert pickle.loads(pickle.dumps(wrapper))() == wrapper() == wrapper.fn() == "rgb_array"


@pytest.mark.parametrize("library", [gym, gymnasium], ids=["ours", "theirs"])
def test_the_variables_of_mpi_come_back_also_after_an_error(library, monkeypatch):
    mine = {"OMPI_RANK": "1", "PMI_SIZE": "2", "NOT_OMPI_": "3"}
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)

    def start():
        with library.vector.utils.clear_mpi_env_vars():
            assert [name for name in mine if name in os.environ] == ["NOT_OMPI_"]
            raise RuntimeError("the child did not start")

    with pytest.raises(RuntimeError, match="the child did not start"):
        start()
    assert dict(os.environ) == before


@pytest.mark.parametrize(("module", "name"), WITH_ARRAYS.items())
def test_array_conversions_are_there_without_any_array_library(module, name):
    for home in (gym.wrappers, gym.wrappers.vector):
        assert getattr(getattr(home, module), name) is getattr(home, name)


@pytest.mark.parametrize("name", ["AutoResetWrapper", "FrameStack", "PixelObservationWrapper", "VectorListInfo"])
def test_former_names_of_wrappers_say_what_they_are_now(name):
    said = []
    for library in (gym, gymnasium):
        with pytest.raises(AttributeError, match="has been renamed with `wrappers") as caught:
            getattr(library.wrappers, name)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_names_that_do_not_exist_are_refused_and_those_that_do_are_listed():
    for module, known in (
        (gym.vector, "SyncVectorEnv"),
        (gym.vector.utils, "create_shared_memory"),
        (gym.wrappers, "ClipAction"),
        (gym.wrappers.vector, "ClipAction"),
    ):
        with pytest.raises(AttributeError, match=f"has no .*'Vectorised'. It has: .*{known}"):
            _ = module.Vectorised


def test_a_wrapper_whose_name_was_spelled_otherwise_is_found():
    for module in (gym.wrappers, gym.wrappers.vector):
        with pytest.raises(AttributeError, match="Did you mean: `GrayscaleObservation`\\?$"):
            _ = module.GrayScaleObservation


@pytest.mark.parametrize("path", ["wrappers", "wrappers.vector", "vector", "vector.utils", "utils", "spaces", "envs"])
def test_a_star_import_brings_the_modules_that_gymnasiums_brings(path):
    theirs, ours = importlib.import_module(f"gymnasium.{path}"), importlib.import_module(f"paddock.gym.{path}")

    def brought(module):
        return {name for name in module.__all__ if isinstance(vars(module).get(name), types.ModuleType)}

    assert brought(ours) == brought(theirs)


def generic_classes():
    for path in modules():
        module = importlib.import_module(f"gymnasium.{path}")
        for name in sorted(public_names(module)):
            if getattr(getattr(module, name), "__parameters__", ()):
                yield path, name


@pytest.mark.parametrize(("path", "name"), list(generic_classes()))
def test_a_generic_class_takes_one_argument_and_as_many_as_gymnasiums(path, name):
    theirs = getattr(importlib.import_module(f"gymnasium.{path}"), name)
    ours = getattr(importlib.import_module(f"paddock.gym.{path}"), name)
    for arguments in (int, (int,) * len(theirs.__parameters__)):

        class Sub(ours[arguments]):
            pass

        assert issubclass(Sub, ours)


def test_the_lanes_of_both_kinds_have_the_type_arguments_of_gymnasiums():
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):
        ours, theirs = getattr(gym.vector, name), getattr(gymnasium.vector, name)
        assert [one.__name__ for one in ours.__parameters__] == [one.__name__ for one in theirs.__parameters__]
    assert typing.get_args(gym.Env[np.ndarray]) == (np.ndarray, typing.Any)


def test_a_module_without_a_file_is_listed_and_found_by_pickles():
    listed = {one.name for one in pkgutil.walk_packages(gym.__path__, "paddock.gym.")}
    for path, name in (
        ("wrappers.common", "TimeLimit"),
        ("wrappers.vector.stateful_observation", "NormalizeObservation"),
        ("spaces.box", "Box"),
        ("envs.toy_text.taxi", "TaxiEnv"),
        ("utils.ezpickle", "EzPickle"),
        ("vector.utils.misc", "CloudpickleWrapper"),
    ):
        module = importlib.import_module(f"paddock.gym.{path}")
        assert module.__name__ in listed
        assert pickle.loads(f"c{module.__name__}\n{name}\n.".encode()) is getattr(module, name)


@pytest.mark.process
def test_a_module_imported_by_its_path_does_not_hide_the_function_of_its_name():
    code = "import paddock.gym.utils.colorize as module, paddock.gym as gym; print(gym.utils.colorize('a', 'red'))"
    assert in_fresh_interpreter(code) == ["\x1b[31ma\x1b[0m"]


def in_fresh_interpreter(code, **options):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.process
def test_environments_are_attributes_of_envs_and_nothing_of_gymnasium_is_imported_for_them():
    code = (
        "import sys, paddock.gym as gym; gym.make('CartPole-v1');"
        "print(gym.envs.classic_control.CartPoleEnv.__name__, gym.envs.toy_text.TaxiEnv.__name__,"
        "gym.envs.classic_control.utils.__name__, 'gymnasium' in sys.modules)"
    )
    assert in_fresh_interpreter(code) == ["CartPoleEnv", "TaxiEnv", "paddock.gym.envs.classic_control.utils", "False"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("envs.classic_control.acrobot", ("bound", "rk4", "wrap")),
        ("envs.classic_control.pendulum", ("DEFAULT_X", "DEFAULT_Y", "angle_normalize")),
        ("envs.toy_text.blackjack", ("cmp", "deck", "draw_card", "draw_hand", "is_bust", "score", "usable_ace")),
        ("envs.toy_text.frozen_lake", ("LEFT", "DOWN", "RIGHT", "UP")),
    ],
)
def test_helpers_of_gymnasiums_environments_are_found_beside_ours(path, names):
    ours, theirs = importlib.import_module(f"paddock.gym.{path}"), importlib.import_module(f"gymnasium.{path}")
    for name in names:
        assert getattr(ours, name) is getattr(theirs, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ours.nothing


@pytest.fixture
def fresh_mujoco():
    """No module of ours for MuJoCo is imported, before the test and after it."""

    def forget():
        for name in [name for name in sys.modules if name.startswith("paddock.gym.envs.mujoco")]:
            del sys.modules[name]
        vars(gym.envs).pop("mujoco", None)

    forget()
    yield
    forget()


@pytest.mark.usefixtures("fresh_mujoco")
def test_modules_of_gymnasiums_run_over_our_classes(tmp_path, monkeypatch):
    lines = (
        "import gymnasium",
        "import gymnasium.spaces",
        "import gymnasium as gym",
        "from gymnasium import Env, spaces",
        "from gymnasium.envs.mujoco import one",
        "class Two(one.One): assert issubclass(one.One, gymnasium.Env) and gym.Env is Env and spaces.Box",
    )
    fake = tmp_path / "gymnasium" / "envs" / "mujoco"
    fake.mkdir(parents=True)
    (tmp_path / "gymnasium" / "__init__.py").write_text("raise AssertionError('imported')")
    (fake / "__init__.py").write_text("")
    (fake / "one.py").write_text("from gymnasium import Env\nclass One(Env): pass")
    (fake / "two.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    two = importlib.import_module("paddock.gym.envs.mujoco.two")
    assert issubclass(two.Two, gym.Env) and two.Two.__module__ == "paddock.gym.envs.mujoco.two"
    assert not list(tmp_path.rglob("*.pyc"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("paddock.gym.envs.mujoco.three")


@pytest.mark.usefixtures("fresh_mujoco")
def test_without_gymnasium_its_modules_name_the_packages(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(DependencyNotInstalled, match=r"pip install 'gymnasium\[mujoco\]'"):
        importlib.import_module("paddock.gym.envs.mujoco")
