"""The place of ``openenv.core.mcp_client``."""

from __future__ import annotations

from paddock.openenv.mcp_client import (
    GenericMCPObservation,
    MCPClientBase,
    MCPToolClient,
)

__all__ = [
    "GenericMCPObservation",
    "MCPClientBase",
    "MCPToolClient",
]
