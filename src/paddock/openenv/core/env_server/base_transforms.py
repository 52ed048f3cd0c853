"""The place of ``openenv.core.env_server.base_transforms``."""

from __future__ import annotations

from paddock.openenv.environment import (
    CompositeTransform,
    NullTransform,
)

__all__ = [
    "CompositeTransform",
    "NullTransform",
]
