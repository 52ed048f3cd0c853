"""RecordVideo and the file that it writes: an mp4 that grows frame by frame, so memory is bounded.

A recording that fails ends with one warning. It never raises into an episode, and the next one is tried again. The
encoder is PyAV, FFmpeg as a library: no program is started, and a full disk is an error with its errno.
"""

from __future__ import annotations

import gc
import math
import numbers
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, SupportsFloat, TypeAlias

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.problem import warn_user
from paddock.core.wrapper import Wrapper
from paddock.errors import CheckFailed, DependencyNotInstalled, InvalidMetadata, UnsupportedMode, VideoNotWritten
from paddock.wrappers.rendering import Picture, to_picture

Trigger: TypeAlias = Callable[[int], bool]
_NO_PICTURES = (None, "human", "ansi")
_USUAL_RATE = 30
# The first is in every wheel of PyAV; builds without it have the second.
_ENCODERS = ("libx264", "mpeg4")
# Written in pieces of a second and joined at the end: what a killed process leaves can be played.
_CONTAINER = {"movflags": "hybrid_fragmented", "frag_duration": "1000000", "flush_packets": "1"}
_QUICK = {"preset": "veryfast"}
_MOST_TICKS = 65535  # what MPEG-4 can count in a second


def capped_cubic_video_schedule(episode_id: int) -> bool:
    """The episodes recorded by default: 0, 1, 8, 27, … 729, and from 1000 on every thousandth."""
    if episode_id >= 1000:
        return episode_id % 1000 == 0
    return bool(round(episode_id ** (1 / 3)) ** 3 == episode_id)


def after_every_video(episode_id: int) -> bool:
    """The default of ``gc_trigger``, a named function: a spec that leaves it alone has a JSON form."""
    return True


class FramesWritten:
    """How many frames the running video has: they are no longer in memory, so there is only a length."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<{self._count} frames, in the file>"


class VideoRecording:
    """What the RecordVideo of one environment and that of lanes share: triggers, names and files.

    A copy or a pickle of it does not record.
    """

    _video_name: str | None = None
    _video: VideoFile | None = None
    _gave_up: bool = False  # the recording ended by itself, so stopping it later is not an error

    def _prepare(
        self,
        env: Any,
        video_folder: str | Path,
        episode_trigger: Trigger | None,
        step_trigger: Trigger | None,
        video_length: int,
        name_prefix: str,
        fps: Any,
        disable_logger: bool,
        gc_trigger: Trigger | None,
    ) -> None:
        mode = env.render_mode
        if mode in _NO_PICTURES:
            raise UnsupportedMode(
                f"Render mode is {mode}, which is incompatible with RecordVideo. "
                "Initialize your environment with a render_mode that returns an image, such as rgb_array."
            )
        load_av()
        rate = env.metadata.get("render_fps", _USUAL_RATE) if fps is None else fps
        real = isinstance(rate, numbers.Real) and not isinstance(rate, bool)
        if not real or not 0 < rate < math.inf:
            raise InvalidMetadata(f"A video needs a positive number of frames per second, got {rate!r}.")
        self.frames_per_sec: float = rate
        self.video_length: float = video_length if video_length != 0 else math.inf
        self.recording, self.step_id, self.episode_id = False, -1, -1
        self.name_prefix, self.disable_logger = name_prefix, disable_logger
        if episode_trigger is None and step_trigger is None:
            episode_trigger = capped_cubic_video_schedule
        self.episode_trigger, self.step_trigger, self.gc_trigger = episode_trigger, step_trigger, gc_trigger
        folder = Path(video_folder).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VideoNotWritten(
                f"The folder for videos can't be made: {error}. Choose another video_folder."
            ) from error
        if any(folder.glob(f"{name_prefix}-*.mp4")):
            warn_user(
                f"Overwriting existing videos at {folder} folder (try specifying a different `video_folder` for the "
                "`RecordVideo` wrapper if this is not desired)"
            )
        self.video_folder = str(folder)

    @property
    def recorded_frames(self) -> FramesWritten:
        """The frames of the running video, which are in its file: only their number is known."""
        return FramesWritten(0 if self._video is None else self._video.frames)

    def start_recording(self, video_name: str) -> None:
        """Record to ``video_name.mp4`` in the folder from now on; completes a running recording first."""
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

    def _begin_episode(self) -> None:
        self.episode_id += 1
        if self.recording and self.video_length == math.inf:
            self.stop_recording()
        if self.episode_trigger and self.episode_trigger(self.episode_id):
            self.start_recording(f"{self.name_prefix}-episode-{self.episode_id}")

    def _render_frames(self) -> list[Any]:
        """Render the environment; empty if this frame was already taken. Errors are the environment's own."""
        raise NotImplementedError

    def _picture(self, rendered: Any) -> Picture:
        raise NotImplementedError

    def _capture_frame(self) -> None:
        """Add a frame to the running video, which ends with the frame after ``video_length`` steps."""
        assert self._video is not None, "Cannot capture a frame, recording wasn't started."
        rendered = self._render_frames()
        try:
            for frame in rendered:
                self._video.write(self._picture(frame))
        except (CheckFailed, VideoNotWritten, TypeError, ValueError) as error:  # the last two are NumPy's
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


class RecordVideo(Wrapper[ObsType, ActType, ObsType, ActType], VideoRecording):
    """Records the episodes, or from the steps on, that a trigger chooses; by default the capped cubic schedule.

    A video holds a whole episode, or ``video_length`` steps and the frame before them, across episodes if need be.
    Each frame goes to the file at once. ``disable_logger`` has no effect: at the end there is nothing left to do that
    could take long. Restoring a snapshot leaves the video alone: it shows what happened, in that order. The agent's
    ``render`` returns what it would return without this wrapper.
    """

    def __init__(
        self,
        env: Env[ObsType, ActType],
        video_folder: str | Path,
        episode_trigger: Trigger | None = None,
        step_trigger: Trigger | None = None,
        video_length: int = 0,
        name_prefix: str = "rl-video",
        fps: float | None = None,
        disable_logger: bool = True,
        gc_trigger: Trigger | None = after_every_video,
    ) -> None:
        super().__init__(env)
        arguments: dict[str, Any] = {
            "episode_trigger": episode_trigger,
            "step_trigger": step_trigger,
            "video_length": video_length,
            "name_prefix": name_prefix,
            "fps": fps,
            "disable_logger": disable_logger,
        }
        self._prepare(env, video_folder, **arguments, gc_trigger=gc_trigger)
        if gc_trigger is not after_every_video:
            arguments["gc_trigger"] = gc_trigger
        self._record_arguments(video_folder=str(video_folder), **arguments)
        self.render_history: list[Any] = []  # frames of a list mode that were taken from the agent's next `render`
        # Frames in a list are gone once rendered and gone with a reset, unless the list's maker says otherwise.
        self._keeps = not env.has_wrapper_attr("pop_frames") or env.get_wrapper_attr("pop_frames")
        self._forgets = not env.has_wrapper_attr("reset_clean") or env.get_wrapper_attr("reset_clean")

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        result = self.env.reset(seed=seed, options=options)
        if self._forgets:
            self.render_history = []
        self._begin_episode()
        if self.recording:
            self._capture_frame()
        return result

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        result = self.env.step(action)
        self.step_id += 1
        if self.step_trigger and self.step_trigger(self.step_id):
            self.start_recording(f"{self.name_prefix}-step-{self.step_id}")
        if self.recording:
            self._capture_frame()
        return result

    def render(self) -> Any:
        """What the environment renders, with the frames of a list mode that the video took meanwhile."""
        frames = self.env.render()
        if not self.render_history:
            return frames
        earlier, self.render_history = self.render_history, []
        return earlier + frames

    def close(self) -> None:
        """Complete the running video, and close."""
        if self.recording:
            self.stop_recording()
        super().close()

    def _render_frames(self) -> list[Any]:
        frame = self.env.render()
        if not isinstance(frame, list):
            return [frame]
        if not frame:
            warn_user(
                "Trying to capture render frame but 'env.render()' has just been called. The frame cannot be captured."
            )
        elif self._keeps:
            self.render_history += frame
        return frame[-1:]

    def _picture(self, rendered: Any) -> Picture:
        return to_picture(rendered)


class VideoFile:
    """The video at ``path``, which the first picture opens and gives its size.

    Odd sizes grow by a pixel: players want even ones. A file that is not closed is completed when this object is
    collected, at the end of the program at the latest.
    """

    def __init__(self, path: str | Path, frames_per_second: float) -> None:
        self.path, self.frames_per_second = Path(path), frames_per_second
        self.frames = 0  # written so far
        self.size: tuple[int, int] | None = None  # height, width
        self._open: _Output | None = None
        self._finalizer: Any = None

    def write(self, picture: Picture) -> None:
        """Add a frame; it may be overwritten as soon as this returns."""
        size = picture.shape[:2]
        if size != (self.size or size):
            raise self._not_written(ValueError(f"a frame is {size}, those before it are {self.size} (height, width)"))
        try:
            if self._open is None:
                rate = Fraction(self.frames_per_second).limit_denominator(_MOST_TICKS)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.size, self._open = size, _Output(self.path, size, rate)
                self._finalizer = weakref.finalize(self, _complete_late, self._open, self.path)
            height, width = size
            if height % 2 or width % 2:
                picture = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
            frame = load_av().VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            self._open.encode(frame)
        except Exception as error:  # whatever an encoder throws: it must not reach an episode as it is
            self._abandon()
            raise self._not_written(error) from error
        self.frames += 1

    def close(self) -> None:
        """Complete the file. Calling it twice is fine."""
        if self._open is None:
            return
        self._finalizer.detach()
        output, self._open = self._open, None
        try:
            output.complete()
        except Exception as error:
            self._drop_if_empty()
            raise self._not_written(error) from error

    def _abandon(self) -> None:
        output, self._open = self._open, None
        if output is not None:
            self._finalizer.detach()
            output.abandon()
        self._drop_if_empty()

    def _drop_if_empty(self) -> None:
        with suppress(OSError):
            if self.path.is_file() and not self.path.stat().st_size:
                self.path.unlink()

    def _not_written(self, error: Exception) -> VideoNotWritten:
        why = str(error) or type(error).__name__
        return VideoNotWritten(f"{self.path} could not be written after {self.frames} frames: {why}.")


class _Output:
    """The encoder and the file that it writes to."""

    def __init__(self, path: Path, size: tuple[int, int], rate: Fraction) -> None:
        av = load_av()
        self.owner = os.getpid()
        self.file = _File(path)
        try:
            self.container = av.open(self.file, "w", format="mp4", options=_CONTAINER)
            name = next((name for name in _ENCODERS if name in av.codecs_available), _ENCODERS[0])
            self.stream = self.container.add_stream(name, rate=rate, options=_QUICK if name == _ENCODERS[0] else {})
        except BaseException:
            self.file.close()
            raise
        self.stream.height, self.stream.width = (length + length % 2 for length in size)
        self.stream.pix_fmt = "yuv420p"
        self.stream.codec_context.thread_count = 1  # more are slower at these sizes, and take cores from the learner

    def encode(self, frame: Any) -> None:
        self.container.mux(self.stream.encode(frame))
        self.file.check()

    def complete(self) -> None:
        if os.getpid() != self.owner:  # a fork has the same file open, and what is buffered is its parent's to write
            return
        try:
            self.encode(None)
            self.container.close()
            self.file.check()
        finally:
            self.abandon()

    def abandon(self) -> None:
        with suppress(Exception):  # a consequence of the first error, which is on its way to the caller
            self.container.close()
        self.file.close()


class _File:
    """A file for PyAV to write to. After an error it accepts everything, and ``check`` raises the error.

    PyAV loses or prints what a file raises, and leaves a file that it opened itself open when the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        self._try(self._file.write, data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._try(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._try(self._file.tell)

    def check(self) -> None:
        """Flush to the system, so that what is written outlives this process, and raise the first error."""
        self._try(self._file.flush)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()

    def _try(self, act: Callable[..., Any], *arguments: Any) -> int:
        if self._error is None:
            try:
                return act(*arguments) or 0
            except OSError as error:
                self._error = error
        return 0


def load_av() -> Any:
    """The PyAV module, imported when first used."""
    try:
        return import_module("av")
    except ImportError as error:
        raise DependencyNotInstalled("PyAV is not installed, run `pip install av`") from error


def _complete_late(output: _Output, path: Path) -> None:
    try:
        output.complete()
    except Exception as error:
        warn_user(f"{path} could not be completed: {error}.")
