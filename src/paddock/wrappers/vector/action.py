"""Action wrappers of n lanes."""

from __future__ import annotations

from typing import Any

from paddock.core.vector_env import VectorEnv
from paddock.wrappers.many_lanes import ManyLanesAction
from paddock.wrappers.repeat import Repeat, WindowOfManyLanes
from paddock.wrappers.shown import of_logic
from paddock.wrappers.sticky_action import Duration, Sticky


class StickyAction(ManyLanesAction):
    """Each lane repeats its own last action with a probability, drawn from the lane's random stream."""

    repeat_action_probability: float = of_logic()
    repeat_action_duration_range: tuple[int, int] = of_logic()

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        repeat_action_probability: float,
        repeat_action_duration: Duration = 1,
    ) -> None:
        super().__init__(env, Sticky(repeat_action_probability, repeat_action_duration))


class RepeatAction(WindowOfManyLanes):
    """Each action is taken ``num_repeats`` times, in each lane until its episode ends; rewards add up."""

    num_repeats: int = of_logic()

    def __init__(self, env: VectorEnv[Any, Any, Any], num_repeats: int) -> None:
        super().__init__(env, Repeat(num_repeats))
