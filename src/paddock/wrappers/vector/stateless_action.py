"""Action wrappers of n lanes that remember nothing: the single ones, over rows."""

from __future__ import annotations

from typing import Any

import paddock.wrappers.discretize as discretize
import paddock.wrappers.rescale as rescale
import paddock.wrappers.transform_action as transform_action
from paddock.core.vector_env import VectorEnv
from paddock.wrappers.vector.vectorize import VectorizeTransformAction

AnyLanes = VectorEnv[Any, Any, Any]


class ClipAction(VectorizeTransformAction):
    """Actions outside the Box are moved to its bounds; to the agent it has none."""

    def __init__(self, env: AnyLanes) -> None:
        super().__init__(env, transform_action.ClipAction)


class RescaleAction(VectorizeTransformAction):
    """Actions between ``min_action`` and ``max_action``, stretched to the Box's bounds."""

    def __init__(self, env: AnyLanes, min_action: rescale.Limit, max_action: rescale.Limit) -> None:
        super().__init__(env, rescale.RescaleAction, min_action=min_action, max_action=max_action)


class DiscretizeAction(VectorizeTransformAction):
    """A Box of actions as the numbers of its bins; a lane gets the middle of one."""

    def __init__(self, env: AnyLanes, bins: discretize.Bins, multidiscrete: bool = False) -> None:
        super().__init__(env, discretize.DiscretizeAction, bins=bins, multidiscrete=multidiscrete)
