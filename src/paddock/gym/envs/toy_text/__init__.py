"""``gymnasium.envs.toy_text``."""

from typing import Any

import numpy as np

from paddock.aliases import add_aliases
from paddock.envs.toy_text.blackjack import BlackjackEnv
from paddock.envs.toy_text.cliffwalking import CliffWalkingEnv
from paddock.envs.toy_text.frozen_lake import FrozenLakeEnv
from paddock.envs.toy_text.taxi import TaxiEnv
from paddock.gym.envs import borrow

__all__ = ["BlackjackEnv", "CliffWalkingEnv", "FrozenLakeEnv", "TaxiEnv"]


def categorical_sample(prob_n: Any, np_random: np.random.Generator) -> Any:
    """An index drawn with these probabilities; 0 if rounding leaves none."""
    return np.argmax(np.cumsum(np.asarray(prob_n)) > np_random.random())


ALIASES = {
    "blackjack": {"paddock.envs.toy_text.blackjack": "BlackjackEnv"},
    "cliffwalking": {"paddock.envs.toy_text.cliffwalking": "CliffWalkingEnv"},
    "frozen_lake": {"paddock.envs.toy_text.frozen_lake": "MAPS FrozenLakeEnv generate_random_map is_valid"},
    "taxi": {"paddock.envs.toy_text.taxi": "TaxiEnv"},
    "utils": {"paddock.gym.envs.toy_text": "categorical_sample"},
}
add_aliases(__name__, ALIASES, at_once=ALIASES, fallback=borrow)
