"""The tool actions and observations of OpenEnv."""

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

__all__ = ["CallToolAction", "CallToolObservation"]
