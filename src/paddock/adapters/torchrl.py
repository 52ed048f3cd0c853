"""Train with TorchRL: paddock's lanes as an ``EnvBase``, a batch of n. Importing this does not import torch.

Indices count from 0 on TorchRL's side: action 0 is the first one of ``Discrete(3, start=-1)`` too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.adapters import need
from paddock.adapters.trainers import Lanes, Target, check_lanes, check_torch_has, hand_over, make_lanes
from paddock.making import LaneOptions

if TYPE_CHECKING:
    import torch

    from paddock.adapters.torchrl_env import LanesEnv

__all__ = ["as_batched_env", "batched_env"]


def batched_env(
    target: Target,
    num_envs: int = 1,
    *,
    device: torch.device | str | None = None,
    seed: int | None = None,
    lanes: LaneOptions | None = None,
    **make_kwargs: Any,
) -> LanesEnv:
    """Return ``num_envs`` lanes of what ``make`` makes, as a TorchRL environment with ``batch_size=[num_envs]``.

    All other keywords are those of ``make``. ``seed``: lane i begins its first episode with seed + i.
    """
    need("torchrl")
    check_torch_has(device)
    made = make_lanes(target, num_envs, lanes=lanes, **make_kwargs)
    return hand_over(made, partial(as_batched_env, device=device, seed=seed))


def as_batched_env(lanes: Lanes, *, device: torch.device | str | None = None, seed: int | None = None) -> LanesEnv:
    """Return these lanes, made without autoreset, as a TorchRL environment; ``.lanes`` are the lanes inside.

    Observations are under ``"observation"``, those of a Dict space under its keys. On the CPU they share the memory of
    the lanes' arrays, unless the lanes were made with ``LaneOptions(copy=False)``.
    """
    need("torchrl")
    check_torch_has(device)
    from paddock.adapters.torchrl_env import LanesEnv

    return LanesEnv(check_lanes(lanes, "as_batched_env"), device=device, seed=seed)
