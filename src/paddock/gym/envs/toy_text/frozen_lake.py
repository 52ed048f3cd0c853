"""``gymnasium.envs.toy_text.frozen_lake``."""

from paddock.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv, generate_random_map, is_valid

__all__ = ["MAPS", "FrozenLakeEnv", "generate_random_map", "is_valid"]
