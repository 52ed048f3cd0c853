"""Probes that make the environment anew from its spec: render modes, close. Without a spec they can't."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from paddock.core.env import Env
from paddock.core.frame_checks import frame_problems, render_metadata_problems
from paddock.core.problem import Problem, brief
from paddock.core.spec import EnvSpec
from paddock.errors import DeadlineExceeded, DependencyNotInstalled, EnvironmentViolation, WorkerLost
from paddock.hosting.client import HostedEnv
from paddock.hosting.failure import Frame, place_of


def rendering(env: Env[Any, Any]) -> Iterator[Problem]:
    """The declared modes, the frame of the mode in use, and every other declared mode on an environment made for it."""
    yield from render_metadata_problems(env.metadata, env.render_mode)
    if env.render_mode is not None:
        env.reset()
        yield from frame_problems(env.render_mode, env.render())
    spec = _spec_of(env)
    modes = env.metadata.get("render_modes")
    modes = [mode for mode in modes if isinstance(mode, str)] if isinstance(modes, list | tuple) else []
    if spec is None:
        if modes:
            text = "Not able to test alternative render modes due to the environment not having a spec"
            yield Problem("render-unchecked", f"{text}: {modes}.")
        return
    for mode in modes:
        yield from _rendering_in(spec, mode)


def _rendering_in(spec: EnvSpec, mode: str) -> Iterator[Problem]:
    try:
        env = _unguarded(spec).make(render_mode=mode)
        try:
            env.reset()
            frame = env.render()
        finally:
            env.close()
    except DependencyNotInstalled as error:
        yield Problem("render-unchecked", f"Not able to test render mode {mode!r}: {error}", cause=error)
    except Exception as error:
        text = (
            f"{spec.id} declares render mode {mode!r}, but making, resetting or rendering in it raised {brief(error)}."
        )
        yield Problem("render-mode-refused", text, cause=error)
    else:
        yield from frame_problems(mode, frame)


def closing(env: Env[Any, Any]) -> Iterator[Problem]:
    """Whether an environment made from the spec can be closed, and closed again."""
    spec = _spec_of(env)
    if spec is None:
        return
    other = _unguarded(spec).make()
    try:
        other.close()
    except Exception as error:
        yield raised("close", error)
        return
    try:
        other.close()
    except Exception as error:
        text = "Calling `env.close()` on the closed environment should be allowed, but it raised an exception"
        yield Problem("close-twice", f"{text}: {brief(error)}", cause=error)


def remaking(env: Env[Any, Any]) -> Iterator[Problem]:
    """Whether the spec can be copied and makes an environment again; the other probes here need that."""
    spec = _spec_of(env)
    try:
        made = None if spec is None else _unguarded(deepcopy(spec)).make()
    except Exception as error:
        text = f"Copying `env.spec` and making an environment of the copy raised {brief(error)}."
        yield Problem("spec-broken", text, cause=error)
        return
    with suppress(Exception):  # `closing` looks at close
        if made is not None:
            made.close()


def raised(call: str, error: Exception) -> Problem:
    """The problem that a call of the environment raised."""
    if isinstance(error, WorkerLost | DeadlineExceeded):  # it never returned, and the error says what became of it
        return Problem("env-raised", f"`env.{call}()`: {error}", cause=error)
    if isinstance(error, EnvironmentViolation):  # what the wall says of a value, where the other rules say it of theirs
        return Problem(rule_of(error), f"`env.{call}()`: {error}", cause=error)
    place = place_of(error)
    if place is None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = Frame(last.filename, last.lineno or 0, last.name)
    return Problem("env-raised", f"`env.{call}()` raised {brief(error)} at {place}.", cause=error)


def rule_of(error: EnvironmentViolation) -> str:
    """Which rule the value breaks that the wall refused."""
    if error.path != "reward":
        return "env-raised"
    value = str(error).removeprefix("reward: ")
    if value.startswith(("nan ", "inf ", "-inf ")):
        return "reward-not-finite"
    return "reward-type" if " is no number" in value else "env-raised"


def _spec_of(env: Env[Any, Any]) -> EnvSpec | None:
    # One that is elsewhere stays there: making its spec again would run its code in this process, outside any wall.
    return None if isinstance(env.unwrapped, HostedEnv) else env.unwrapped.spec


def _unguarded(spec: EnvSpec) -> EnvSpec:
    # The guard would say again, as warnings, what the probes find.
    return replace(spec, disable_env_checker=True)
