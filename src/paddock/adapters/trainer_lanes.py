"""Lanes as trainers take them: what all of them ask of lanes, and what those do that begin episodes themselves.

For the latter lanes must not begin anew on their own: what ended stays ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from paddock.core.spec import EnvSpec
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidLanes, PlanError, WrongClass
from paddock.making import LaneOptions, make

Target = str | os.PathLike[str] | EnvSpec
Lanes = VectorEnv[Any, Any, Any]
Adapted = TypeVar("Adapted")


def lanes_to_reset(target: Target, num_envs: int, *, lanes: LaneOptions | None, **make_kwargs: Any) -> Lanes:
    """``make(target, num_envs=num_envs)`` without autoreset, whose results are the caller's to keep."""
    options = LaneOptions() if lanes is None else lanes
    if options.batch_size is not None:
        raise PlanError(
            f"LaneOptions(batch_size={options.batch_size}) receives some lanes at a time; trainers take all. Drop it."
        )
    options = replace(options, autoreset=AutoresetMode.DISABLED, copy=True)
    return make(target, num_envs=num_envs, lanes=options, **make_kwargs)


def checked(lanes: Any, door: str) -> Lanes:
    """``lanes``, if they are ones that the caller resets."""
    if not isinstance(lanes, VectorEnv):
        raise WrongClass(
            f"{door}() takes lanes, a paddock.VectorEnv, got {type(lanes).__name__}. Make them with "
            f"paddock.make(id, num_envs=n, lanes=LaneOptions(autoreset='Disabled'))."
        )
    mode = lanes.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.DISABLED:
        said = "none" if mode is None else repr(getattr(mode, "value", mode))
        raise InvalidLanes(
            f"{door}() takes lanes that the trainer resets; the autoreset of these is {said}. "
            f"Make them with lanes=LaneOptions(autoreset='Disabled')."
        )
    if getattr(lanes.unwrapped, "batch_size", None) not in (None, lanes.num_envs):
        raise InvalidLanes(f"{door}() takes lanes that step together; these have batch_size, see LaneOptions. Drop it.")
    return lanes


def handed_over(lanes: Lanes, adapt: Callable[[Lanes], Adapted]) -> Adapted:
    """What ``adapt`` makes of lanes that nobody else holds: they are closed if it refuses them."""
    try:
        return adapt(lanes)
    except BaseException:
        lanes.close()
        raise


def reuses_buffers(lanes: Lanes) -> bool:
    """Whether the next step may write into the arrays that the last one returned."""
    return getattr(lanes.unwrapped, "copy", False) is not True
