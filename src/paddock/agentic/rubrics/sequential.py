"""Sequential: rubrics one after another, until one gives 0. The score is the last one's, not a product."""

from __future__ import annotations

from typing import Any

from paddock.agentic.rubrics.numbered import NumberedRubrics
from paddock.agentic.rubrics.rubric import Rubric, Score
from paddock.agentic.rubrics.settling import Steps, settled


class Sequential(NumberedRubrics):
    """The first 0 is the score, and what comes after it is not asked: cheap checks first. Without rubrics: 1."""

    def __init__(self, *rubrics: Rubric) -> None:
        super().__init__()
        self._add(rubrics)

    def forward(self, action: Any, observation: Any) -> Score:
        """The score of the last rubric that was asked."""
        return settled(self._one_by_one(action, observation))

    def _one_by_one(self, action: Any, observation: Any) -> Steps[float]:
        score: float = 1.0
        for rubric in self._row():
            score = yield rubric(action, observation)
            if score == 0.0:
                return 0.0  # never -0.0
        return score
