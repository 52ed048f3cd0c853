"""The place of ``openenv.core.env_server.interfaces``."""

from __future__ import annotations

from paddock.openenv.environment import (
    Environment,
    Message,
    ModelTokenizer,
    TaskProvider,
    Transform,
)

__all__ = [
    "Environment",
    "Message",
    "ModelTokenizer",
    "TaskProvider",
    "Transform",
]
