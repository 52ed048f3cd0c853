"""The place of ``openenv.core.env_server.mcp_environment``."""

from __future__ import annotations

from paddock.openenv.mcp_environment import (
    MCP_TOOL_CALL_TIMEOUT,
    MCPEnvironment,
)

__all__ = [
    "MCP_TOOL_CALL_TIMEOUT",
    "MCPEnvironment",
]
