"""One of FastMCP's tools, as in OpenEnv's echo_env. Needs OpenEnv itself."""

from fastmcp import FastMCP
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State


class Tools(MCPEnvironment):
    """Echoes a message."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("echo")

        @server.tool
        def echo_message(message: str) -> str:
            """Echo a message."""
            return message

        super().__init__(server)
        self._steps = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._steps = 0
        return Observation(done=False, reward=0.0, metadata={"status": "ready"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(done=False, reward=0.0)

    def step(self, action: CallToolAction, timeout_s=None, **kwargs) -> CallToolObservation:
        self._steps += 1
        return super().step(action, timeout_s=timeout_s, **kwargs)

    async def step_async(self, action, timeout_s=None, **kwargs):
        self._steps += 1
        return await super().step_async(action, timeout_s=timeout_s, **kwargs)

    @property
    def state(self):
        return State(episode_id="one", step_count=self._steps)
