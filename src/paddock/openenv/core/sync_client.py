"""The place of ``openenv.core.sync_client``."""

from __future__ import annotations

from paddock.openenv.sync_client import (
    SyncEnvClient,
)

__all__ = [
    "SyncEnvClient",
]
