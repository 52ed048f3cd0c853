"""The place of ``openenv.core.env_server.http_server``."""

from __future__ import annotations

from paddock.openenv.app import (
    create_app,
    create_fastapi_app,
)

__all__ = [
    "create_app",
    "create_fastapi_app",
]
