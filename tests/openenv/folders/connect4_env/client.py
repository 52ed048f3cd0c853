"""The client of connect4_env."""

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from .models import Connect4Action, Connect4Observation, Connect4State


class Connect4Env(EnvClient[Connect4Action, Connect4Observation, Connect4State]):
    """Plain: fields in, fields out."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        known = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = Connect4Observation(**{**payload.get("observation", {}), **known})
        return StepResult(observation=observation, **known)

    def _parse_state(self, payload):
        return Connect4State(**payload)
