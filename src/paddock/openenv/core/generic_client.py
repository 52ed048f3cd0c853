"""The place of ``openenv.core.generic_client``."""

from __future__ import annotations

from paddock.openenv.generic_client import (
    GenericAction,
    GenericEnvClient,
)

__all__ = [
    "GenericAction",
    "GenericEnvClient",
]
