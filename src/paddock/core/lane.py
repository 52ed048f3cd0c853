"""Lane: one environment of a batch, with its autoreset. Every vector environment that holds Envs steps them here.

The functions below it read what callers say about lanes: seeds, masks, and one value per lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.vector_env import AutoresetMode
from paddock.errors import InvalidLanes, InvalidSeed, ResetNeeded
from paddock.seeding import to_seed


class Lane:
    """``env``, which begins its next episode as ``mode`` says. ``ended``: it is over, and the next has not begun."""

    def __init__(self, env: Env[Any, Any], mode: AutoresetMode) -> None:
        self.env, self.mode = env, mode
        self.ended = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode because the caller asked for it."""
        result = self.env.reset(seed=seed, options=options)
        self.ended = False
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """One step of the lane. Under SAME_STEP the last observation and info of an episode are in the info."""
        if self.ended:
            if self.mode is not AutoresetMode.NEXT_STEP:
                raise ResetNeeded("the episode has ended. reset(options={'reset_mask': mask}) begins the next one.")
            observation, info = self.env.reset()
            self.ended = False
            return observation, 0.0, False, False, info
        result = self.env.step(action)
        return self._ending(result) if result[2] or result[3] else result

    def _ending(
        self, result: tuple[Any, SupportsFloat, bool, bool, Info]
    ) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self.mode is not AutoresetMode.SAME_STEP:
            self.ended = True
            return result
        final_obs, reward, terminated, truncated, final_info = result
        self.ended = True  # until the reset has succeeded
        observation, info = self.env.reset()
        self.ended = False
        return observation, reward, terminated, truncated, {"final_obs": final_obs, "final_info": final_info, **info}

    def snapshot(self) -> bytes:
        """The environment's snapshot, and whether its episode is over."""
        return seal_snapshot("lane", self.ended, self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of a lane. Anything else is refused."""
        ended, inner = open_snapshot("lane", snapshot, bool)
        self.env.restore(inner)
        self.ended = ended


Array = np.ndarray[Any, Any]


def lane_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """One seed per lane: seed, seed + 1, … for one number, None where the stream goes on."""
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
    """The lanes to reset, bool[n], and the options for them. The caller's dict does not change."""
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


def value_per_lane(values: Any, num_envs: int) -> Sequence[Any]:
    """A list with one value per lane, from that or from one value for all lanes."""
    if not isinstance(values, (list, tuple)):
        return [values] * num_envs
    if len(values) != num_envs:
        raise InvalidLanes(f"{len(values)} values for {num_envs} lanes. Pass one value, or one per lane.")
    return values


def masked_lanes(lanes: Any, num_envs: int) -> frozenset[int]:
    """The numbers of the lanes that a mask names."""
    if not isinstance(lanes, np.ndarray) or lanes.shape != (num_envs,) or lanes.dtype != np.bool_:
        raise InvalidLanes(f"hold({lanes!r}): expected a bool array of shape ({num_envs},).")
    return frozenset(np.flatnonzero(lanes).tolist())


def reset_needed(lane: int) -> ResetNeeded:
    """The error for stepping a lane whose episode is over, without autoreset."""
    return ResetNeeded(
        f"lane {lane}: the episode has ended. reset(options={{'reset_mask': mask}}) begins the next one."
    )
