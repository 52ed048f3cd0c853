"""CartPole: keep a pole upright on a cart. Gymnasium's float64 operations in the same order: the same bits."""

from __future__ import annotations

from dataclasses import replace
from math import cos, pi, sin
from typing import Any, NamedTuple

import numpy as np

from paddock.envs.classic_control.classic_env import ClassicControlEnv, continuable
from paddock.kernels import Kernel, KernelVectorEnv
from paddock.spaces import Box, Discrete


class Params(NamedTuple):
    """Each is an attribute of the environment. ``low`` and ``high`` bound the first state, and are reset options."""

    gravity: float = 9.8
    masscart: float = 1.0
    masspole: float = 0.1
    total_mass: float = 0.1 + 1.0
    length: float = 0.5  # half of the pole's
    polemass_length: float = 0.1 * 0.5
    force_mag: float = 10.0
    tau: float = 0.02
    theta_threshold_radians: float = 12 * 2 * pi / 360
    x_threshold: float = 2.4
    reward_standing: float = 1.0
    reward_falling: float = 1.0
    reward_fallen: float = 0.0  # for steps after the one in which it fell
    low: float = -0.05
    high: float = 0.05


class State(NamedTuple):
    x: float
    x_dot: float
    theta: float
    theta_dot: float
    fallen: bool = False  # in a step of this episode; an episode that begins fallen has yet to fall


def initial(rng: Any, params: Params) -> State:
    low, high = params.low, params.high
    return State(rng.uniform(low, high), rng.uniform(low, high), rng.uniform(low, high), rng.uniform(low, high), False)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    x, x_dot, theta, theta_dot, fallen = state
    x_acc, theta_acc = accelerations(theta, theta_dot, action, params)
    tau = params.tau
    x = x + tau * x_dot
    x_dot = x_dot + tau * x_acc
    theta = theta + tau * theta_dot
    theta_dot = theta_dot + tau * theta_acc
    return judge(x, x_dot, theta, theta_dot, fallen, params)


def semi_implicit_step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    x, x_dot, theta, theta_dot, fallen = state
    x_acc, theta_acc = accelerations(theta, theta_dot, action, params)
    tau = params.tau
    x_dot = x_dot + tau * x_acc
    x = x + tau * x_dot
    theta_dot = theta_dot + tau * theta_acc
    theta = theta + tau * theta_dot
    return judge(x, x_dot, theta, theta_dot, fallen, params)


def accelerations(theta: float, theta_dot: float, action: int, params: Params) -> tuple[float, float]:
    total_mass, polemass_length = params.total_mass, params.polemass_length
    force = params.force_mag if action == 1 else -params.force_mag
    c, s = cos(theta), sin(theta)
    push = (force + polemass_length * (theta_dot * theta_dot) * s) / total_mass
    theta_acc = (params.gravity * s - c * push) / (params.length * (4.0 / 3.0 - params.masspole * (c * c) / total_mass))
    return push - polemass_length * theta_acc * c / total_mass, theta_acc


def judge(
    x: float, x_dot: float, theta: float, theta_dot: float, fallen: bool, params: Params
) -> tuple[State, float, bool]:
    if abs(x) > params.x_threshold or abs(theta) > params.theta_threshold_radians:
        reward = params.reward_fallen if fallen else params.reward_falling
        return State(x, x_dot, theta, theta_dot, True), reward, True
    return State(x, x_dot, theta, theta_dot, fallen), params.reward_standing, False


def observe(state: State, params: Params) -> tuple[float, float, float, float]:
    x, x_dot, theta, theta_dot, _ = state
    return x, x_dot, theta, theta_dot


def observation_space(params: Params) -> Box:
    high = np.array([params.x_threshold * 2, np.inf, params.theta_threshold_radians * 2, np.inf], dtype=np.float32)
    return Box(-high, high, dtype=np.float32)


KERNEL = Kernel(
    initial,
    step,
    observe,
    params=Params(),
    observation_space=observation_space,
    action_space=Discrete(2),
    valid=continuable,
)
SEMI_IMPLICIT = replace(KERNEL, step=semi_implicit_step)


class CartPoleEnv(ClassicControlEnv):
    """Push the cart left (0) or right (1); reward 1 per step until the pole falls or the cart leaves the track."""

    kernel = KERNEL
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 50}
    state_size = 4
    screen_width = 600
    screen_height = 400

    def __init__(self, sutton_barto_reward: bool = False, render_mode: str | None = None) -> None:
        rewards = {"reward_standing": 0.0, "reward_falling": -1.0, "reward_fallen": -1.0} if sutton_barto_reward else {}
        super().__init__(render_mode, **rewards)

    def _state_of(self, values: Any) -> State:
        x, x_dot, theta, theta_dot = map(float, values)
        return State(x, x_dot, theta, theta_dot, False)

    @property
    def steps_beyond_terminated(self) -> int | None:
        """None while the pole stands, 0 once it has fallen."""
        state = self.kernel_state
        return None if state is None or not state.fallen else 0

    @steps_beyond_terminated.setter
    def steps_beyond_terminated(self, steps: int | None) -> None:
        self.kernel_state = self.kernel_state._replace(fallen=steps is not None)

    @property
    def kinematics_integrator(self) -> str:
        """``euler``, or anything else for semi-implicit Euler."""
        return "euler" if self.kernel.step is step else "semi-implicit euler"

    @kinematics_integrator.setter
    def kinematics_integrator(self, name: str) -> None:
        self.use_kernel(KERNEL if name == "euler" else SEMI_IMPLICIT)

    def paint(self) -> Any:
        from paddock.envs.drawing.classic_control import paint_cartpole

        state, params = self.kernel_state, self._params
        return paint_cartpole(
            state.x,
            state.theta,
            x_threshold=params.x_threshold,
            theta_threshold=params.theta_threshold_radians,
            length=params.length,
        )


class CartPoleVectorEnv(KernelVectorEnv):
    env_type = CartPoleEnv
