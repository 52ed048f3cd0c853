"""Arithmetic whose last bit matters: compiled it is what it is in Python, on a hundred thousand numbers each."""

import math
from typing import NamedTuple

import numpy as np
import pytest

from paddock.kernels import Kernel, cos32, f32, power, power32, sin32
from paddock.kernels.vector import vector_class
from paddock.spaces import Box

COUNT = 100_000


class Params(NamedTuple):
    unused: float = 0.0


class State(NamedTuple):
    x: float
    y: float


def initial(rng, params):
    return State(0.0, 0.0)


def step(state, action, rng, params):
    return State(action[0], action[1]), 0.0, False


def observe(state, params):
    x, y = state.x, state.y
    return power(x, y), power32(x, y), f32(x), cos32(x), sin32(x), math.sin(x), math.exp(y), math.atan2(x, y), x % 0.7


KERNEL = Kernel(
    initial,
    step,
    observe,
    params=Params(),
    observation_space=Box(-np.inf, np.inf, (9,), np.float64),
    action_space=Box(-np.inf, np.inf, (2,), np.float64),
)
NAMES = ("power", "power32", "f32", "cos32", "sin32", "math.sin", "math.exp", "math.atan2", "%")


def numbers(seed, case):
    rng = np.random.default_rng(seed)
    if case == "squares":
        return rng.normal(0, 5, COUNT), np.full(COUNT, 2.0)
    if case == "roots":
        return np.abs(rng.normal(0, 5, COUNT)), rng.choice([0.5, 1.5, 3.0, -1.0, 1 / 3], COUNT)
    if case == "small angles":
        return rng.uniform(-math.pi / 4, math.pi / 4, COUNT), rng.choice([2.0, 3.0], COUNT)
    if case == "acrobot's beginning":
        return rng.uniform(-0.1, 0.1, COUNT), np.full(COUNT, 2.0)
    exponents = rng.uniform(-30, 30, COUNT)
    return np.sign(rng.normal(size=COUNT)) * 10.0**exponents, np.full(COUNT, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["squares", "roots", "small angles", "acrobot's beginning", "any size"])
def test_compiled_arithmetic_equals_pythons(seed, case):
    env = vector_class(KERNEL)(COUNT)
    assert env._lanes.compiled
    env.reset(seed=0)
    x, y = numbers(seed, case)
    compiled = env.step(np.stack([x, y], axis=1))[0]
    with np.errstate(over="ignore", under="ignore"):
        python = np.array([observe(State(*pair), None) for pair in zip(x.tolist(), y.tolist(), strict=True)])
    for at, name in enumerate(NAMES):
        if name in ("cos32", "sin32") and case not in ("small angles", "acrobot's beginning"):
            continue  # documented for |x| <= pi/4
        differ = np.flatnonzero(compiled[:, at].view(np.int64) != python[:, at].view(np.int64))
        assert differ.size == 0, f"{name}({x[differ[0]]!r}, {y[differ[0]]!r})"


def test_power_is_libms_and_no_product():
    x = np.random.default_rng(0).normal(0, 5, COUNT)
    squares = np.array([power(value, 2.0) for value in x.tolist()])
    assert (squares != x * x).any()
