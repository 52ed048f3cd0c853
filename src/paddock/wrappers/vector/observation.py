"""Observation wrappers of n lanes. Spaces are those of the single wrapper, with a leading axis of lanes."""

from __future__ import annotations

from typing import Any

from paddock.core.vector_env import VectorEnv
from paddock.wrappers.frame_stack import FrameStack
from paddock.wrappers.many_lanes import ManyLanes
from paddock.wrappers.repeat import MaxAndSkip, WindowOfManyLanes
from paddock.wrappers.shown import of_logic


class FrameStackObservation(ManyLanes):
    """The last ``stack_size`` observations of each lane as one: [n, stack_size, …]."""

    def __init__(self, env: VectorEnv[Any, Any, Any], stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(env, FrameStack(stack_size, padding_type))
        self.stack_size = stack_size


class MaxAndSkipObservation(WindowOfManyLanes):
    """Each action is taken ``skip`` times; the observation is the element-wise maximum of a lane's last two."""

    _skip: int = of_logic("skip")

    def __init__(self, env: VectorEnv[Any, Any, Any], skip: int = 4) -> None:
        super().__init__(env, MaxAndSkip(skip))
