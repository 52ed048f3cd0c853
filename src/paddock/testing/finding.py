"""Finding: a problem with its code, level and remedy. Findings are plain data, safe to print, store and compare."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from paddock.core.problem import Problem
from paddock.errors import DeadlineExceeded
from paddock.hosting.failure import place_of
from paddock.testing.rules import RULE, Level

_LATE = "The call did not return within the deadline; look at that line for a loop or a wait."


@dataclass(frozen=True)
class Finding:
    """What ``find`` lists. ``message`` says what is wrong, with values; ``fix`` says what to do about it.

    ``file`` and ``line`` are set where it was found in source, and where the environment raised or stood.
    ``environment`` is the id, in a report on several.
    """

    code: str
    level: Level
    rule: str
    message: str
    fix: str
    file: str | None = None
    line: int | None = None
    environment: str | None = None

    def __str__(self) -> str:
        return f"{self.code} {self.rule} ({self.level}): {self.message} Fix: {self.fix}"


def finding_of(problem: Problem) -> Finding:
    """The problem under the rule that it breaks."""
    rule, cause = RULE[problem.rule], problem.cause
    fix = _LATE if getattr(cause, "code", None) == DeadlineExceeded.code else rule.fix
    place = None if cause is None else place_of(cause)
    file, line = (None, None) if place is None else (short_path(Path(place.file)), place.line)
    return Finding(rule.code, rule.level, rule.name, problem.message, fix, file, line)


def short_path(path: Path) -> str:
    """The path from the working folder, as code hosts want it; as it is if it lies elsewhere."""
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()  # noqa: PTH100 - links are not followed
    except ValueError:
        return str(path)
