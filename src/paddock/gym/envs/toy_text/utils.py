"""``gymnasium.envs.toy_text.utils``."""

from __future__ import annotations

from typing import Any

import numpy as np


def categorical_sample(prob_n: Any, np_random: np.random.Generator) -> Any:
    """An index drawn with these probabilities; 0 if rounding leaves none."""
    return np.argmax(np.cumsum(np.asarray(prob_n)) > np_random.random())
