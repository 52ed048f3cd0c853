"""A small environment of dm_env: every kind of spec, both ways to end, and a stream as bsuite's have it."""

import dm_env
import numpy as np
from dm_env import specs


class Walk(dm_env.Environment):
    def __init__(self, stream, length=5, discount=0.0):
        self._rng, self._length, self._discount = stream, length, discount
        self.closed = 0

    def reset(self):
        self._left, self._place = self._length, int(self._rng.randint(4))
        return dm_env.restart(self._seen())

    def step(self, action):
        if not self._left:
            return self.reset()
        self._left -= 1
        self._place = (self._place + int(action)) % 4
        if self._left:
            return dm_env.transition(float(action), self._seen(), discount=0.9)
        return dm_env.TimeStep(dm_env.StepType.LAST, 1.0, self._discount, self._seen())

    def _seen(self):
        return {
            "place": self._place,
            "parts": [np.float32(self._left / 10), np.array([True, False])],
            "left": self._left,
        }

    def observation_spec(self):
        return {
            "place": specs.DiscreteArray(4),
            "parts": [specs.BoundedArray((), np.float32, 0.0, 1.0), specs.Array((2,), bool)],
            "left": specs.Array((), np.int64),
        }

    def action_spec(self):
        return specs.DiscreteArray(3)

    def close(self):
        self.closed += 1


class Hidden(Walk):
    """Its stream can't be found from outside."""

    def __init__(self):
        super().__init__(None)
        self.__dict__["stream of its own"] = np.random.RandomState(1)

    def reset(self):
        self._left, self._place = self._length, 0
        return dm_env.restart(self._seen())


def walk(seed=None, length=5, discount=0.0):
    return Walk(np.random.RandomState(seed), length, discount)


def hidden():
    return Hidden()
