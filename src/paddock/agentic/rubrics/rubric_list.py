"""RubricList: rubrics by position, for a parent that decides which to ask. It has no score of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddock.agentic.rubrics.numbered import NumberedRubrics
from paddock.agentic.rubrics.rubric import Rubric


class RubricList(NumberedRubrics):
    """``self.games = RubricList([Chess(), Go()])``, then ``self.games[0](action, observation)``."""

    def __init__(self, rubrics: Iterable[Rubric] | None = None) -> None:
        super().__init__()
        self.extend(() if rubrics is None else rubrics)

    def append(self, rubric: Rubric) -> None:
        """Add it at the end."""
        self._add([rubric])

    def extend(self, rubrics: Iterable[Rubric]) -> None:
        """Add them at the end."""
        self._add(rubrics)

    def forward(self, action: Any, observation: Any) -> float:
        """Always an error: how to combine the scores is the parent's choice."""
        raise NotImplementedError("A RubricList has no score of its own. Ask one of its rubrics, or use WeightedSum.")
