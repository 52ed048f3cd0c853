"""The client of frames_env."""

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import State

from .models import FramesAction, FramesObservation


class FramesEnv(EnvClient[FramesAction, FramesObservation, State]):
    """Plain: fields in, fields out."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        known = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = FramesObservation(**{**payload.get("observation", {}), **known})
        return StepResult(observation=observation, **known)

    def _parse_state(self, payload):
        return State(**payload)
