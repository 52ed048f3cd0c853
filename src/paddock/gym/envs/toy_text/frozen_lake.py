"""``gymnasium.envs.toy_text.frozen_lake``."""

from paddock.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv, generate_random_map, is_valid
from paddock.gym.envs import borrow

__all__ = ["MAPS", "FrozenLakeEnv", "generate_random_map", "is_valid"]

__getattr__ = borrow(__name__)
