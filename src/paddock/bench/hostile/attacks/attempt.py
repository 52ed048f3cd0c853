"""Hostile: an environment whose step is an attack. It says honestly how that went; whoever judges looks elsewhere."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.spaces import Box, Discrete

NOTHING = np.zeros(2, np.float32)


class Hostile(Env[Any, Any]):
    """Tries ``attempt`` in every step. ``told`` is where the canaries are, and how far to go."""

    metadata = {"render_modes": []}

    def __init__(self, **told: Any) -> None:
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)
        self.told = told
        self.steps = 0

    def attempt(self) -> str:
        """The attack. What it brings back is the loot; an OSError means that it was denied."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        return NOTHING, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        return NOTHING, 0.0, False, False, tried(self.attempt)


def tried(attempt: Callable[[], str]) -> Info:
    """How the attempt went, as info."""
    try:
        loot = attempt()
    except MemoryError:
        return {"attack": "denied: MemoryError"}
    except OSError as error:
        return {"attack": f"denied: {name_of(error)}"}
    except Exception as error:
        return {"attack": f"failed: {type(error).__name__}: {error}"}
    return {"attack": "succeeded", "loot": loot}


def name_of(error: OSError) -> str:
    """As EPERM."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def first_that_works(*attempts: Callable[[], str]) -> str:
    """The loot of the first attempt that is not denied; if all are, the last denial."""
    denial: OSError = PermissionError(errno.EPERM, "nothing was tried")
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            denial = error
    raise denial
