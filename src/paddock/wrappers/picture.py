"""Pictures: what ``render`` returns, as uint8[height, width, 3]. A depth frame is scaled by its own farthest point."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from paddock.errors import CheckFailed

Picture: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
_COLOURS, _WITH_ALPHA = 3, 4


def latest(frame: Any) -> Any:
    """The frame, or the last one of a list of frames; None if that is empty."""
    if not isinstance(frame, list):
        return frame
    return frame[-1] if frame else None


def picture_of(frame: Any) -> Picture:
    """The picture of an RGB, RGBA, grey or depth frame."""
    if not isinstance(frame, np.ndarray) or frame.ndim not in (2, 3):
        what = f"an array of shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame)
        raise CheckFailed(
            f"Expected `env.render()` to return a numpy array with two or three axes, actually returned {what}"
        )
    if frame.ndim == 2:
        return _grey(frame)
    if frame.shape[2] not in (1, _COLOURS, _WITH_ALPHA):
        raise CheckFailed(f"Expected `env.render()` to return 1, 3 or 4 channels, actually returned {frame.shape}")
    if frame.dtype != np.uint8:
        frame = _bytes(frame)
    return np.repeat(frame, _COLOURS, axis=2) if frame.shape[2] == 1 else frame[:, :, :_COLOURS]


def _bytes(frame: Any) -> Picture:
    # Fractions are refused, not cast: nobody can tell 0 to 1 from 0 to 255, and one of the two would be all black.
    if frame.dtype.kind not in "iub":
        raise CheckFailed(f"Expected `env.render()` to return uint8 from 0 to 255, actually returned {frame.dtype}")
    return frame.astype(np.uint8)  # type: ignore[no-any-return]


def _grey(depth: Any) -> Picture:
    farthest = float(np.max(depth, initial=0.0))
    grey = np.zeros(depth.shape, np.uint8) if farthest <= 0 else (depth / farthest * 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], _COLOURS, axis=2)
