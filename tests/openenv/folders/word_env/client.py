"""The client of word_env."""

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from .models import WordAction, WordObservation, WordState


class WordEnv(EnvClient[WordAction, WordObservation, WordState]):
    """Plain: fields in, fields out."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        known = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = WordObservation(**{**payload.get("observation", {}), **known})
        return StepResult(observation=observation, **known)

    def _parse_state(self, payload):
        return WordState(**payload)
