"""The place of ``openenv.core.env_server.serialization``."""

from __future__ import annotations

from paddock.openenv.serialization import (
    deserialize_action,
    serialize_observation,
)

__all__ = [
    "deserialize_action",
    "serialize_observation",
]
