"""Frames of environments that render arrays: collected in a list, shown in a window, turned into pictures.

A picture is uint8[height, width, 3]. A depth frame is scaled by its own farthest point.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, SupportsFloat, TypeAlias

import numpy as np

from paddock.core.checks import LIST_SUFFIX
from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.problem import warn_user
from paddock.core.window import Window, load_pygame
from paddock.core.wrapper import Wrapper
from paddock.errors import CheckFailed, InvalidMetadata, UnsupportedMode

Picture: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
_COLOURS, _WITH_ALPHA = 3, 4
_MANY_BYTES = 1 << 30


class RenderCollection(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Renders after each reset and step; ``render`` returns the frames so far as a list.

    With ``reset_clean`` it keeps at most the frames since the last reset, with ``pop_frames`` those since the last
    ``render``, with both the fewer of the two. With neither it keeps every frame for as long as it lives: a 600x400
    frame is 0.7 MB. Beyond a gigabyte it warns, once.
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
        self._many = 0  # frames that make a gigabyte; 0: the size of one is not known yet
        self.metadata = add_mode(env.metadata, f"{mode}{LIST_SUFFIX}")

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
        """The frames, oldest first, in a list that later steps leave alone."""
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
        self.window = make_window(env.render_mode, env.metadata, self.ACCEPTED_RENDER_MODES)
        self._record_arguments()
        self.metadata = add_mode(env.metadata, "human")

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
        """Do nothing: each reset and step has shown its frame."""

    def close(self) -> None:
        self.window.close()
        super().close()

    def _show(self) -> None:
        frame = latest_frame(self.env.render())
        if frame is None:
            return
        picture = to_picture(frame)
        height, width, _ = picture.shape
        size = (width, height)
        if self.screen_size is not None and size != self.screen_size:
            raise CheckFailed(f"The shape of the rgb array has changed from {self.screen_size} to {size}")
        self.screen_size = size
        self.window.show(picture)


def make_window(mode: str | None, metadata: dict[str, Any], accepted: list[str]) -> Window:
    """Make a window for what this mode renders, at the metadata's frames per second; the first picture opens it."""
    if mode not in accepted:
        raise UnsupportedMode(f"Expected env.render_mode to be one of {accepted} but got '{mode}'")
    if "render_fps" not in metadata:
        raise InvalidMetadata(
            "The base environment must specify 'render_fps' to be used with the HumanRendering wrapper. "
            "Add it to its metadata."
        )
    load_pygame()
    return Window(metadata["render_fps"])


def add_mode(metadata: dict[str, Any], mode: str) -> dict[str, Any]:
    """A copy of the metadata that lists the mode as well: the environment's own belongs to its whole class."""
    copy = deepcopy(metadata)
    modes = list(copy.get("render_modes") or [])
    copy["render_modes"] = modes if mode in modes else [*modes, mode]
    return copy


def latest_frame(frame: Any) -> Any:
    """The frame, or the last one of a list of frames; None if that is empty."""
    if not isinstance(frame, list):
        return frame
    return frame[-1] if frame else None


def to_picture(frame: Any) -> Picture:
    """Make a picture of an RGB, RGBA, grey or depth frame."""
    if not isinstance(frame, np.ndarray) or frame.ndim not in (2, 3):
        what = f"an array of shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame)
        raise CheckFailed(
            f"Expected `env.render()` to return a numpy array with two or three axes, actually returned {what}"
        )
    if frame.ndim == 2:
        farthest = float(np.max(frame, initial=0.0))
        grey = np.zeros(frame.shape, np.uint8) if farthest <= 0 else (frame / farthest * 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], _COLOURS, axis=2)
    if frame.shape[2] not in (1, _COLOURS, _WITH_ALPHA):
        raise CheckFailed(f"Expected `env.render()` to return 1, 3 or 4 channels, actually returned {frame.shape}")
    if frame.dtype != np.uint8:
        # Fractions are refused, not cast: 0 to 1 and 0 to 255 look alike, and one of the two would be all black.
        if frame.dtype.kind not in "iub":
            raise CheckFailed(f"Expected `env.render()` to return uint8 from 0 to 255, actually returned {frame.dtype}")
        frame = frame.astype(np.uint8)
    return np.repeat(frame, _COLOURS, axis=2) if frame.shape[2] == 1 else frame[:, :, :_COLOURS]


def choose_grid(lanes: int, size: tuple[int, int], aspect_ratio: float) -> tuple[int, int]:
    """Rows and columns of the full grid, with no more rows than columns, that is nearest to the aspect ratio.

    ``size``: height and width of a picture. A prime number of lanes has one such grid: a single row.
    """
    height, width = size
    full = [rows for rows in range(1, int(lanes**0.5) + 1) if lanes % rows == 0]
    best = min(full, key=lambda rows: abs(lanes // rows * width / (rows * height) - aspect_ratio), default=1)
    return best, lanes // best


def fit_tiles(lanes: int, size: tuple[int, int], screen: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
    """Rows, columns, and the size of each picture so that all fit the screen. Sizes are width and height."""
    (width, height), (across, down) = size, screen
    rows = columns = 1
    while rows * columns < lanes:  # add one where the screen is less full
        wide, high = columns * width * down, rows * height * across
        columns, rows = columns + (wide <= high), rows + (high <= wide)
    # In whole numbers: with fractions, what should fill the screen may be a pixel short of it.
    if across * rows * height <= down * columns * width:
        scaled = across // columns, across * height // (columns * width)
    else:
        scaled = down * width // (rows * height), down // rows
    return rows, columns, (max(scaled[0], 1), max(scaled[1], 1))


def tile(pictures: Sequence[Picture], rows: int, columns: int, into: Picture | None = None) -> Picture:
    """Put pictures of one size into a grid, row by row; places without a lane stay black.

    Writes over ``into`` if that has the right size.
    """
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) != 1:
        raise CheckFailed(f"Expected the frames of all lanes to have one shape, they have {shapes}")
    height, width, _ = shapes[0]
    whole = (rows * height, columns * width, 3)
    grid = np.zeros(whole, np.uint8) if into is None or into.shape != whole else into
    for lane, picture in enumerate(pictures):
        top, left = lane // columns * height, lane % columns * width
        grid[top : top + height, left : left + width] = picture
    return grid
