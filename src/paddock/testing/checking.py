"""check_env: an environment follows the API, or CheckFailed says all that is wrong. It calls the environment a lot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from paddock.core.problem import Problem
from paddock.core.warning import warn_user
from paddock.errors import CheckFailed, MissingSpace, WrongClass
from paddock.testing.examine import examine
from paddock.testing.finding import Finding, finding_of

# What Gymnasium raises for these is a TypeError and an AttributeError, and so are ours.
_ERRORS: dict[str, type[CheckFailed]] = {
    "not-an-env": WrongClass,
    "not-a-space": WrongClass,
    "missing-space": MissingSpace,
}


def check_env(
    env: Any, warn: bool | None = None, skip_render_check: bool = False, skip_close_check: bool = False
) -> None:
    """Raise CheckFailed if the environment breaks the API, and warn of what is only unwise.

    The error's ``findings`` hold everything found. ``warn`` is ignored, as in Gymnasium. Rules: docs/checks.md.
    """
    if warn is not None:
        warn_user("`check_env(warn=...)` parameter is now ignored.")
    judge(examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check))


def judge(problems: Sequence[Problem], *, only_warn: Callable[[Problem], bool] = lambda problem: False) -> None:
    """Warn of what is unwise, and of problems that ``only_warn`` accepts; then raise CheckFailed for the errors."""
    findings = tuple(
        replace(finding_of(one), level="warning") if only_warn(one) else finding_of(one) for one in problems
    )
    for finding in findings:
        if finding.level == "warning":
            warn_user(_told(finding))
    failed = [pair for pair in zip(problems, findings, strict=True) if pair[1].level == "error"]
    if failed:
        first, _ = failed[0]
        text = "\n".join(_told(finding) for _, finding in failed)
        raise _ERRORS.get(first.rule, CheckFailed)(text, findings=findings) from first.cause


def enforce(problems: Iterable[Problem]) -> None:
    """Warn of each problem in turn, or raise at the first that is an error by its rule."""
    for problem in problems:
        finding = finding_of(problem)
        if finding.level == "error":
            raise _ERRORS.get(problem.rule, CheckFailed)(_told(finding), findings=(finding,)) from problem.cause
        if finding.level == "warning":
            warn_user(_told(finding))


def _told(finding: Finding) -> str:
    # The message comes first: programs look for how it begins.
    return f"{finding.message} [{finding.code}] {finding.fix}"
