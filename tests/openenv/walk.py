"""A small environment of plain spaces, and a question to its session."""

import json
import math

import numpy as np

from paddock.core.env import Env
from paddock.spaces import Box, Dict, Discrete


class Walk(Env):
    """Stands at a number; goes left or right."""

    metadata = {"render_modes": []}

    def __init__(self):
        self.observation_space = Dict({"at": Box(-np.inf, np.inf, (2,)), "moves": Discrete(9)})
        self.action_space = Discrete(2)
        self.moves = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.moves = 0
        return self._seen(), {"options": options}

    def _seen(self):
        return {"at": np.array([self.moves, np.inf], np.float32), "moves": np.int64(self.moves)}

    def step(self, action):
        self.moves += 1
        reward = math.nan if self.moves == 2 else float(action)
        return self._seen(), reward, self.moves == 3, False, {"array": np.arange(3), "bytes": b"ab"}

    def public_state(self):
        return {"moves": self.moves}


def ask(session, **message):
    return json.loads(session.ask(json.dumps(message)))
