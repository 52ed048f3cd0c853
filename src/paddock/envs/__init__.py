"""The environments that come with paddock. Classes load when first asked for; the catalog alone needs no NumPy."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "CartPoleEnv": "paddock.envs.classic_control.cartpole",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'paddock.envs' has no attribute {name!r}")
