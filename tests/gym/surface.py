"""How the API of the installed Gymnasium and ours are compared; needs nothing but the two, so that it runs anywhere."""

import importlib
import inspect
import typing

# These need torch, jax and more to be imported from Gymnasium: tests/wrappers/test_arrays.py compares them, with those.
WITH_ARRAYS = {
    "array_conversion": "ArrayConversion",
    "jax_to_numpy": "JaxToNumpy",
    "jax_to_torch": "JaxToTorch",
    "numpy_to_torch": "NumpyToTorch",
}
# Ours take more: Gymnasium's close(timeout=1) passes its arguments on to a method that takes none.
WIDER = {"VectorEnv.close_extras"}
# Here Gymnasium departs from its own base classes: `reset(seed)` by position, and `act` for `action`.
AS_THE_BASE_CLASS = {"RecordEpisodeStatistics.reset", "DiscretizeAction.action"}


def public_names(module):
    """Names that a module offers: its __all__, and what it defines itself; imports and typing helpers are not."""
    names = set(getattr(module, "__all__", ()))
    names -= set() if module.__name__.endswith(tuple(WITH_ARRAYS)) else set(WITH_ARRAYS.values())
    for name, value in vars(module).items():
        home = getattr(value, "__module__", module.__name__)
        missing = value is None  # `plt` where Gymnasium did not find matplotlib
        helper = missing or isinstance(value, typing.TypeVar) or inspect.ismodule(value) or name == "TYPE_CHECKING"
        odd = callable(value) and not inspect.isclass(value) and not inspect.isfunction(value)
        if not name.startswith("_") and home == module.__name__ and not helper and not odd:
            names.add(name)
    return {n for n in names if not inspect.ismodule(getattr(module, n, None))}


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


def without_additions(ours, theirs):
    """Ours without keyword-only parameters that theirs does not have: nobody who calls theirs can notice those."""
    known = {name for name, _, _ in theirs or ()}
    return ours and [row for row in ours if row[0] in known or row[1] != "KEYWORD_ONLY"]


def check_name(path, name):
    """Ours has the name that Gymnasium's module ``path`` has, with the same signature and members."""
    theirs = getattr(importlib.import_module(f"gymnasium.{path}"), name)
    ours = getattr(importlib.import_module(f"paddock.gym.{path}"), name)
    if not callable(theirs):
        return
    is_protocol = inspect.isclass(theirs) and getattr(theirs, "_is_protocol", False)
    if is_protocol or (inspect.isclass(theirs) and issubclass(theirs, BaseException)):
        return
    assert without_additions(signature_of(ours), signature_of(theirs)) == signature_of(theirs)
    if inspect.isclass(theirs):
        for member, value in vars(theirs).items():
            if member.startswith("_"):
                continue
            assert hasattr(ours, member) or member in getattr(ours, "__annotations__", {}), f"{name}.{member}"
            if inspect.isfunction(value) and f"{name}.{member}" not in WIDER | AS_THE_BASE_CLASS:
                found, expected = signature_of(getattr(ours, member)), signature_of(value)
                assert without_additions(found, expected) == expected, f"{name}.{member}"
