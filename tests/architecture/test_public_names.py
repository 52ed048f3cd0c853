"""The names that users may rely on. A name added to or dropped from `paddock` is an edit here, on purpose."""

import ast
import inspect

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
    "Policy",
    "RemoteOptions",
    "RewardWrapper",
    "Space",
    "State",
    "VectorEnv",
    "Wrapper",
    "WrapperSpec",
    "__version__",
    "agentic",
    "check_env",
    "envs",
    "errors",
    "gym",
    "kernels",
    "make",
    "make_async",
    "make_vec",
    "permissions",
    "pprint_registry",
    "register",
    "registry",
    "sandbox",
    "seat",
    "sources",
    "spaces",
    "spec",
    "state",
    "testing",
    "to_gymnasium",
    "vector",
    "warm",
    "wrappers",
]


def test_public_names_are_the_promised_ones():
    assert sorted(paddock.__all__) == PUBLIC


def test_type_checkers_see_the_public_names_and_no_others():
    blocks = [node for node in ast.parse(inspect.getsource(paddock)).body if isinstance(node, ast.If)]
    (block,) = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
    # Only `import name as name` is a re-export to a strict checker.
    seen = [alias.asname for statement in block.body for alias in statement.names if alias.asname == alias.name]
    assert sorted(seen) == sorted(set(paddock.__all__) - {"__version__"})


def test_dir_shows_the_public_names_and_no_others():
    shown = {name for name in dir(paddock) if not name.startswith("_")}
    known_errors = {row[0].__name__ for row in paddock.errors.table()}
    assert shown == {name for name in PUBLIC if not name.startswith("_")} | known_errors


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
