"""An environment of someone else's, for records: its code is not paddock's, so its digest names the file it is in."""

import paddock
from paddock.spaces import Discrete


class Walk(paddock.Env):
    """Left or right, from a place that the seed chooses."""

    def __init__(self):
        self.observation_space, self.action_space = Discrete(100), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(40, 60))
        return self.place, {}

    def step(self, action):
        self.place += 2 * int(action) - 1
        return self.place, 1.0, False, False, {}
