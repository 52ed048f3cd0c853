"""Examine an environment stage by stage. A stage assumes the ones before it, so a mistake that blocks one ends all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paddock.core.env import Env
from paddock.core.passive import missing_space
from paddock.core.problem import Problem
from paddock.core.space_checks import space_problems
from paddock.errors import EnvironmentViolation
from paddock.testing.finding import Finding, finding_of
from paddock.testing.in_numpy import in_numpy
from paddock.testing.remake_probes import closing, raised, remaking, rendering
from paddock.testing.reset_probes import old_return_info, old_seed_method, reset_options, reset_result, reset_seeding
from paddock.testing.space_limits import limit_problems
from paddock.testing.step_probes import STEPS, data_reuse, step_determinism, step_results
from paddock.testing.watched import Watched
from paddock.wrappers.guard import Guard

# After one of these the next calls would only stumble over it again.
_BLOCKING = frozenset(
    {
        *("missing-space", "not-a-space", "space-malformed"),
        *("reset-no-seed", "reset-no-options", "reset-refuses", "reset-result", "step-result", "env-raised"),
        "spec-broken",
    }
)

# Many calls show the same mistake, each with other values; the first is enough.
_ONCE = frozenset(
    {
        *("observation-type", "observation-outside", "reward-type", "reward-not-finite", "flag-type", "info-not-dict"),
        *("rng-not-seeded", "reset-nondeterministic", "almost-equal", "data-reused"),
    }
)


def find(
    env: Any, *, skip_render_check: bool = False, skip_close_check: bool = False, steps: int = STEPS
) -> list[Finding]:
    """What is wrong with an environment, as data; empty if nothing is. A mistake that blocks what follows ends it.

    The environment is reset and stepped many times, and made anew from its spec to try render modes and ``close``.

    >>> import paddock.testing
    >>> paddock.testing.find(object())[0].code
    'PD001'
    """
    problems = examine(env, skip_render_check=skip_render_check, skip_close_check=skip_close_check, steps=steps)
    return [finding_of(problem) for problem in problems]


def examine(env: Any, *, skip_render_check: bool, skip_close_check: bool, steps: int = STEPS) -> list[Problem]:
    """As ``find``, with the exceptions that the environment raised."""
    if not isinstance(env, Env):
        text = f"The environment must inherit from the gymnasium.Env class, actual class: {type(env)}."
        return [Problem("not-an-env", text)]
    while isinstance(env, Guard):  # make() put it there, and it would refuse what the probes are about to try
        env = env.env
    watched = Watched(in_numpy(env))
    stages: list[list[Callable[[], Iterable[Problem]]]] = [
        [lambda: _outside(env), lambda: _spaces(env)],
        [lambda: reset_result(watched)],
        [lambda: reset_seeding(watched), lambda: reset_options(watched)],
        [lambda: step_results(watched, steps=steps)],
        [lambda: step_determinism(watched, steps=steps), lambda: data_reuse(watched)],
    ]
    stages += [] if skip_render_check and skip_close_check else [[lambda: remaking(watched)]]
    stages += [] if skip_render_check else [[lambda: rendering(watched)]]
    stages += [] if skip_close_check else [[lambda: closing(watched)]]
    found: list[Problem] = []
    for stage in stages:
        for probe in stage:
            found += _survived(probe, watched)
        if any(problem.rule in _BLOCKING or isinstance(problem.cause, EnvironmentViolation) for problem in found):
            break
    return _without_echoes([*found, *watched.problems()])


def _outside(env: Env[Any, Any]) -> Iterator[Problem]:
    """What can be seen without calling the environment."""
    if env.unwrapped is not env:
        text = f"The environment ({env}) is different from the unwrapped version ({env.unwrapped})."
        yield Problem("wrapped", text)
    yield from old_seed_method(env)
    yield from old_return_info(env)


def _spaces(env: Env[Any, Any]) -> Iterator[Problem]:
    for kind in ("action", "observation"):
        if not hasattr(env, f"{kind}_space"):
            yield Problem("missing-space", missing_space(kind))
            continue
        space = getattr(env, f"{kind}_space")
        found = list(space_problems(space, kind))
        yield from found
        if not any(problem.error for problem in found):
            yield from limit_problems(space, kind)


def _survived(probe: Callable[[], Iterable[Problem]], watched: Watched) -> Iterator[Problem]:
    """What the probe yields, and one more problem if the environment raises under it."""
    try:
        yield from probe()
    except Exception as error:
        yield raised(watched.calling, error)


def _without_echoes(problems: list[Problem]) -> list[Problem]:
    shared = any(problem.rule == "data-reused" for problem in problems)
    kept: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        if shared and problem.rule == "data-changed":
            continue  # the same mistake, seen from its other end
        kept.setdefault((problem.rule, "" if problem.rule in _ONCE else problem.message), problem)
    return list(kept.values())
