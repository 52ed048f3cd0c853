"""Environments written for other libraries, made into paddock's own. What they need is imported when one is made."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# By module: the function for users, and the classes that specs name, whichever file they are in.
_NAMES = {
    "gymnasium": "from_gymnasium FromGymnasium",
    "dm_env": "from_dm_env FromDmEnv",
    "gym3": "from_gym3 FromGym3",
    "gymnax": "from_gymnax FromGymnax",
    "old_gym": "from_gym FromGym",
    "pettingzoo": "from_pettingzoo FromPettingZoo",
    "dm_control": "FromDmControl",
    "envpool": "EnvPoolEnv EnvPoolLanes",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [name for name in _HOMES if name.startswith("from_")]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock.sources' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
