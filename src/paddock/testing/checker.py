"""check_env and find: what is wrong with an environment, as an exception or as data. They call the environment a lot.

The checks run in stages. Each assumes the ones before it, so a mistake that blocks a stage ends the examination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from paddock.core.checks import missing_space, space_problems
from paddock.core.env import Env
from paddock.core.problem import Problem, warn_user
from paddock.errors import CheckFailed, EnvironmentViolation, MissingSpace, WrongClass
from paddock.testing.probes import (
    STEPS,
    closing,
    data_reuse,
    limit_problems,
    old_return_info,
    old_seed_method,
    problem_of_error,
    remaking,
    rendering,
    reset_options,
    reset_result,
    reset_seeding,
    step_determinism,
    step_results,
)
from paddock.testing.rules import Finding, finding_of
from paddock.testing.watched import Watched, in_numpy
from paddock.wrappers.guard import Guard

# Gymnasium raises TypeError and AttributeError for these, and so do we.
_ERRORS: dict[str, type[CheckFailed]] = {
    "not-an-env": WrongClass,
    "not-a-space": WrongClass,
    "missing-space": MissingSpace,
}


def check_env(
    env: Any, warn: bool | None = None, skip_render_check: bool = False, skip_close_check: bool = False
) -> None:
    """Raise CheckFailed if the environment breaks the API, and warn of practices that are only unwise.

    The error's ``findings`` has all of them. ``warn`` is ignored, as in Gymnasium. Rules: docs/checks.md.
    """
    if warn is not None:
        warn_user("`check_env(warn=...)` parameter is now ignored.")
    raise_or_warn(examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check))


def raise_or_warn(problems: Sequence[Problem], *, only_warn: Callable[[Problem], bool] = lambda problem: False) -> None:
    """Warn of warnings and of problems that ``only_warn`` accepts, then raise CheckFailed if there are errors."""
    findings = tuple(
        replace(finding_of(one), level="warning") if only_warn(one) else finding_of(one) for one in problems
    )
    for finding in findings:
        if finding.level == "warning":
            warn_user(_text(finding))
    failed = [pair for pair in zip(problems, findings, strict=True) if pair[1].level == "error"]
    if failed:
        first, _ = failed[0]
        text = "\n".join(_text(finding) for _, finding in failed)
        raise _ERRORS.get(first.rule, CheckFailed)(text, findings=findings) from first.cause


def enforce(problems: Iterable[Problem]) -> None:
    """Warn of each problem in turn, or raise at the first that is an error by its rule."""
    for problem in problems:
        raise_or_warn([problem])


def _text(finding: Finding) -> str:
    # The message comes first: programs look for how it begins.
    return f"{finding.message} [{finding.code}] {finding.fix}"


# After one of these the next calls would only stumble over it again.
_BLOCKING = frozenset(
    {
        *("missing-space", "not-a-space", "space-malformed"),
        *("reset-no-seed", "reset-no-options", "reset-refuses", "reset-result", "step-result", "env-raised"),
        "spec-broken",
    }
)

# Many calls show the same mistake with different values; the first is enough.
_ONCE = frozenset(
    {
        *("observation-type", "observation-outside", "reward-type", "reward-not-finite", "flag-type", "info-not-dict"),
        *("rng-not-seeded", "reset-nondeterministic", "almost-equal", "data-reused"),
    }
)


def find(
    env: Any, *, skip_render_check: bool = False, skip_close_check: bool = False, steps: int = STEPS
) -> list[Finding]:
    """List what is wrong with an environment, as data. A mistake that blocks the following checks ends the list.

    The environment is reset and stepped many times, and made again from its spec to try render modes and ``close``.

    >>> import paddock.testing
    >>> paddock.testing.find(object())[0].code
    'PD001'
    """
    problems = examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check, steps=steps)
    return [finding_of(problem) for problem in problems]


def examine(env: Any, *, skip_render_check: bool, skip_close_check: bool, steps: int = STEPS) -> list[Problem]:
    """List the problems, with the exceptions that the environment raised."""
    if not isinstance(env, Env):
        text = f"The environment must inherit from the gymnasium.Env class, actual class: {type(env)}."
        return [Problem("not-an-env", text)]
    while isinstance(env, Guard):  # make() added it, and it would refuse what the probes are about to try
        env = env.env
    watched = Watched(in_numpy(env))
    stages: list[list[Callable[[], Iterable[Problem]]]] = [
        [lambda: _class_problems(env), lambda: _space_problems(env)],
        [lambda: reset_result(watched)],
        [lambda: reset_seeding(watched), lambda: reset_options(watched)],
        [lambda: step_results(watched, steps=steps)],
        [lambda: step_determinism(watched, steps=steps), lambda: data_reuse(watched)],
    ]
    stages += [] if skip_render_check and skip_close_check else [[lambda: remaking(watched)]]
    stages += [] if skip_render_check else [[lambda: rendering(watched)]]
    stages += [] if skip_close_check else [[lambda: closing(watched)]]
    problems: list[Problem] = []
    for stage in stages:
        for probe in stage:
            try:
                for problem in probe():
                    problems.append(problem)
            except Exception as error:
                problems.append(problem_of_error(watched.calling, error))
        if any(problem.rule in _BLOCKING or isinstance(problem.cause, EnvironmentViolation) for problem in problems):
            break
    problems += watched.problems()
    shared = any(problem.rule == "data-reused" for problem in problems)
    first: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        if shared and problem.rule == "data-changed":
            continue  # the same mistake, seen from its other end
        first.setdefault((problem.rule, "" if problem.rule in _ONCE else problem.message), problem)
    return list(first.values())


def _class_problems(env: Env[Any, Any]) -> Iterator[Problem]:
    """Look at the environment without calling it."""
    if env.unwrapped is not env:
        text = f"The environment ({env}) is different from the unwrapped version ({env.unwrapped})."
        yield Problem("wrapped", text)
    yield from old_seed_method(env)
    yield from old_return_info(env)


def _space_problems(env: Env[Any, Any]) -> Iterator[Problem]:
    for kind in ("action", "observation"):
        if not hasattr(env, f"{kind}_space"):
            yield Problem("missing-space", missing_space(kind))
            continue
        space = getattr(env, f"{kind}_space")
        found = list(space_problems(space, kind))
        yield from found
        if not any(problem.error for problem in found):
            yield from limit_problems(space, kind)
