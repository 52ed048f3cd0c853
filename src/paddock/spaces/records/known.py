"""Records of paddock's own, which both ends of a wire know: they arrive as what they were, all others as their fields.

A name from elsewhere chooses among these classes and nothing else. It has a number, to be raised when a field changes:
an end with other fields takes the record for one that it does not know.
"""

from __future__ import annotations

from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import Any

# By text: they live in layers above this one, and are loaded when the first one arrives.
_HOMES = {
    "agentic.CallTool.1": ("paddock.agentic.actions", "CallTool"),
    "agentic.ListTools.1": ("paddock.agentic.actions", "ListTools"),
    "agentic.Say.1": ("paddock.agentic.actions", "Say"),
    "agentic.Observation.1": ("paddock.agentic.observations", "Observation"),
}
_NAMES = {home: name for name, home in _HOMES.items()}
# The names that Structs of them have, in JSON.
_UNIONS = {
    "Observation": ("agentic.Observation.1",),
    "CallTool | ListTools | Say": ("agentic.CallTool.1", "agentic.ListTools.1", "agentic.Say.1"),
}


def known_name(cls: type) -> str | None:
    """What a class is called on the wire, if both ends know it."""
    return _NAMES.get((cls.__module__, cls.__qualname__))


@cache
def _class(name: str) -> Any:
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def known_class(name: str) -> Any:
    """The class of that name; None for any other."""
    return _class(name) if name in _HOMES else None


def known_record(name: str) -> Any:
    """The class or union of a Struct of that name; None for any other."""
    classes = map(_class, _UNIONS.get(name, ()))
    return reduce(or_, classes) if name in _UNIONS else None
