"""``gymnasium.envs.toy_text``."""

from paddock.gym.envs.toy_text.blackjack import BlackjackEnv
from paddock.gym.envs.toy_text.cliffwalking import CliffWalkingEnv
from paddock.gym.envs.toy_text.frozen_lake import FrozenLakeEnv
from paddock.gym.envs.toy_text.taxi import TaxiEnv

__all__ = ["BlackjackEnv", "CliffWalkingEnv", "FrozenLakeEnv", "TaxiEnv"]
