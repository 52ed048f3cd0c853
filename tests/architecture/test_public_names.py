"""The names that users may rely on. A name added to or dropped from `paddock` is an edit here, on purpose."""

import pytest

import paddock

PUBLIC = [
    "ActionWrapper",
    "AutoresetMode",
    "Env",
    "EnvSpec",
    "LaneOptions",
    "ObservationWrapper",
    "OpenEnv",
    "PaddockError",
    "RemoteOptions",
    "RewardWrapper",
    "Space",
    "State",
    "VectorEnv",
    "Wrapper",
    "WrapperSpec",
    "__version__",
    "check_env",
    "envs",
    "errors",
    "gym",
    "make",
    "make_vec",
    "pprint_registry",
    "register",
    "registry",
    "spaces",
    "spec",
    "state",
    "testing",
    "to_gymnasium",
    "vector",
    "wrappers",
]


def test_public_names_are_the_promised_ones():
    assert sorted(paddock.__all__) == PUBLIC


def test_dir_shows_the_public_names_and_no_others():
    shown = {name for name in dir(paddock) if not name.startswith("_")}
    assert shown == {name for name in PUBLIC if not name.startswith("_")}


def test_every_public_name_resolves_to_one_lasting_object():
    assert all(getattr(paddock, name) is getattr(paddock, name) for name in PUBLIC)


def test_every_error_is_a_name_of_the_root_too():
    ours = [cls for cls, *_ in paddock.errors.table() if cls.__module__ == "paddock.errors"]
    assert [cls for cls in ours if getattr(paddock, cls.__name__) is not cls] == []


def test_star_import_gives_the_public_names():
    seen = {}
    exec("from paddock import *", seen)
    assert set(PUBLIC) <= seen.keys()


def test_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no_such_name"):
        paddock.no_such_name
