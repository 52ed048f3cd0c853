"""The place of ``openenv.core.env_client``."""

from __future__ import annotations

from paddock.openenv.client import (
    EnvClient,
)

__all__ = [
    "EnvClient",
]
