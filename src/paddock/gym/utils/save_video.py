"""Write videos of frames that are in memory. RecordVideo needs no such list: it writes each frame as it comes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paddock.core.problem import warn_user
from paddock.errors import MissingArgument
from paddock.wrappers.rendering import to_picture
from paddock.wrappers.video import VideoFile, capped_cubic_video_schedule, load_av

__all__ = ["capped_cubic_video_schedule", "save_video"]


def save_video(
    frames: list[Any],
    video_folder: str,
    episode_trigger: Callable[[int], bool] | None = None,
    step_trigger: Callable[[int], bool] | None = None,
    video_length: int | None = None,
    name_prefix: str = "rl-video",
    episode_index: int = 0,
    step_starting_index: int = 0,
    save_logger: str | None = None,
    **kwargs: Any,
) -> None:
    """Write an episode's frames, if its trigger says so, and videos from the steps that the other trigger chooses.

    The first frame is that of the reset: frame i + 1 shows step ``step_starting_index + i``. ``fps`` is required.
    ``video_length``: frames per video, None for all. ``save_logger`` has no effect. A file that can't be written raises
    :class:`VideoNotWritten`, which says why.
    """
    rate = kwargs.get("fps")
    if len(kwargs) != 1 or rate is None or not 0 < rate < math.inf:
        raise MissingArgument(
            f"save_video takes fps=, a positive number of frames per second, and no further options; got {kwargs}. "
            'Usually it is fps=env.metadata["render_fps"].'
        )
    load_av()
    if not isinstance(frames, list):
        warn_user(f"Expected a list of frames, got a {type(frames)} instead.")
        frames = list(frames)
    if episode_trigger is None and step_trigger is None:
        episode_trigger = capped_cubic_video_schedule
    folder = Path(video_folder).absolute()
    if episode_trigger is not None and episode_trigger(episode_index):
        _write(folder / f"{name_prefix}-episode-{episode_index}.mp4", rate, frames[:video_length])
    if step_trigger is None:
        return
    for step, first in enumerate(range(1, len(frames)), start=step_starting_index):
        if step_trigger(step):
            end = None if video_length is None else first + video_length
            _write(folder / f"{name_prefix}-step-{step}.mp4", rate, frames[first:end])


def _write(path: Path, frames_per_second: float, frames: Sequence[Any]) -> None:
    if not frames:
        warn_user(f"Ignored saving {path.name} as there were zero frames to save.")
        return
    video = VideoFile(path, frames_per_second)
    for frame in frames:
        video.write(to_picture(frame))
    video.close()
