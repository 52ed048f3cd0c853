"""Loading code that a spec names. Entry points of Gymnasium's own classes mean ours of the same name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from paddock.core.problem import kind
from paddock.core.registry import check_entry_point
from paddock.errors import RegistrationError

# Specs written by Gymnasium name its modules; the class names are the same here, the files are not.
_OURS = {
    "gymnasium.wrappers.vector": "paddock.wrappers.vector",
    "gymnasium.wrappers": "paddock.wrappers",
    "gymnasium.envs": "paddock.envs",
}


def load(entry_point: str | Callable[..., Any]) -> Callable[..., Any]:
    """The callable that an entry point names."""
    found = load_object(entry_point) if isinstance(entry_point, str) else entry_point
    if not callable(found):
        raise RegistrationError(f"{entry_point!r} is {kind(found)}, expected a class or function.")
    return found


def load_object(entry_point: str) -> Any:
    """Import the module and return the attribute, whatever it is."""
    module_name, attribute = check_entry_point(entry_point)
    for theirs, ours in _OURS.items():
        if module_name == theirs or module_name.startswith(theirs + "."):
            module_name = ours
            break
    found: Any = importlib.import_module(module_name)
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            hint = " Put it into a module of its own." if module_name == "__main__" else ""
            raise RegistrationError(f"{entry_point!r}: {module_name} has no {attribute!r}.{hint}") from None
    return found
