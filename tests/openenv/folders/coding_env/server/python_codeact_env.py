"""Each step runs code; the reward is 1 if it ran."""

from uuid import uuid4

from openenv.core.env_server.interfaces import Action, Environment, Observation

try:
    from ..models import CodeAction, CodeObservation, CodeState
    from .interpreter import run
except ImportError:
    from models import CodeAction, CodeObservation, CodeState
    from server.interpreter import run


class PythonCodeActEnv(Environment):
    """An interpreter that keeps its variables until the next reset."""

    def __init__(self):
        super().__init__()
        self._names = {}
        self._state = CodeState()

    def reset(self, seed=None, episode_id=None, **kwargs) -> Observation:
        self._names = {}
        self._state = CodeState(episode_id=episode_id or str(uuid4()), step_count=0)
        return CodeObservation()

    def step(self, action: Action, timeout_s=None, **kwargs) -> Observation:
        if not isinstance(action, CodeAction):
            raise ValueError(f"Expected CodeAction, got {type(action)}")
        self._state.step_count += 1
        try:
            observation = CodeObservation(stdout=run(action.code, self._names), reward=1.0)
        except (SyntaxError, NameError, KeyError, ZeroDivisionError, TypeError) as error:
            observation = CodeObservation(stderr=f"{type(error).__name__}: {error}", exit_code=1, reward=-1.0)
        self._state.last_exit_code = observation.exit_code
        return observation

    @property
    def state(self) -> CodeState:
        return self._state
