"""The client of maze_env."""

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import State

from .models import MazeAction, MazeObservation


class MazeEnv(EnvClient[MazeAction, MazeObservation, State]):
    """Plain: fields in, fields out."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        known = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = MazeObservation(**{**payload.get("observation", {}), **known})
        return StepResult(observation=observation, **known)

    def _parse_state(self, payload):
        return State(**payload)
