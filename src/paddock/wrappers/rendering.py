"""Frames collected, and frames on a screen, for environments that render arrays. The traps are memory and windows."""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import Any, SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.frame_checks import LIST_SUFFIX
from paddock.core.warning import warn_user
from paddock.core.window import Window, load_pygame
from paddock.core.wrapper import Wrapper
from paddock.errors import CheckFailed, InvalidMetadata, UnsupportedMode
from paddock.wrappers.picture import latest, picture_of

_MANY_BYTES = 1 << 30


class RenderCollection(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Renders after each reset and step; ``render`` returns the frames so far as a list.

    How much is kept: with ``reset_clean`` at most the frames since the last reset, with ``pop_frames`` those since the
    last ``render``, with both the fewer of the two. With neither every frame is kept until the wrapper goes:
    a 600x400 frame is 0.7 MB. From a gigabyte on there is a warning, once.
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
        self._many = 0  # frames that are a gigabyte; 0: how large one is, is not known yet
        self.metadata = with_mode(env.metadata, f"{mode}{LIST_SUFFIX}")

    @property
    def render_mode(self) -> str:  # type: ignore[override]
        return f"{self.env.render_mode}{LIST_SUFFIX}"

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        result = self.env.step(action)
        self.frame_list.append(self.env.render())
        if len(self.frame_list) >= self._many:
            self._warn_of_many()
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

    def _warn_of_many(self) -> None:
        many = _MANY_BYTES // max(getattr(self.frame_list[-1], "nbytes", 1), 1) + 1
        if self._many == 0 or len(self.frame_list) < many:
            self._many = many
            return
        self._many = sys.maxsize
        warn_user(
            f"RenderCollection keeps {len(self.frame_list)} frames, more than {_MANY_BYTES >> 20} MB, and goes on. "
            "Call render() more often with pop_frames=True, or write them to a file with RecordVideo."
        )


class HumanRendering(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Shows each frame in a window, at the frames per second of the metadata.

    Several of these share a window, which takes the size of the latest frame.
    """

    ACCEPTED_RENDER_MODES = ["rgb_array", "rgb_array_list", "depth_array", "depth_array_list"]

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self.screen_size: tuple[int, int] | None = None
        self.window = window_for(env.render_mode, env.metadata, self.ACCEPTED_RENDER_MODES)
        self._record_arguments()
        self.metadata = with_mode(env.metadata, "human")

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
        frame = latest(self.env.render())
        if frame is None:
            return
        picture = picture_of(frame)
        height, width, _ = picture.shape
        size = (width, height)
        if self.screen_size is not None and size != self.screen_size:
            raise CheckFailed(f"The shape of the rgb array has changed from {self.screen_size} to {size}")
        self.screen_size = size
        self.window.show(picture)


def window_for(mode: str | None, metadata: dict[str, Any], accepted: list[str]) -> Window:
    """A window for what this mode renders, at the rate of the metadata; it opens with the first picture."""
    if mode not in accepted:
        raise UnsupportedMode(f"Expected env.render_mode to be one of {accepted} but got '{mode}'")
    if "render_fps" not in metadata:
        raise InvalidMetadata(
            "The base environment must specify 'render_fps' to be used with the HumanRendering wrapper. "
            "Add it to its metadata."
        )
    load_pygame()
    return Window(metadata["render_fps"])


def with_mode(metadata: dict[str, Any], mode: str) -> dict[str, Any]:
    """A copy of the metadata that lists the mode as well; the environment's own belongs to its whole class."""
    copy = deepcopy(metadata)
    modes = list(copy.get("render_modes") or [])
    copy["render_modes"] = modes if mode in modes else [*modes, mode]
    return copy
