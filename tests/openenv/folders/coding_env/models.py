"""Code in, what it printed out."""

from openenv.core.env_server.interfaces import Action, Observation, State


class CodeAction(Action):
    code: str


class CodeObservation(Observation):
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class CodeState(State):
    last_exit_code: int = 0
