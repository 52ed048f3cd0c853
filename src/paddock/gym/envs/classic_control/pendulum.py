"""``gymnasium.envs.classic_control.pendulum``."""

from paddock.envs.classic_control.pendulum import PendulumEnv

__all__ = ["PendulumEnv"]
