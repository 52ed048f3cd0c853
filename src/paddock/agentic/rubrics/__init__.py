"""How work is graded: rubrics, made of rubrics, and ``grade``, which asks one. A failure is never a score of 0."""

from paddock.agentic.rubrics.discounting import ExponentialDiscountingTrajectoryRubric
from paddock.agentic.rubrics.gate import Gate
from paddock.agentic.rubrics.grading import Grade, grade
from paddock.agentic.rubrics.hooks import HookHandle
from paddock.agentic.rubrics.judge import LLMJudge
from paddock.agentic.rubrics.rubric import Rubric
from paddock.agentic.rubrics.rubric_dict import RubricDict
from paddock.agentic.rubrics.rubric_list import RubricList
from paddock.agentic.rubrics.sequential import Sequential
from paddock.agentic.rubrics.timeout import Timeout
from paddock.agentic.rubrics.trajectory import TrajectoryRubric
from paddock.agentic.rubrics.weighted_sum import WeightedSum

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
