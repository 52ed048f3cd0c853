"""OneLane: one lane of a vector environment, seen as an environment. The lanes beside it stand still."""

from functools import partial

import numpy as np

from paddock.spaces.batch import concatenate, create_empty_array, iterate
from tests.conformance.envs import Idle

LANES = 3


def beside_idle(factory, lane):
    """Factories for LANES lanes, of which ``lane`` is the one under test."""
    return [factory if number == lane else partial(_idle, factory) for number in range(LANES)]


def _idle(factory):
    return Idle(factory())


class OneLane:
    """Lane ``lane`` of ``vector``, which must not begin episodes by itself."""

    def __init__(self, vector, lane):
        self.vector, self.lane = vector, lane
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space
        self.metadata = {key: value for key, value in vector.metadata.items() if key != "autoreset_mode"}
        self.render_mode = vector.render_mode
        self._begun = False

    def reset(self, *, seed=None, options=None):
        seeds = [None] * LANES
        seeds[self.lane] = seed
        if self._begun:  # the others are left alone
            options = {**(options or {}), "reset_mask": np.arange(LANES) == self.lane}
        observations, infos = self.vector.reset(seed=seeds, options=options)
        self._begun = True
        return self._own(observations), own_info(infos, self.lane)

    def step(self, action):
        room = create_empty_array(self.action_space, n=LANES)
        observations, *numbers, infos = self.vector.step(concatenate(self.action_space, [action] * LANES, room))
        assert [one.dtype for one in numbers] == [np.float64, np.bool_, np.bool_]
        rest = [one[self.lane].item() for one in numbers]
        return self._own(observations), *rest, own_info(infos, self.lane)

    def _own(self, observations):
        if self.vector.observation_space == self.vector.single_observation_space:
            return observations  # an empty tuple: there is nothing to iterate over
        return list(iterate(self.vector.observation_space, observations))[self.lane]

    def state(self):
        return self.vector.state()[self.lane]

    def render(self):
        return self.vector.render()[self.lane]

    def snapshot(self):
        return self.vector.snapshot()

    def restore(self, snapshot):
        self.vector.restore(snapshot)

    def has_wrapper_attr(self, name):
        return self.vector.call("has_wrapper_attr", name)[self.lane]

    def get_wrapper_attr(self, name):
        return self.vector.get_attr(name)[self.lane]

    def set_wrapper_attr(self, name, value):
        self.vector.set_attr(name, [value] * LANES)

    def call(self, name, *args, **kwargs):
        return self.vector.call(name, *args, **kwargs)[self.lane]

    @property
    def np_random(self):
        return self.vector.np_random[self.lane]

    @property
    def np_random_seed(self):
        return self.vector.np_random_seed[self.lane]

    def close(self):
        self.vector.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def as_in_lanes(value):
    """A value as a batch gives it back: numbers are NumPy's, 0-d arrays scalars, and dicts in any order."""
    if isinstance(value, dict):
        return {key: as_in_lanes(value[key]) for key in sorted(value, key=repr)}
    if type(value) is tuple:
        return tuple(as_in_lanes(part) for part in value)
    number = isinstance(value, (bool, float, np.ndarray)) or (isinstance(value, int) and abs(value) < 2**63)
    return np.asarray(value)[()] if number else value


def own_info(infos, lane):
    """One lane's part of a batch of infos."""
    own = {}
    for key, mask in infos.items():
        if key.startswith("_") and key[1:] in infos and mask[lane]:
            value = infos[key[1:]]
            own[key[1:]] = own_info(value, lane) if isinstance(value, dict) else value[lane]
    return own
