"""What the adapters for trainers share: lanes that the trainer resets itself, and Torch's devices.

Such lanes must not restart on their own: what ended stays ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from paddock.adapters import need
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidLanes, PlanError, WrongClass
from paddock.making import LaneOptions, make
from paddock.wrappers.arrays import Device

Target = str | os.PathLike[str] | EnvSpec
Lanes = VectorEnv[Any, Any, Any]
Adapted = TypeVar("Adapted")


def make_lanes(target: Target, num_envs: int, *, lanes: LaneOptions | None, **make_kwargs: Any) -> Lanes:
    """Make lanes without autoreset, whose results are the caller's to keep."""
    options = LaneOptions() if lanes is None else lanes
    if options.batch_size is not None:
        raise PlanError(
            f"LaneOptions(batch_size={options.batch_size}) receives some lanes at a time; trainers take all. Drop it."
        )
    options = replace(options, autoreset=AutoresetMode.DISABLED, copy=True)
    return make(target, num_envs=num_envs, lanes=options, **make_kwargs)


def check_lanes(lanes: Any, function: str) -> Lanes:
    """Return ``lanes`` if the caller resets them, else raise; ``function`` is the function to name."""
    if not isinstance(lanes, VectorEnv):
        raise WrongClass(
            f"{function}() takes lanes, a paddock.VectorEnv, got {type(lanes).__name__}. Make them with "
            f"paddock.make(id, num_envs=n, lanes=LaneOptions(autoreset='Disabled'))."
        )
    mode = lanes.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.DISABLED:
        said = "none" if mode is None else repr(getattr(mode, "value", mode))
        raise InvalidLanes(
            f"{function}() takes lanes that the trainer resets; the autoreset of these is {said}. "
            f"Make them with lanes=LaneOptions(autoreset='Disabled')."
        )
    if getattr(lanes.unwrapped, "batch_size", None) not in (None, lanes.num_envs):
        raise InvalidLanes(
            f"{function}() takes lanes that step together; these have batch_size, see LaneOptions. Drop it."
        )
    return lanes


def hand_over(lanes: Lanes, adapt: Callable[[Lanes], Adapted]) -> Adapted:
    """Return ``adapt(lanes)``, and close the lanes if it refuses them: nothing else holds them."""
    try:
        return adapt(lanes)
    except BaseException:
        lanes.close()
        raise


def reuses_buffers(lanes: Lanes) -> bool:
    """Whether the next step may write into the arrays that the last one returned."""
    return getattr(lanes.unwrapped, "copy", False) is not True


def check_torch_has(device: Device | None) -> None:
    """Raise PlanError if tensors can't be put there. Before an environment is made, which would have to be closed."""
    need("torch")
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise PlanError(f"device={device!r}: {error}. Expected one that Torch has here, such as 'cpu'.") from error
