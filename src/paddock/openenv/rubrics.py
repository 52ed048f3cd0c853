"""OpenEnv's rubrics: those of ``paddock.agentic``, and a Sequential whose score can be awaited in async code.

What else differs from OpenEnv's is listed in ``docs/agentic.md``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from paddock.agentic.rubrics import (
    ExponentialDiscountingTrajectoryRubric,
    Gate,
    LLMJudge,
    Rubric,
    RubricDict,
    RubricList,
    TrajectoryRubric,
    WeightedSum,
)
from paddock.agentic.rubrics import Sequential as PlainSequential

__all__ = [
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "LLMJudge",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Sequential",
    "TrajectoryRubric",
    "WeightedSum",
]


class _AwaitableScore(float):
    """A number that ``await`` returns too."""

    def __await__(self) -> Generator[Any, None, float]:
        return float(self)
        yield


class Sequential(PlainSequential):
    """Rubrics one after another, until one gives 0. Where an event loop runs, the score can be awaited.

    OpenEnv's is a coroutine there even if all of its rubrics are sync, so programs await it.
    """

    def __call__(self, action: Any, observation: Any) -> Any:
        score = super().__call__(action, observation)
        if isinstance(score, float):
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return score
            return _AwaitableScore(score)
        return score
