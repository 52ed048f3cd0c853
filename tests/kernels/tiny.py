"""A kernel that is quick to compile, whose step a test replaces."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from paddock.kernels import Kernel
from paddock.spaces import Box, Discrete


class Params(NamedTuple):
    gain: float = 1.0


class State(NamedTuple):
    x: float


def initial(rng, params):
    return State(rng.uniform(0.0, 1.0))


def step(state, action, rng, params):
    return State(state.x + params.gain), 1.0, False


def observe(state, params):
    return state.x


tiny = Kernel(initial, step, observe, params=Params(), observation_space=Box(-1e9, 1e9, (1,)), action_space=Discrete(2))


def kernel_of(function):
    """``tiny`` with another step."""
    return replace(tiny, step=function)


class Table(NamedTuple):
    table: Any = np.arange(1000.0)


def read_table(state, action, rng, params):
    return State(state.x + 1.0), params.table[int(state.x)], False


def tabled():
    """``tiny`` with an array among its params."""
    return replace(tiny, step=read_table, params=Table())
