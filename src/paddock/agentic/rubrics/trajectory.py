"""TrajectoryRubric: the score comes at the end, from the whole episode. Until then it gives ``intermediate_reward``.

It keeps the episode's actions and observations in memory until ``reset``, which every episode must begin with.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Any, TypeAlias

from paddock.agentic.rubrics.rubric import Rubric
from paddock.agentic.rubrics.setting import number

Trajectory: TypeAlias = "list[tuple[Any, Any]]"


class TrajectoryRubric(Rubric):
    """Write ``score_trajectory``, and ``compute_step_rewards`` to say which step deserves how much of it."""

    state_fields = ("intermediate_reward",)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance that has seen nothing."""
        made = super().__new__(cls, *args, **kwargs)
        vars(made).update(_trajectory=[], _intermediate_reward=0.0)
        return made

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        super().__init__()
        self.intermediate_reward = intermediate_reward

    _trajectory: Trajectory
    _intermediate_reward: float

    @property
    def intermediate_reward(self) -> float:
        """The score of a step that does not end the episode."""
        return self._intermediate_reward

    @intermediate_reward.setter
    def intermediate_reward(self, value: float) -> None:
        self._intermediate_reward = number("intermediate_reward", value)

    @property
    def trajectory(self) -> Trajectory:
        """The steps of this episode so far, (action, observation) each; a copy of the list."""
        return list(self._trajectory)

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Keep the step; score them all if ``observation.done``."""
        self._trajectory.append((action, observation))
        if getattr(observation, "done", False):
            return self.score_trajectory(self._trajectory)
        return self.intermediate_reward

    @abstractmethod
    def score_trajectory(self, trajectory: Trajectory) -> float | Awaitable[float]:
        """The score of the episode. May be async."""

    @abstractmethod
    def compute_step_rewards(self) -> list[float] | Awaitable[list[float]]:
        """A reward for each step of the trajectory, for trainers that want one."""

    def reset(self) -> None:
        """Forget the steps."""
        super().reset()
        self._trajectory = []
