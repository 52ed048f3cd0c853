"""WeightedSum: several criteria, each with its share. Async rubrics are asked at the same time, the others in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from paddock.agentic.rubrics.numbered import NumberedRubrics
from paddock.agentic.rubrics.rubric import Rubric, Score
from paddock.agentic.rubrics.setting import number
from paddock.agentic.rubrics.settling import Steps, all_settled, discard, settled
from paddock.errors import InvalidRubric

TOLERANCE = 1e-6


class WeightedSum(NumberedRubrics):
    """The sum of weight times score. The weights sum to 1; if one rubric fails, the others are cancelled."""

    state_fields = ("weights",)

    def __init__(self, rubrics: Sequence[Rubric], weights: Sequence[float]) -> None:
        super().__init__()
        self._add(rubrics)
        self.weights = list(weights)

    @property
    def weights(self) -> list[float]:
        """A copy; assign a list to change them."""
        return list(self._weights)

    @weights.setter
    def weights(self, given: Sequence[float]) -> None:
        weights = [number(f"weight {at}", weight) for at, weight in enumerate(given)]
        if len(weights) != len(self):
            raise InvalidRubric(f"There are {len(self)} rubrics and {len(weights)} weights; expected one for each.")
        if abs(math.fsum(weights) - 1.0) > TOLERANCE:
            raise InvalidRubric(f"The weights {weights} sum to {math.fsum(weights)}; expected 1.")
        self._weights = weights

    def forward(self, action: Any, observation: Any) -> Score:
        """The weighted sum of all scores."""
        return settled(self._together(action, observation))

    def _together(self, action: Any, observation: Any) -> Steps[float]:
        given: list[Any] = []
        try:
            for rubric in self._row():
                given.append(rubric(action, observation))
        except BaseException:
            discard(given)
            raise
        if any(not isinstance(score, float) for score in given):
            given = yield all_settled(given)
        total = 0.0
        for score, weight in zip(given, self._weights, strict=True):
            total += score * weight  # not sum(), whose rounding depends on the version of Python
        return total
