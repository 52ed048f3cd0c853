"""A small environment of gym3: guess the number that was seen; ``num`` lanes, episodes of ``length`` steps."""

import gym3
import numpy as np
from gym3.types import DictType, Discrete, Real, TensorType


class Guess(gym3.Env):
    def __init__(self, num=1, length=4, seed=0):
        number = TensorType(Discrete(5), ())
        seen = DictType(number=number, marks=TensorType(Discrete(3, "uint8"), (2,)), place=TensorType(Real(), ()))
        super().__init__(seen, number, num)
        self._random, self._length, self._time = np.random.RandomState(seed), length, 0
        self._rewards = np.zeros(num, np.float32)
        self._draw()

    def _draw(self):
        self._number = self._random.randint(5, size=self.num)

    def observe(self):
        marks = np.full((self.num, 2), self._time % 3, np.uint8)
        place = np.full(self.num, self._time, np.float32)
        first = np.full(self.num, self._time == 0)
        return self._rewards.copy(), {"number": self._number.copy(), "marks": marks, "place": place}, first

    def act(self, ac):
        assert ac.dtype == np.int64
        self._rewards = (ac == self._number).astype(np.float32)
        self._time = (self._time + 1) % self._length
        self._draw()


def guess(seed=0, length=4):
    return Guess(1, length, seed)


def two():
    return Guess(2)


def unseeded():
    return Guess()
