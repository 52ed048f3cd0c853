"""MountainCarContinuous: MountainCar with an engine that can be throttled.

Gymnasium keeps its state in float64 until the first step and in float32 from then on, so NumPy's promotion decides
the bits: a Python number takes the type of what it meets, float32 meets float64 in float64. Each quantity here has
such a kind beside its value.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paddock.envs.classic_control.classic_env import continuable
from paddock.envs.classic_control.mountain_car import HillEnv, observation_space, observe, observed_bounds
from paddock.kernels import Kernel, KernelVectorEnv, f32, power
from paddock.spaces import Box

# A result has the greater kind of its operands.
PYTHON, SINGLE, DOUBLE = range(3)


class Params(NamedTuple):
    """``low`` and ``high`` bound the first position, and are reset options; the others are attributes."""

    min_action: float = -1.0
    max_action: float = 1.0
    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    power: float = 0.0015
    low: float = -0.6
    high: float = -0.4


class State(NamedTuple):
    """Where the car is, how fast it goes, and of which kind both numbers are."""

    position: float
    velocity: float
    kind: int


def initial(rng: Any, params: Params) -> State:
    """At rest near the bottom of the valley."""
    return State(rng.uniform(params.low, params.high), 0.0, DOUBLE)


def step(state: State, action: Any, rng: Any, params: Params) -> tuple[State, float, bool]:
    """As MountainCar's, with the rounding that NumPy would do."""
    position, velocity, kind = state
    throttle = action[0]
    slope = 0.0025 * math.cos(f32(3.0 * position) if kind == SINGLE else 3.0 * position)
    force, force_kind = limit(throttle, SINGLE, params.min_action, params.max_action)
    if force_kind == SINGLE:
        push = f32(f32(force * f32(params.power)) - f32(slope))
    else:
        push = force * params.power - slope

    velocity, velocity_kind = add(velocity, kind, push, force_kind)
    velocity, velocity_kind = limit(velocity, velocity_kind, -params.max_speed, params.max_speed)
    position, position_kind = add(position, kind, velocity, velocity_kind)
    position, position_kind = limit(position, position_kind, params.min_position, params.max_position)
    if velocity < 0.0 and position == as_kind(params.min_position, position_kind):
        velocity, velocity_kind = 0.0, PYTHON

    arrived = position >= as_kind(params.goal_position, position_kind)
    arrived = arrived and velocity >= as_kind(params.goal_velocity, velocity_kind)
    reward = (100.0 if arrived else 0.0) - power(throttle, 2.0) * 0.1
    return State(as_single(position, position_kind), as_single(velocity, velocity_kind), SINGLE), reward, arrived


def as_kind(number: float, kind: int) -> float:
    """A Python number as it is when it meets a value of some kind."""
    return f32(number) if kind == SINGLE else number


def as_single(value: float, kind: int) -> float:
    """A value of some kind as float32."""
    return value if kind == SINGLE else f32(value)


def add(x: float, x_kind: int, y: float, y_kind: int) -> tuple[float, int]:
    """The sum and its kind."""
    if x_kind == DOUBLE or y_kind == DOUBLE:
        return x + y, DOUBLE
    if x_kind == PYTHON and y_kind == PYTHON:
        return x + y, PYTHON
    return f32(as_single(x, x_kind) + as_single(y, y_kind)), SINGLE


def limit(value: float, kind: int, low: float, high: float) -> tuple[float, int]:
    """A value, or the bound that it exceeds, which is a Python number.

    A float32 beyond a bound rounded to float32 is beyond the bound itself, so few bounds need be rounded.
    """
    if value < low and value < as_kind(low, kind):
        value, kind = low, PYTHON
    if value > high and value > as_kind(high, kind):
        value, kind = high, PYTHON
    return value, kind


def action_space(params: Params) -> Box:
    return Box(params.min_action, params.max_action, shape=(1,), dtype=np.float32)


def valid(state: State, params: Params) -> bool:
    """As ``continuable``, and of a kind that exists."""
    return continuable(state, params) and PYTHON <= state.kind <= DOUBLE


KERNEL = Kernel(
    initial, step, observe, params=Params(), observation_space=observation_space, action_space=action_space, valid=valid
)


class Continuous_MountainCarEnv(HillEnv):  # noqa: N801 - Gymnasium's name
    """Throttle between -1 and 1; effort costs a tenth of its square, and the flag is worth 100."""

    kernel = KERNEL

    def __init__(self, render_mode: str | None = None, goal_velocity: float = 0) -> None:
        super().__init__(render_mode, goal_velocity=goal_velocity)
        self.low_state, self.high_state = observed_bounds(self._params)

    def _state_dtype(self, state: Any) -> Any:
        return np.float32 if state.kind == SINGLE else np.float64

    def _state_of(self, values: Any) -> State:
        """Of the kind that NumPy would calculate in."""
        position, velocity = values
        types = {type(position), type(velocity)}
        kind = PYTHON if types <= {int, float} else SINGLE if types == {np.float32} else DOUBLE
        return State(float(position), float(velocity), kind)


class Continuous_MountainCarVectorEnv(KernelVectorEnv):  # noqa: N801
    env_type = Continuous_MountainCarEnv
