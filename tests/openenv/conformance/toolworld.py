"""The same with tools; apart, because FastMCP takes seconds to import."""

from fastmcp import FastMCP
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Observation, State


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


class Tools(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, *names):
        server = FastMCP("t")
        server.tool(add)
        server.tool(fail)
        for name in names:
            server.tool(add, name=name)
        super().__init__(server)

        @self.tool(mode="simulation")
        def cheat(x: int) -> int:
            """Only in training."""
            return -x

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation(reward=0.0)

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(metadata={"other": type(action).__name__})

    @property
    def state(self):
        return State(episode_id="t")
