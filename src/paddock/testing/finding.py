"""Finding: a problem with its code, level and remedy. Findings are plain data, safe to print, store and compare."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.core.problem import Problem
from paddock.testing.rules import RULE, Level


@dataclass(frozen=True)
class Finding:
    """What ``find`` lists. ``message`` says what is wrong, with values; ``fix`` says what to do about it.

    ``file`` and ``line`` are set where it was found in source.
    """

    code: str
    level: Level
    rule: str
    message: str
    fix: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.code} {self.rule} ({self.level}): {self.message} Fix: {self.fix}"


def finding_of(problem: Problem) -> Finding:
    """The problem under the rule that it breaks."""
    rule = RULE[problem.rule]
    return Finding(rule.code, rule.level, rule.name, problem.message, rule.fix)
