"""Pendulum: swing a rod up and hold it there. The torque and its products are float32, all else is float64.

Squares are ``power(x, 2.0)``: Gymnasium's ``x**2`` of a NumPy scalar is libm's pow, not x*x.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paddock.envs.classic_control.classic_env import ClassicControlEnv, clip, continuable
from paddock.kernels import Kernel, KernelVectorEnv, f32, power, power32
from paddock.spaces import Box

DEFAULT_X = math.pi
DEFAULT_Y = 1.0
_EFFORT_WEIGHT = f32(0.001)


class Params(NamedTuple):
    """``x_init`` and ``y_init`` bound the first angle and speed, and are reset options; the others are attributes."""

    max_speed: float = 8.0
    max_torque: float = 2.0
    dt: float = 0.05
    g: float = 10.0
    m: float = 1.0
    l: float = 1.0
    x_init: float = DEFAULT_X
    y_init: float = DEFAULT_Y


class State(NamedTuple):
    """How the rod hangs and turns, and what pushed it last."""

    theta: float  # 0 is upright; it is never wrapped
    speed: float
    last_torque: float  # NaN before the first step
    plain: bool  # assigned as Python numbers: see step


def initial(rng: Any, params: Params) -> State:
    """At any angle, turning slowly."""
    theta = rng.uniform(-params.x_init, params.x_init)
    return State(theta, rng.uniform(-params.y_init, params.y_init), math.nan, False)


def step(state: State, action: Any, rng: Any, params: Params) -> tuple[State, float, bool]:
    """The cost is of the state before the step, and of the torque."""
    theta, speed = state.theta, state.speed
    torque = action[0]
    if abs(torque) > params.max_torque:
        torque = math.copysign(f32(params.max_torque), torque)
    cost = power(angle_normalize(theta), 2.0) + 0.1 * power(speed, 2.0)
    effort = f32(_EFFORT_WEIGHT * power32(torque, 2.0))
    # A Python float plus a float32 is a float32 in NumPy: so is the reward after `env.state = (1.0, 0.0)`.
    cost = f32(f32(cost) + effort) if state.plain else cost + effort
    gravity = 3.0 * params.g / (2.0 * params.l) * math.sin(theta)
    drive = f32(f32(3.0 / (params.m * power(params.l, 2.0))) * torque)
    speed = clip(speed + (gravity + drive) * params.dt, -params.max_speed, params.max_speed)
    return State(theta + speed * params.dt, speed, torque, False), -cost, False


def angle_normalize(x: float) -> float:
    """The same angle in [-pi, pi)."""
    return ((x + math.pi) % (2.0 * math.pi)) - math.pi


def observe(state: State, params: Params) -> tuple[float, float, float]:
    """Where the tip is, and the speed."""
    return math.cos(state.theta), math.sin(state.theta), state.speed


def observation_space(params: Params) -> Box:
    high = np.array([1.0, 1.0, params.max_speed], dtype=np.float32)
    return Box(-high, high, dtype=np.float32)


def action_space(params: Params) -> Box:
    return Box(-params.max_torque, params.max_torque, shape=(1,), dtype=np.float32)


def valid(state: State, params: Params) -> bool:
    """As ``continuable``; the last torque may be anything: it is only shown."""
    return continuable((state.theta, state.speed), params)


KERNEL = Kernel(
    initial, step, observe, params=Params(), observation_space=observation_space, action_space=action_space, valid=valid
)


class PendulumEnv(ClassicControlEnv):
    """Apply a torque; the reward is minus the cost of angle, speed and effort. An episode never terminates."""

    kernel = KERNEL
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 30}
    state_size = 2
    start_options = ("x_init", "y_init")
    screen_dim = 500

    def __init__(self, render_mode: str | None = None, g: float = 10.0) -> None:
        super().__init__(render_mode, g=g)

    def _start_bounds(self, start: Any) -> list[tuple[float, float]]:
        return [(-start.x_init, start.x_init), (-start.y_init, start.y_init)]

    def _state_of(self, values: Any) -> State:
        before = self.kernel_state
        theta, speed = values
        plain = type(theta) in (int, float) and type(speed) in (int, float)
        last_torque = math.nan if before is None else before.last_torque
        return State(float(theta), float(speed), last_torque, plain)

    @property
    def last_u(self) -> np.float32 | None:
        """The torque of the last step, after clipping; None before the first one."""
        state = self.kernel_state
        return None if state is None or math.isnan(state.last_torque) else np.float32(state.last_torque)

    @last_u.setter
    def last_u(self, torque: float | None) -> None:
        self.kernel_state = self.kernel_state._replace(last_torque=math.nan if torque is None else f32(torque))

    def _get_obs(self) -> Any:
        return self._to_observation(self.kernel.observe(self.kernel_state, self._params))

    def paint(self) -> Any:
        from paddock.envs.drawing.classic_control import paint_pendulum

        state, params = self.kernel_state, self._params
        return paint_pendulum(state.theta, state.last_torque, length=params.l, max_torque=params.max_torque)


class PendulumVectorEnv(KernelVectorEnv):
    env_type = PendulumEnv
