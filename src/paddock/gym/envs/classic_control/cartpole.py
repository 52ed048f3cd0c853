"""``gymnasium.envs.classic_control.cartpole``."""

from paddock.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv

__all__ = ["CartPoleEnv", "CartPoleVectorEnv"]
