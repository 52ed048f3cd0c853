"""Environments written for other libraries, made into paddock's own. What they need is imported when one is made."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "from_gymnasium": "paddock.sources.gymnasium",
    "from_dm_env": "paddock.sources.dm_env",
    "from_gym3": "paddock.sources.gym3",
    "from_gymnax": "paddock.sources.gymnax",
    "from_gym": "paddock.sources.old_gym",
    "from_pettingzoo": "paddock.sources.pettingzoo",
}

__all__ = list(_HOMES)

# What specs name, whichever file it is in.
_CLASSES = {
    "EnvPoolEnv": "paddock.sources.envpool",
    "EnvPoolLanes": "paddock.sources.envpool",
    "FromDmControl": "paddock.sources.dm_control",
    "FromDmEnv": "paddock.sources.dm_env",
    "FromGym": "paddock.sources.old_gym",
    "FromGym3": "paddock.sources.gym3",
    "FromGymnasium": "paddock.sources.gymnasium",
    "FromGymnax": "paddock.sources.gymnax",
    "FromPettingZoo": "paddock.sources.pettingzoo",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or _CLASSES.get(name)
    if home is None:
        raise AttributeError(f"module 'paddock.sources' has no attribute {name!r}")
    return getattr(import_module(home), name)
