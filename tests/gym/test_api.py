"""The API diff: every public name and signature of the installed Gymnasium, in `paddock.gym` under the same path.

What later issues bring is in KNOWN_GAPS, one list that shrinks: a gap that has been filled must leave it.
"""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing

import gymnasium
import pytest

KNOWN_GAPS = {
    "utils.play": "with the wrappers",
    "utils.save_video": "with the wrappers",
    "vector.utils.create_shared_memory": "with the process lanes",
    "vector.utils.read_from_shared_memory": "with the process lanes",
    "vector.utils.write_to_shared_memory": "with the process lanes",
    "vector.utils.CloudpickleWrapper": "with the process lanes",
    "vector.utils.clear_mpi_env_vars": "with the process lanes",
    "vector.utils.misc": "with the process lanes",
    "vector.utils.shared_memory": "with the process lanes",
}
COVERED = ("core", "spaces", "envs.registration", "utils", "error", "logger", "vector.utils", "experimental")


def modules():
    found = []
    for name in COVERED:
        module = importlib.import_module(f"gymnasium.{name}")
        found.append(name)
        for child in pkgutil.iter_modules(getattr(module, "__path__", [])):
            found.append(f"{name}.{child.name}")
    return found


def public_names(module):
    """Names that a module offers: its __all__, and what it defines itself; imports and typing helpers are not."""
    names = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        home = getattr(value, "__module__", module.__name__)
        helper = isinstance(value, typing.TypeVar) or inspect.ismodule(value) or name == "TYPE_CHECKING"
        odd = callable(value) and not inspect.isclass(value) and not inspect.isfunction(value)
        if not name.startswith("_") and home == module.__name__ and not helper and not odd:
            names.add(name)
    return {n for n in names if not inspect.ismodule(getattr(module, n, None))}


def pairs():
    for path in modules():
        if path in KNOWN_GAPS:
            continue
        for name in sorted(public_names(importlib.import_module(f"gymnasium.{path}"))):
            if f"{path}.{name}" not in KNOWN_GAPS:
                yield path, name


def shape(signature):
    """A signature without annotations: names, kinds and plain defaults."""
    rows = []
    for parameter in signature.parameters.values():
        default = parameter.default
        plain = default is inspect.Parameter.empty or isinstance(default, (bool, int, float, str, tuple, type(None)))
        rows.append((parameter.name, parameter.kind.name, default if plain else "some default"))
    return rows


def signature_of(value):
    try:
        return shape(inspect.signature(value))
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize(("path", "name"), list(pairs()))
def test_the_name_exists_with_the_same_signature(path, name):
    theirs = getattr(importlib.import_module(f"gymnasium.{path}"), name)
    ours = getattr(importlib.import_module(f"paddock.gym.{path}"), name)
    if not callable(theirs):
        return
    is_protocol = inspect.isclass(theirs) and getattr(theirs, "_is_protocol", False)
    if is_protocol or (inspect.isclass(theirs) and issubclass(theirs, BaseException)):
        return
    assert signature_of(ours) == signature_of(theirs)
    if inspect.isclass(theirs):
        for member, value in vars(theirs).items():
            if member.startswith("_"):
                continue
            assert hasattr(ours, member) or member in getattr(ours, "__annotations__", {}), f"{name}.{member}"
            if inspect.isfunction(value):
                assert signature_of(getattr(ours, member)) == signature_of(value), f"{name}.{member}"


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


LATER_MODULES = ("vector.async_vector_env", "vector.utils.misc", "vector.utils.shared_memory", "wrappers.")


def loaded_submodules():
    """Dotted names that `import gymnasium` alone makes reachable; asked in a fresh interpreter."""
    code = "import gymnasium, sys; print(*(m for m in sys.modules if m.startswith('gymnasium.')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = (name.removeprefix("gymnasium.") for name in done.stdout.split())
    return sorted(n for n in names if not n.startswith(LATER_MODULES) or n in ("wrappers.common", "wrappers.rendering"))


def test_submodules_are_attributes_after_one_import():
    missing = []
    for name in loaded_submodules():
        found = importlib.import_module("paddock.gym")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            missing.append(name)
    assert missing in ([], ["utils.colorize"]), missing  # a function of that name hides the module, as in Gymnasium
