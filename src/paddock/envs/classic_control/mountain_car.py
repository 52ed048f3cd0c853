"""MountainCar: an engine too weak for the hill rocks a car out of a valley. The position takes the new velocity."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paddock.envs.classic_control.classic_env import Array, ClassicControlEnv, clip, continuable
from paddock.kernels import Kernel, KernelVectorEnv
from paddock.spaces import Box, Discrete


class Params(NamedTuple):
    """``low`` and ``high`` bound the first position, and are reset options; the others are attributes."""

    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.5
    goal_velocity: float = 0.0
    force: float = 0.001
    gravity: float = 0.0025
    low: float = -0.6
    high: float = -0.4


class State(NamedTuple):
    """Where the car is, and how fast it goes."""

    position: float
    velocity: float


def initial(rng: Any, params: Params) -> State:
    """At rest near the bottom of the valley."""
    return State(rng.uniform(params.low, params.high), 0.0)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    """The slope pulls, the engine pushes, the wall on the left stops."""
    position, velocity = state
    velocity = velocity + ((action - 1) * params.force + math.cos(3.0 * position) * -params.gravity)
    velocity = clip(velocity, -params.max_speed, params.max_speed)
    position = clip(position + velocity, params.min_position, params.max_position)
    if position == params.min_position and velocity < 0.0:
        velocity = 0.0
    arrived = position >= params.goal_position and velocity >= params.goal_velocity
    return State(position, velocity), -1.0, arrived


def observe(state: Any, params: Any) -> tuple[float, float]:
    return state.position, state.velocity


def observation_space(params: Any) -> Box:
    return Box(*observed_bounds(params), dtype=np.float32)


def observed_bounds(params: Any) -> tuple[Array, Array]:
    """The least and greatest position and velocity: float32[2] each."""
    low = np.array([params.min_position, -params.max_speed], dtype=np.float32)
    high = np.array([params.max_position, params.max_speed], dtype=np.float32)
    return low, high


KERNEL = Kernel(
    initial,
    step,
    observe,
    params=Params(),
    observation_space=observation_space,
    action_space=Discrete(3),
    valid=continuable,
)


class HillEnv(ClassicControlEnv):
    """The hill of both mountain cars."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 30}
    state_size = 2
    screen_width = 600
    screen_height = 400

    def _height(self, xs: Any) -> Any:
        return np.sin(3 * xs) * 0.45 + 0.55

    def paint(self) -> Any:
        from paddock.envs.drawing.classic_control import paint_mountain_car

        params = self._params
        track = {name: getattr(params, name) for name in ("min_position", "max_position", "goal_position")}
        return paint_mountain_car(self.kernel_state.position, **track)


class MountainCarEnv(HillEnv):
    """Push left (0), not at all (1) or right (2); reward -1 per step until the car is at the flag."""

    kernel = KERNEL
    # Bounds of the observation, as in Gymnasium; the params of these names are reset options alone.
    low: Any = None
    high: Any = None

    def __init__(self, render_mode: str | None = None, goal_velocity: float = 0) -> None:
        super().__init__(render_mode, goal_velocity=goal_velocity)
        self.low, self.high = observed_bounds(self._params)

    def _state_of(self, values: Any) -> State:
        position, velocity = map(float, values)
        return State(position, velocity)

    def get_keys_to_action(self) -> dict[tuple[int, ...], int]:
        """Arrow keys, by pygame's former key codes, for playing by hand."""
        left, right = 276, 275
        return {(): 1, (left,): 0, (right,): 2, (right, left): 1}


class MountainCarVectorEnv(KernelVectorEnv):
    env_type = MountainCarEnv
