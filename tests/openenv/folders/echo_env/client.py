"""The client of echo_env."""

from openenv.core.mcp_client import MCPToolClient


class EchoEnv(MCPToolClient):
    """Tools: echo_message and echo_with_length."""
