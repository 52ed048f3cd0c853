"""Frames collected, and frames on a screen, for environments that render arrays. The traps are memory and windows."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.frame_checks import LIST_SUFFIX
from paddock.core.window import Window
from paddock.core.wrapper import Wrapper
from paddock.errors import CheckFailed, InvalidMetadata, UnsupportedMode


class RenderCollection(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Renders after each reset and step; ``render`` returns the frames so far as a list.

    How much is kept: with ``reset_clean`` at most the frames since the last reset, with ``pop_frames`` those since the
    last ``render``, with both the fewer of the two. With neither every frame is kept until the wrapper goes:
    a 600x400 frame is 0.7 MB.
    """

    def __init__(self, env: Env[ObsType, ActType], pop_frames: bool = True, reset_clean: bool = True) -> None:
        super().__init__(env)
        mode = env.render_mode
        if mode is None:
            raise UnsupportedMode("Expected env.render_mode to be not None. Make it with render_mode='rgb_array'.")
        if mode.endswith(LIST_SUFFIX):
            raise UnsupportedMode(
                f"Expected env.render_mode to not end with '{LIST_SUFFIX}', got '{mode}': it is a list already."
            )
        self._record_arguments(pop_frames=pop_frames, reset_clean=reset_clean)
        self.frame_list: list[Any] = []
        self.pop_frames = pop_frames
        self.reset_clean = reset_clean
        self.metadata = _with_mode(env.metadata, f"{mode}{LIST_SUFFIX}")

    @property
    def render_mode(self) -> str:  # type: ignore[override]
        return f"{self.env.render_mode}{LIST_SUFFIX}"

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        result = self.env.step(action)
        self.frame_list.append(self.env.render())
        return result

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        result = self.env.reset(seed=seed, options=options)
        if self.reset_clean:
            self.frame_list = []
        self.frame_list.append(self.env.render())
        return result

    def render(self) -> list[Any]:
        """The frames kept, oldest first, in a list that later steps leave alone."""
        if not self.pop_frames:
            return list(self.frame_list)
        frames, self.frame_list = self.frame_list, []
        return frames


class HumanRendering(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Shows each frame in a window, at the frames per second of the metadata.

    Several of these share a window, which takes the size of the latest frame.
    """

    ACCEPTED_RENDER_MODES = ["rgb_array", "rgb_array_list", "depth_array", "depth_array_list"]

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self.screen_size: tuple[int, int] | None = None
        if env.render_mode not in self.ACCEPTED_RENDER_MODES:
            raise UnsupportedMode(
                f"Expected env.render_mode to be one of {self.ACCEPTED_RENDER_MODES} but got '{env.render_mode}'"
            )
        if "render_fps" not in env.metadata:
            raise InvalidMetadata(
                "The base environment must specify 'render_fps' to be used with the HumanRendering wrapper. "
                "Add it to its metadata."
            )
        self._record_arguments()
        self.metadata = _with_mode(env.metadata, "human")
        self.window = Window(env.metadata["render_fps"])

    @property
    def render_mode(self) -> str:  # type: ignore[override]
        return "human"

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        result = self.env.step(action)
        self._show()
        return result

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        result = self.env.reset(seed=seed, options=options)
        self._show()
        return result

    def render(self) -> None:
        """Nothing: each reset and step has shown its frame."""

    def close(self) -> None:
        self.window.close()
        super().close()

    def _show(self) -> None:
        frame = self._latest_frame()
        if frame is None:
            return
        picture = _picture(frame)
        height, width, _ = picture.shape
        size = (width, height)
        if self.screen_size is not None and size != self.screen_size:
            raise CheckFailed(f"The shape of the rgb array has changed from {self.screen_size} to {size}")
        self.screen_size = size
        self.window.show(picture)

    def _latest_frame(self) -> Any:
        frame = self.env.render()
        if isinstance(frame, list):
            return frame[-1] if frame else None
        return frame


def _with_mode(metadata: dict[str, Any], mode: str) -> dict[str, Any]:
    """A copy of the metadata that lists the mode as well; the environment's own belongs to its whole class."""
    copy = deepcopy(metadata)
    modes = list(copy.get("render_modes") or [])
    copy["render_modes"] = modes if mode in modes else [*modes, mode]
    return copy


def _picture(frame: Any) -> np.ndarray[Any, Any]:
    """uint8[height, width, 3] of an RGB or depth frame."""
    if not isinstance(frame, np.ndarray) or frame.ndim not in (2, 3):
        what = f"an array of shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame)
        raise CheckFailed(
            f"Expected `env.render()` to return a numpy array with two or three axes, actually returned {what}"
        )
    if frame.ndim == 3:
        return frame
    farthest = float(np.max(frame, initial=0.0))
    grey = np.zeros(frame.shape, np.uint8) if farthest <= 0 else (frame / farthest * 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)
