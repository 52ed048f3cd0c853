"""Credit that fades into the past: a step that lies n steps before the end gets gamma to the n of the score."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from paddock.agentic.rubrics.score import finite
from paddock.agentic.rubrics.setting import number
from paddock.agentic.rubrics.settling import Steps, settled
from paddock.agentic.rubrics.trajectory import TrajectoryRubric


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """``gamma`` 1 gives every step the same, 0 rewards the last step alone."""

    state_fields = ("gamma",)

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        super().__init__(intermediate_reward=intermediate_reward)
        self.gamma = gamma

    @property
    def gamma(self) -> float:
        """What is left of the credit one step earlier, from 0 to 1."""
        return self._gamma

    @gamma.setter
    def gamma(self, value: float) -> None:
        self._gamma = number("gamma", value, least=0.0, most=1.0)

    def compute_step_rewards(self) -> list[float] | Awaitable[list[float]]:
        """One for each step so far; a coroutine of them if ``score_trajectory`` is async."""
        return settled(self._discounted())

    def _discounted(self) -> Steps[list[float]]:
        trajectory: list[Any] = self._trajectory
        if not trajectory:
            return []
        score = finite((yield self.score_trajectory(trajectory)))
        return [score * self.gamma ** (len(trajectory) - 1 - at) for at in range(len(trajectory))]
