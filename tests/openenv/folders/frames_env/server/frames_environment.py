"""A bright square that moves over a screen of 210 x 160 x 3."""

from uuid import uuid4

import numpy as np
from openenv.core.env_server.interfaces import Action, Environment, Observation
from openenv.core.env_server.types import State

from frames_env.models import FramesAction, FramesObservation

_WAYS = np.array([[0, 0], [-8, 0], [8, 0], [0, -8], [0, 8]])


class FramesEnvironment(Environment):
    """Ends after a hundred frames."""

    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self, seed=None, episode_id=None, **kwargs) -> Observation:
        self.place = np.array([100, 80]) if seed is None else np.random.default_rng(seed).integers(8, 150, 2)
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return self._observe(0.0)

    def step(self, action: Action, timeout_s=None, **kwargs) -> Observation:
        assert isinstance(action, FramesAction)
        self._state.step_count += 1
        self.place = np.clip(self.place + _WAYS[action.action_id], 0, [202, 152])
        return self._observe(float(self.place[0]) / 210)

    def _observe(self, reward):
        screen = np.zeros((210, 160, 3), dtype=np.uint8)
        row, column = self.place
        screen[row : row + 8, column : column + 8] = (200, 72, 72)
        return FramesObservation(
            screen=screen.flatten().tolist(),
            screen_shape=list(screen.shape),
            legal_actions=list(range(len(_WAYS))),
            reward=reward,
            done=self._state.step_count >= 100,
        )

    @property
    def state(self) -> State:
        return self._state
