"""A reservoir: let water through the turbines, neither flooding the valley nor running dry. See docs/kernels.md."""

from typing import NamedTuple

from paddock.kernels import Kernel
from paddock.spaces import Box


class Params(NamedTuple):  # each is a constructor argument and an attribute; here `level` is a reset option too
    capacity: float = 100.0
    gate: float = 8.0  # the most water that the gate lets through in a day
    rain: float = 10.0  # the wettest day
    level: float = 50.0  # on the first day, give or take five


class State(NamedTuple):
    level: float
    inflow: float


def initial(rng, params):
    return State(params.level + rng.uniform(-5.0, 5.0), rng.uniform(0.0, params.rain))


def step(state, action, rng, params):
    release = min(action[0] * params.gate, state.level)
    level = state.level + state.inflow - release
    power = release * (0.5 + 0.5 * state.level / params.capacity)  # higher water turns the turbine harder
    inflow = 0.8 * state.inflow + 0.2 * rng.uniform(0.0, params.rain)
    flooded = level > params.capacity
    return State(level, inflow), -100.0 if flooded else power, flooded


def observe(state, params):
    return state.level / params.capacity, state.inflow / params.rain


SPACES = {"observation_space": Box(0.0, 2.0, (2,)), "action_space": Box(0.0, 1.0, (1,))}
KERNEL = Kernel(initial, step, observe, params=Params(), **SPACES)
KERNEL.register("me/Reservoir-v0", max_episode_steps=365)
