"""Lane: one environment of a batch, with its autoreset. Every vector environment that holds Envs steps them here."""

from __future__ import annotations

from typing import Any, SupportsFloat

from paddock.core.env import Env, Info
from paddock.core.snapshot import opened, sealed
from paddock.core.vector_env import AutoresetMode
from paddock.errors import ResetNeeded


class Lane:
    """``env`` that begins its next episode as ``mode`` says. ``ended``: the episode is over and none has begun."""

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
            return self._after_the_end()
        result = self.env.step(action)
        return self._ending(result) if result[2] or result[3] else result

    def _after_the_end(self) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self.mode is not AutoresetMode.NEXT_STEP:
            raise ResetNeeded("the episode has ended. reset(options={'reset_mask': mask}) begins anew.")
        observation, info = self.env.reset()
        self.ended = False
        return observation, 0.0, False, False, info

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
        return sealed("lane", self.ended, self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of a lane; anything else is refused."""
        ended, inner = opened("lane", snapshot, bool)
        self.env.restore(inner)
        self.ended = ended
