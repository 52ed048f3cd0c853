"""Walls by seed; one way along the border is always open."""

import random
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State

try:
    from ..models import MazeAction, MazeObservation
except ImportError:
    from models import MazeAction, MazeObservation

_WAYS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class MazeEnvironment(Environment[MazeAction, MazeObservation, State]):
    """From the first cell to the last."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, size, goal_reward=1.0):
        super().__init__()
        self.size, self.goal_reward = size, goal_reward
        self.reset(seed=0)

    def reset(self, seed=None, episode_id=None, **kwargs):
        draw = random.Random(seed)
        inner = [[row, column] for row in range(1, self.size) for column in range(self.size - 1)]
        self.walls = sorted(draw.sample(inner, self.size))
        self.position = [0, 0]
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return self._observe(None)

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        down, right = _WAYS[action.direction]
        to = [self.position[0] + down, self.position[1] + right]
        if not all(0 <= one < self.size for one in to) or to in self.walls:
            return self._observe(-0.5)
        self.position = to
        return self._observe(self.goal_reward if to == self._goal() else -0.1)

    def _goal(self):
        return [self.size - 1, self.size - 1]

    def _observe(self, reward):
        done = self.position == self._goal()
        return MazeObservation(position=self.position, goal=self._goal(), walls=self.walls, reward=reward, done=done)

    @property
    def state(self):
        return self._state
