"""When to record, and into which file: what RecordVideo does for one environment and for lanes alike.

A recording that fails ends with one warning. It never raises into an episode, and the next one is tried again.
"""

from __future__ import annotations

import gc
import math
import numbers
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from paddock.core.warning import warn_user
from paddock.errors import CheckFailed, InvalidMetadata, UnsupportedMode, VideoNotWritten
from paddock.wrappers.picture import Picture
from paddock.wrappers.video_file import VideoFile, load_av

Trigger: TypeAlias = Callable[[int], bool]
_NO_PICTURES = (None, "human", "ansi")
_USUAL_RATE = 30


def capped_cubic_video_schedule(episode_id: int) -> bool:
    """The episodes recorded by default: 0, 1, 8, 27, … 729, and from 1000 on every thousandth."""
    if episode_id >= 1000:
        return episode_id % 1000 == 0
    return bool(round(episode_id ** (1 / 3)) ** 3 == episode_id)


def after_every_video(episode_id: int) -> bool:
    """The default of ``gc_trigger``, by name: a spec that leaves it alone has a JSON form."""
    return True


class FramesWritten:
    """How many frames the running video has: they have left memory, so there is a length and nothing else."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<{self._count} frames, in the file>"


class VideoRecording:
    """The part of RecordVideo that knows triggers, names and files. A copy or a pickle of it does not record."""

    episode_trigger: Trigger | None
    step_trigger: Trigger | None
    gc_trigger: Trigger | None
    video_folder: str
    name_prefix: str
    video_length: float
    frames_per_sec: float
    disable_logger: bool
    recording: bool
    step_id: int
    episode_id: int
    _video_name: str | None = None
    _video: VideoFile | None = None
    _gave_up: bool = False  # the recording has ended itself: whoever stops it later is not at fault

    def _prepare(self, env: Any, video_folder: str | Path, video_length: int, name_prefix: str, fps: Any) -> None:
        mode = env.render_mode
        if mode in _NO_PICTURES:
            raise UnsupportedMode(
                f"Render mode is {mode}, which is incompatible with RecordVideo. "
                "Initialize your environment with a render_mode that returns an image, such as rgb_array."
            )
        load_av()
        self.frames_per_sec = _checked_rate(env.metadata.get("render_fps", _USUAL_RATE) if fps is None else fps)
        self.video_length = video_length if video_length != 0 else math.inf
        self.recording, self.step_id, self.episode_id = False, -1, -1
        self.name_prefix = name_prefix
        self.video_folder = str(_made(Path(video_folder).absolute(), name_prefix))

    def _set_triggers(
        self, episode_trigger: Trigger | None, step_trigger: Trigger | None, gc_trigger: Trigger | None
    ) -> None:
        if episode_trigger is None and step_trigger is None:
            episode_trigger = capped_cubic_video_schedule
        self.episode_trigger, self.step_trigger, self.gc_trigger = episode_trigger, step_trigger, gc_trigger

    @property
    def recorded_frames(self) -> FramesWritten:
        """The frames of the running video, of which only the number is known: they are in its file."""
        return FramesWritten(0 if self._video is None else self._video.frames)

    def start_recording(self, video_name: str) -> None:
        """Record to ``video_name.mp4`` in the folder from now on; a recording that is running is completed first."""
        if self.recording:
            self.stop_recording()
        self.recording, self._gave_up, self._video_name = True, False, video_name
        self._video = VideoFile(Path(self.video_folder, f"{video_name}.mp4"), self.frames_per_sec)

    def stop_recording(self) -> None:
        """Complete the video."""
        if not self.recording and not self._gave_up:
            raise CheckFailed("stop_recording was called, but no recording was started")
        video, self._video, self._video_name = self._video, None, None
        self.recording = self._gave_up = False
        if video is not None:
            _complete(video)
        if self.gc_trigger and self.gc_trigger(self.episode_id):
            gc.collect()

    def _episode_began(self) -> None:
        self.episode_id += 1
        if self.recording and self.video_length == math.inf:
            self.stop_recording()
        if self.episode_trigger and self.episode_trigger(self.episode_id):
            self.start_recording(f"{self.name_prefix}-episode-{self.episode_id}")

    def _rendered(self) -> list[Any]:
        """What the environment shows now; nothing if that was taken already. Its errors are its own."""
        raise NotImplementedError

    def _picture(self, rendered: Any) -> Picture:
        raise NotImplementedError

    def _capture_frame(self) -> None:
        """Add a frame to the running video, which ends with the frame after ``video_length`` steps."""
        assert self._video is not None, "Cannot capture a frame, recording wasn't started."
        rendered = self._rendered()
        try:
            for frame in rendered:
                self._video.write(self._picture(frame))
        except (CheckFailed, VideoNotWritten, TypeError, ValueError) as error:  # NumPy's, of a frame that is no picture
            self._give_up(error)
        else:
            if self._video.frames > self.video_length:
                self.stop_recording()

    def _give_up(self, error: Exception) -> None:
        video, self._video = self._video, None
        self.recording, self._gave_up, self._video_name = False, True, None
        warn_user(f"Recording stopped: {error}")
        if video is not None and video.frames:
            _complete(video)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_video": None, "_video_name": None, "recording": False}


def _complete(video: VideoFile) -> None:
    try:
        video.close()
    except VideoNotWritten as error:
        warn_user(f"Recording lost: {error}")
    else:
        if not video.frames:
            warn_user("Ignored saving a video as there were zero frames to save.")


def _checked_rate(frames_per_second: Any) -> float:
    real = isinstance(frames_per_second, numbers.Real) and not isinstance(frames_per_second, bool)
    if not real or not 0 < frames_per_second < math.inf:
        raise InvalidMetadata(f"A video needs a positive number of frames per second, got {frames_per_second!r}.")
    return frames_per_second  # type: ignore[no-any-return]


def _made(folder: Path, name_prefix: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VideoNotWritten(f"The folder for videos can't be made: {error}. Choose another video_folder.") from error
    if any(folder.glob(f"{name_prefix}-*.mp4")):
        warn_user(
            f"Overwriting existing videos at {folder} folder (try specifying a different `video_folder` for the "
            "`RecordVideo` wrapper if this is not desired)"
        )
    return folder
