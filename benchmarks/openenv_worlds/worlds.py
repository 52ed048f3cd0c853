"""Environments written for OpenEnv that do as little as they can. Without OpenEnv they use paddock's names for it."""

import random

try:
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
except ImportError:
    from paddock.openenv.core.env_server.interfaces import Environment
    from paddock.openenv.core.env_server.types import Action, Observation, State


class Asked(Action):
    """A number, or the size of an array."""

    value: int


class Seen(Observation):
    """What was asked for."""

    value: int = 0
    pixels: list[int] = []


_ARRAYS = {size: random.Random(0).choices(range(256), k=size) for size in (84 * 84 * 4, 1 << 20)}


class Echo(Environment[Asked, Seen, State]):
    """Echoes a number, and arrays as OpenEnv has to send them: lists of ints. The action says what is wanted."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Seen()

    def step(self, action, timeout_s=None, **kwargs):
        return Seen(value=action.value, pixels=_ARRAYS.get(action.value, []), reward=1.0, done=False)

    @property
    def state(self):
        return State(episode_id="one", step_count=0)
