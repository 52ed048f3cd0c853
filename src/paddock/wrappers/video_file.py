"""VideoFile: an mp4 that grows frame by frame. Frames go to the encoder at once, none is kept: memory is bounded.

The encoder is PyAV, FFmpeg as a library: no program is started, and a full disk is an error with its errno.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from paddock.core.warning import warn_user
from paddock.errors import DependencyNotInstalled, VideoNotWritten
from paddock.wrappers.picture import Picture

# The first is in every wheel of PyAV; builds without it have the second.
_ENCODERS = ("libx264", "mpeg4")
# Written in pieces of a second and made one whole at the end: what a killed process leaves can be played.
_CONTAINER = {"movflags": "hybrid_fragmented", "frag_duration": "1000000", "flush_packets": "1"}
_QUICK = {"preset": "veryfast"}
_MOST_TICKS = 65535  # what MPEG-4 can count in a second


class VideoFile:
    """``path``, which is opened for the first picture and then has that one's size.

    Sizes that are odd grow by a pixel: players want even ones. A file that nobody closes is completed when this object
    goes, at the end of the program at the latest.
    """

    def __init__(self, path: str | Path, frames_per_second: float) -> None:
        self.path, self.frames_per_second = Path(path), frames_per_second
        self.frames = 0  # written so far
        self.size: tuple[int, int] | None = None  # height, width
        self._open: _Output | None = None
        self._forgotten: Any = None

    def write(self, picture: Picture) -> None:
        """Add a frame; it may be overwritten as soon as this returns."""
        size = picture.shape[:2]
        if size != (self.size or size):
            raise self._failed(ValueError(f"a frame is {size}, those before it are {self.size} (height, width)"))
        try:
            output = self._open or self._opened(size)
            output.encode(load_av().VideoFrame.from_ndarray(_even(picture), format="rgb24"))
        except Exception as error:  # whatever an encoder throws: none of it may reach an episode as it is
            self._abandon()
            raise self._failed(error) from error
        self.frames += 1

    def close(self) -> None:
        """Complete the file. Calling it twice is fine."""
        if self._open is None:
            return
        self._forgotten.detach()
        output, self._open = self._open, None
        try:
            output.complete()
        except Exception as error:
            self._drop_if_empty()
            raise self._failed(error) from error

    def _opened(self, size: tuple[int, int]) -> _Output:
        rate = Fraction(self.frames_per_second).limit_denominator(_MOST_TICKS)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.size, self._open = size, _Output(self.path, size, rate)
        self._forgotten = weakref.finalize(self, _complete_late, self._open, self.path)
        return self._open

    def _abandon(self) -> None:
        output, self._open = self._open, None
        if output is not None:
            self._forgotten.detach()
            output.abandon()
        self._drop_if_empty()

    def _drop_if_empty(self) -> None:
        with suppress(OSError):
            if self.path.is_file() and not self.path.stat().st_size:
                self.path.unlink()

    def _failed(self, error: Exception) -> VideoNotWritten:
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
        if os.getpid() != self.owner:  # a fork has the same file open: what it holds back is its parent's to write
            return
        try:
            self.encode(None)
            self.container.close()
            self.file.check()
        finally:
            self.abandon()

    def abandon(self) -> None:
        with suppress(Exception):  # follows from what went wrong first, which is on its way to the caller
            self.container.close()
        self.file.close()


class _File:
    """A file as PyAV writes it. Once it is full it takes everything, and ``check`` tells us.

    PyAV loses or prints what a file raises, and leaves a file open that it opened itself if that is full.
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
        """Bring what was written to the system, so that it outlives this process, and raise what went wrong."""
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
        raise DependencyNotInstalled('PyAV is not installed, run `pip install "paddock[video]"`') from error


def _even(picture: Picture) -> Picture:
    height, width = picture.shape[:2]
    if height % 2 or width % 2:
        picture = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(picture)


def _complete_late(output: _Output, path: Path) -> None:
    try:
        output.complete()
    except Exception as error:
        warn_user(f"{path} could not be completed: {error}.")
