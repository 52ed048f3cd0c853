"""Gate: all or nothing below a threshold. A score that passes stays as it is; it does not become 1."""

from __future__ import annotations

from typing import Any

from paddock.agentic.rubrics.rubric import Rubric, Score
from paddock.agentic.rubrics.setting import number
from paddock.agentic.rubrics.settling import Steps, settled


class Gate(Rubric):
    """The child's score if it is at least ``threshold``, else 0."""

    state_fields = ("threshold",)

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        super().__init__()
        self._adopt("rubric", rubric)
        self.rubric = rubric
        self.threshold = threshold

    @property
    def threshold(self) -> float:
        """The least score that passes."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._threshold = number("threshold", value)

    def forward(self, action: Any, observation: Any) -> Score:
        """The child's score, or 0."""
        return settled(self._gated(action, observation))

    def _gated(self, action: Any, observation: Any) -> Steps[float]:
        score: float = yield self.rubric(action, observation)
        return score if score >= self.threshold else 0.0
