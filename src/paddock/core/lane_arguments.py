"""What callers say about lanes: seeds, masks and values, one a lane. Every kind of vector environment reads it here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidLanes, InvalidSeed, ResetNeeded
from paddock.seeding import to_seed

Array = np.ndarray[Any, Any]


def lane_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """A seed a lane: seed, seed + 1, … for one number, None where the stream goes on."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (list, tuple, np.ndarray)):
        if len(seed) != num_envs:
            raise InvalidSeed(
                f"If seeds are passed as a list the length must match num_envs={num_envs} but got length={len(seed)}."
            )
        return [None if one is None else to_seed(one) for one in seed]
    first = to_seed(seed)
    return [first + lane for lane in range(num_envs)]


def reset_mask(options: Info | None, num_envs: int, *, begun: bool) -> tuple[Array, Info | None]:
    """The lanes to reset, and the options for them; the caller's dict stays as it is."""
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, dtype=np.bool_), options
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.shape != (num_envs,) or mask.dtype != np.bool_:
        raise InvalidLanes(f"options['reset_mask'] is {mask!r}; expected a bool array of shape ({num_envs},).")
    if not mask.any():
        raise InvalidLanes("options['reset_mask'] names no lane; expected at least one True.")
    if not begun and not mask.all():
        raise ResetNeeded("The first reset must begin every lane; options['reset_mask'] leaves some out.")
    return mask, {key: value for key, value in options.items() if key != "reset_mask"}


def one_a_lane(values: Any, num_envs: int) -> Sequence[Any]:
    """One value for all lanes, or a list or tuple with one a lane, as the latter."""
    if not isinstance(values, (list, tuple)):
        return [values] * num_envs
    if len(values) != num_envs:
        raise InvalidLanes(f"{len(values)} values for {num_envs} lanes. Pass one value, or one a lane.")
    return values


def held_lanes(lanes: Any, num_envs: int) -> frozenset[int]:
    """The numbers of the lanes that a mask names."""
    if not isinstance(lanes, np.ndarray) or lanes.shape != (num_envs,) or lanes.dtype != np.bool_:
        raise InvalidLanes(f"hold({lanes!r}): expected a bool array of shape ({num_envs},).")
    return frozenset(np.flatnonzero(lanes).tolist())


def ended(lane: int) -> ResetNeeded:
    """The error for stepping a lane whose episode is over, without autoreset."""
    return ResetNeeded(f"lane {lane}: the episode has ended. reset(options={{'reset_mask': mask}}) begins anew.")
