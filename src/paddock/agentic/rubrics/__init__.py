"""Grading: rubrics, made of rubrics, and ``grade``, which runs one. A failure is never a score of 0."""

from paddock.agentic.rubrics.combinators import Gate, RubricDict, RubricList, Sequential, Timeout, WeightedSum
from paddock.agentic.rubrics.judge import LLMJudge
from paddock.agentic.rubrics.rubric import (
    ExponentialDiscountingTrajectoryRubric,
    Grade,
    HookHandle,
    Rubric,
    TrajectoryRubric,
    grade,
)

__all__ = [
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "Grade",
    "HookHandle",
    "LLMJudge",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Sequential",
    "Timeout",
    "TrajectoryRubric",
    "WeightedSum",
    "grade",
]
