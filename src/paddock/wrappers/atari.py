"""AtariPreprocessing, after Machado et al. (2018): no-ops first; frames skipped, pooled, small and grey.

It reads the screen from the emulator itself (``env.unwrapped.ale``), so it needs an ALE environment whose own frame
skip is off. Of an episode that ends within the skipped frames it shows the end, not the window before.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.wrapper import Wrapper
from paddock.errors import InvalidBound, InvalidSpace, InvalidSpec
from paddock.spaces import Box
from paddock.wrappers.logic import Memory, pack_memory, unpack_memory
from paddock.wrappers.pixels import opencv


class Screens(Memory):
    """The lives left, whether the game is over, and the last two screens, the newer one first."""

    lives: int
    game_over: bool
    newest: np.ndarray[Any, Any]
    before: np.ndarray[Any, Any]


class AtariPreprocessing(Wrapper[Any, Any, Any, Any]):
    """Preprocessing of an ALE environment, without frame stacking.

    * ``noop_max``: an episode begins with 1 to ``noop_max`` no-ops, drawn from the environment's random stream.
    * ``frame_skip``: frames per action; the agent sees the larger of the last two, pixel by pixel.
    * ``screen_size``: width and height, or one number for both.
    * ``terminal_on_life_loss``: losing a life ends the episode.
    * ``grayscale_obs``: one channel, without an axis unless ``grayscale_newaxis``.
    * ``scale_obs``: float32 from 0 to 1 instead of uint8.
    """

    def __init__(
        self,
        env: Env[Any, Any],
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int | tuple[int, int] = 84,
        terminal_on_life_loss: bool = False,
        grayscale_obs: bool = True,
        grayscale_newaxis: bool = False,
        scale_obs: bool = False,
    ) -> None:
        super().__init__(env)
        opencv()
        self._record_arguments(
            noop_max=noop_max,
            frame_skip=frame_skip,
            screen_size=screen_size,
            terminal_on_life_loss=terminal_on_life_loss,
            grayscale_obs=grayscale_obs,
            grayscale_newaxis=grayscale_newaxis,
            scale_obs=scale_obs,
        )
        _check_arguments(env, frame_skip, noop_max)
        self.noop_max, self.frame_skip = noop_max, frame_skip
        sides: Any = (screen_size, screen_size) if isinstance(screen_size, int) else screen_size
        if not isinstance(sides, (list, tuple)) or len(sides) != 2:  # a list is a tuple that has been through JSON
            sides = (0, 0)
        if not all(type(side) is int and side > 0 for side in sides):
            raise InvalidBound(f"Expect the `screen_size` to be positive, actually: {screen_size}")
        self.screen_size = (sides[0], sides[1])
        self.terminal_on_life_loss, self.scale_obs = terminal_on_life_loss, scale_obs
        self.grayscale_obs, self.grayscale_newaxis = grayscale_obs, grayscale_newaxis
        if not isinstance(env.observation_space, Box):
            raise InvalidSpace(
                f"AtariPreprocessing wrapper requires a Box observation space, got {type(env.observation_space)}"
            )
        shape = env.observation_space.shape[:2] if grayscale_obs else env.observation_space.shape
        newest, before = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self._memory = Screens(lives=0, game_over=False, newest=newest, before=before)
        width, height = self.screen_size
        channels = () if grayscale_obs and not grayscale_newaxis else (1 if grayscale_obs else 3,)
        high, dtype = (1, np.float32) if scale_obs else (255, np.uint8)
        self.observation_space = Box(0, high, (height, width, *channels), dtype)

    @property
    def ale(self) -> Any:
        """The emulator."""
        return self.env.unwrapped.ale  # type: ignore[attr-defined]

    @property
    def lives(self) -> int:
        """The lives left, as of the last reset or step."""
        return self._memory.lives

    @property
    def game_over(self) -> bool:
        """Whether the last step ended the episode."""
        return self._memory.game_over

    @property
    def obs_buffer(self) -> list[np.ndarray[Any, Any]]:
        """The last two screens, the newer one first."""
        return [self._memory.newest, self._memory.before]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        _, info = self.env.reset(seed=seed, options=options)
        noops = 0
        if self.noop_max > 0:
            noops = int(self.env.unwrapped.np_random.integers(1, self.noop_max + 1))
        for _ in range(noops):
            _, _, terminated, truncated, latest = self.env.step(0)
            info = {**info, **latest}
            if terminated or truncated:
                _, info = self.env.reset(seed=seed, options=options)
        memory = self._memory
        memory.lives, memory.game_over = self.ale.lives(), False
        self._read_screen(memory.newest)
        memory.before.fill(0)
        return self._observe(), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        memory, total, last = self._memory, 0.0, self.frame_skip - 1
        for frame in range(self.frame_skip):
            _, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if self.terminal_on_life_loss:
                lives = self.ale.lives()
                terminated, memory.lives = terminated or lives < memory.lives, lives
            memory.game_over = terminated
            if terminated or truncated:
                break
            if frame == last - 1:
                self._read_screen(memory.before)
        if frame < last:
            memory.before.fill(0)  # the screen before the end was not read: each would take the time of a frame
        self._read_screen(memory.newest)
        return self._observe(), total, terminated, truncated, info

    def _read_screen(self, screen: np.ndarray[Any, Any]) -> None:
        if self.grayscale_obs:
            self.ale.getScreenGrayscale(screen)
        else:
            self.ale.getScreenRGB(screen)

    def _observe(self) -> np.ndarray[Any, Any]:
        cv2, memory = opencv(), self._memory
        pooled = np.maximum(memory.newest, memory.before) if self.frame_skip > 1 else memory.newest
        frame: np.ndarray[Any, Any] = cv2.resize(pooled, self.screen_size, interpolation=cv2.INTER_AREA)
        if self.scale_obs:
            frame = np.asarray(frame, np.float32) / np.float32(255)
        return frame[..., None] if self.grayscale_obs and self.grayscale_newaxis else frame

    def snapshot(self) -> bytes:
        return seal_snapshot("atari_preprocessing", pack_memory(self._memory), self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        data, inner = open_snapshot("atari_preprocessing", snapshot, dict[str, Any])
        values = unpack_memory(self._memory, data)
        self.env.restore(inner)
        self._memory._assign(values)


def _check_arguments(env: Env[Any, Any], frame_skip: int, noop_max: int) -> None:
    if frame_skip <= 0:
        raise InvalidBound(f"Expect the `frame_skip` to be positive, actually: {frame_skip}")
    own = getattr(env.unwrapped, "_frameskip", None)
    if frame_skip > 1 and own != 1:
        raise InvalidSpec(
            "Disable frame-skipping in the original env. Otherwise, more than one frame-skip will happen as through "
            f"this wrapper. Its frame skip is {own!r}: make it with frameskip=1."
        )
    if noop_max < 0:
        raise InvalidBound(f"Expect the `noop_max` to be non-negative, actually: {noop_max}")
    if noop_max > 0 and (first := env.unwrapped.get_action_meanings()[0]) != "NOOP":  # type: ignore[attr-defined]
        raise InvalidSpec(f"When noop_max > 0, the first action meaning must be 'NOOP', not {first!r}.")
