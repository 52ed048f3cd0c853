"""Checks on the way: the first calls of an environment, looked at as they happen. They never call it more than asked.

A problem that leaves nothing to work with raises, everything else warns; `paddock.testing.check_env` is stricter.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.frame_checks import frame_problems, render_metadata_problems
from paddock.core.problem import raise_or_warn
from paddock.core.result_checks import reset_result_problems, reset_signature_problems, step_result_problems
from paddock.core.space_checks import space_problems
from paddock.errors import MissingSpace


def check_spaces(env: Env[Any, Any]) -> None:
    """Raise if a space is missing or malformed, warn if its bounds look wrong."""
    for kind in ("action", "observation"):
        raise_or_warn(space_problems(space_of(env, kind), kind))


def space_of(env: Env[Any, Any], kind: str) -> Any:
    """``env.action_space`` or ``env.observation_space``, or MissingSpace."""
    try:
        return getattr(env, f"{kind}_space")
    except AttributeError as error:
        raise MissingSpace(missing_space(kind)) from error


def missing_space(kind: str) -> str:
    """What to say when an environment has no such space."""
    return f"The environment must specify an {kind} space. Set `self.{kind}_space` in `__init__`."


def reset_and_check(
    env: Env[ObsType, Any], *, seed: int | None = None, options: Info | None = None
) -> tuple[ObsType, Info]:
    """``env.reset`` with a look at its signature and its result."""
    raise_or_warn(reset_signature_problems(env.reset))
    result = env.reset(seed=seed, options=options)
    raise_or_warn(reset_result_problems(result, env.observation_space))
    return result


def step_and_check(env: Env[ObsType, ActType], action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
    """``env.step`` with a look at its result. The action is not judged here: the guard has done that."""
    result = env.step(action)
    raise_or_warn(step_result_problems(result, env.observation_space))
    return result


def render_and_check(env: Env[Any, Any]) -> Any:
    """``env.render`` with a look at the declared modes and the frame."""
    raise_or_warn(render_metadata_problems(env.metadata, env.render_mode))
    frame = env.render()
    if env.render_mode is not None:
        raise_or_warn(frame_problems(env.render_mode, frame))
    return frame
