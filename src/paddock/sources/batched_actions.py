"""Actions for a library that steps all lanes in one call. Always checked: such a library reads memory by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.errors import InvalidAction
from paddock.spaces import Discrete
from paddock.spaces.conform import Nonconforming, conform

Array = np.ndarray[Any, Any]


def admitted(lanes: VectorEnv[Any, Any, Any], actions: Any) -> Array:
    """The actions as an array of the space's dtype, one a lane, or InvalidAction. Hot: numbers are checked at once."""
    single, count = lanes.single_action_space, lanes.num_envs
    if isinstance(single, Discrete):
        array = np.asarray(actions)
        fits = array.shape == (count,) and array.dtype.kind in "iu"
        if fits and array.min() >= single.start and array.max() < single.start + single.n:
            return array.astype(single.dtype, copy=False)
        raise InvalidAction(
            f"{actions!r}: expected {count} integers of {single}.", action=actions, space=lanes.action_space
        )
    try:
        conforming: Array = conform(lanes.action_space, actions)
    except Nonconforming as error:
        raise InvalidAction(f"{error}", action=actions, space=lanes.action_space) from None
    return conforming
