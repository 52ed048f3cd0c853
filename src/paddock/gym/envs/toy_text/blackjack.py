"""``gymnasium.envs.toy_text.blackjack``."""

from paddock.envs.toy_text.blackjack import BlackjackEnv
from paddock.gym.envs import borrow

__all__ = ["BlackjackEnv"]

__getattr__ = borrow(__name__)
