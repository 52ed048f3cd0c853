"""CartPole: keep a pole upright on a cart. The same float64 operations in the same order as Gymnasium's, so the same bits."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.errors import ResetNeeded
from paddock.spaces import Box, Discrete

Observation = np.ndarray[Any, np.dtype[np.float32]]


class CartPoleEnv(Env[Observation, int]):
    """Push the cart left (0) or right (1); reward 1 a step until the pole falls or the cart leaves the track."""

    metadata = {"render_modes": [], "render_fps": 50}

    def __init__(self, sutton_barto_reward: bool = False, render_mode: str | None = None) -> None:
        self._sutton_barto_reward = sutton_barto_reward
        self.render_mode = render_mode
        self.gravity = 9.8
        self.masscart = 1.0
        self.masspole = 0.1
        self.total_mass = self.masspole + self.masscart
        self.length = 0.5  # half of the pole
        self.polemass_length = self.masspole * self.length
        self.force_mag = 10.0
        self.tau = 0.02
        self.kinematics_integrator = "euler"
        self.theta_threshold_radians = 12 * 2 * math.pi / 360
        self.x_threshold = 2.4
        high = np.array([self.x_threshold * 2, np.inf, self.theta_threshold_radians * 2, np.inf], dtype=np.float32)
        self.action_space = Discrete(2)
        self.observation_space = Box(-high, high, dtype=np.float32)
        self.state: tuple[float, float, float, float] | None = None
        self.steps_beyond_terminated: int | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        super().reset(seed=seed)
        low, high = _bounds(options)
        self.state = tuple(self.np_random.uniform(low=low, high=high, size=(4,)).tolist())
        self.steps_beyond_terminated = None
        return np.array(self.state, dtype=np.float32), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, Info]:
        if self.state is None:
            raise ResetNeeded("Call reset before using step method.")
        x, x_dot, theta, theta_dot = self.state
        force = self.force_mag if action == 1 else -self.force_mag
        cos, sin = math.cos(theta), math.sin(theta)
        push = (force + self.polemass_length * (theta_dot * theta_dot) * sin) / self.total_mass
        inertia = self.length * (4.0 / 3.0 - self.masspole * (cos * cos) / self.total_mass)
        theta_acc = (self.gravity * sin - cos * push) / inertia
        x_acc = push - self.polemass_length * theta_acc * cos / self.total_mass
        if self.kinematics_integrator == "euler":
            x, x_dot = x + self.tau * x_dot, x_dot + self.tau * x_acc
            theta, theta_dot = theta + self.tau * theta_dot, theta_dot + self.tau * theta_acc
        else:
            x_dot = x_dot + self.tau * x_acc
            x = x + self.tau * x_dot
            theta_dot = theta_dot + self.tau * theta_acc
            theta = theta + self.tau * theta_dot
        self.state = (x, x_dot, theta, theta_dot)
        terminated = abs(x) > self.x_threshold or abs(theta) > self.theta_threshold_radians
        return np.array(self.state, dtype=np.float32), self._reward(terminated), terminated, False, {}

    def _reward(self, terminated: bool) -> float:
        if not terminated:
            return 0.0 if self._sutton_barto_reward else 1.0
        if self.steps_beyond_terminated is None:
            self.steps_beyond_terminated = 0
            return -1.0 if self._sutton_barto_reward else 1.0
        if self.steps_beyond_terminated == 0:
            warnings.warn("step() after the episode has ended: call reset() first.", stacklevel=3)
        self.steps_beyond_terminated += 1
        return -1.0 if self._sutton_barto_reward else 0.0


def _bounds(options: Info | None) -> tuple[float, float]:
    low, high = (options or {}).get("low", -0.05), (options or {}).get("high", 0.05)
    if not low <= high:
        raise ValueError(f"reset options low={low!r}, high={high!r}: expected numbers with low <= high.")
    return float(low), float(high)
