"""``gymnasium.envs.toy_text.taxi``."""

from paddock.envs.toy_text.taxi import TaxiEnv
from paddock.gym.envs import borrow

__all__ = ["TaxiEnv"]

__getattr__ = borrow(__name__)
