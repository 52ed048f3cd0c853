"""RecordVideo of n lanes, in one picture. Episodes are those of lane 0: the other lanes go along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import VectorWrapper
from paddock.core.warning import warn_user
from paddock.errors import CheckFailed
from paddock.wrappers.many_lanes import autoreset_mode_of
from paddock.wrappers.mosaic import joined, rows_and_columns
from paddock.wrappers.picture import Picture, latest, picture_of
from paddock.wrappers.video_recording import Trigger, VideoRecording, after_every_video

Array = np.ndarray[Any, Any]


class RecordVideo(VectorWrapper[Any, Any, Any, Any, Array], VideoRecording):
    """As the single RecordVideo, with all lanes in a grid near ``video_aspect_ratio``, or the first lane alone.

    Under SAME_STEP a video lacks each episode's last frame: the lane has begun anew before anybody can look.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        video_folder: str | Path,
        video_aspect_ratio: tuple[int, int] = (1, 1),
        record_first_only: bool = False,
        episode_trigger: Trigger | None = None,
        step_trigger: Trigger | None = None,
        video_length: int = 0,
        name_prefix: str = "rl-video",
        fps: float | None = None,
        disable_logger: bool = True,
        gc_trigger: Trigger | None = after_every_video,
    ) -> None:
        super().__init__(env)
        self.autoreset_mode = autoreset_mode_of(env)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            warn_user(
                "Vector environment's autoreset mode is same-step. Recorded episodes will not contain the last frame "
                "of the episode."
            )
        self._set_triggers(episode_trigger, step_trigger, gc_trigger)
        self._prepare(env, video_folder, video_length, name_prefix, fps)
        self.disable_logger = disable_logger
        self.video_aspect_ratio, self.record_first_only = video_aspect_ratio, record_first_only
        self.frame_rows = self.frame_cols = -1  # until the first frame
        self.render_history: list[Any] = []
        self.has_autoreset = False  # lane 0 has ended: its next step begins an episode
        self._held = False  # the next step leaves lane 0 alone
        self._grid: Picture | None = None

    def hold(self, lanes: Array) -> None:
        self.env.hold(lanes)
        self._held = bool(lanes[0])

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        mask = None if options is None else options.get("reset_mask")
        result = self.env.reset(seed=seed, options=options)
        self._held = False
        if mask is None or mask[0]:
            self.has_autoreset = False
            self._episode_began()
        if self.recording:
            self._capture_frame()
        return result

    def step(self, actions: Any) -> Any:
        # Hot: while nothing is recorded and lane 0 just goes on, which is nearly always, there is nothing else to do.
        result = self.env.step(actions)
        busy = self.recording or self.step_trigger or self.has_autoreset or self._held
        if busy or result[2][0] or result[3][0]:
            return self._followed(result)
        self.step_id += 1
        return result

    def recv(self) -> Any:
        return self._followed(self.env.recv())

    def _followed(self, result: Any) -> Any:
        self.step_id += 1
        over = bool(result[2][0] or result[3][0])
        if self._held:
            self._held = False
        elif self.has_autoreset or over:
            self._follow_first_lane(over)
        if self.step_trigger and self.step_trigger(self.step_id):
            self.start_recording(f"{self.name_prefix}-step-{self.step_id}")
        if self.recording:
            self._capture_frame()
        return result

    def _follow_first_lane(self, over: bool) -> None:
        begins = self.has_autoreset if self.autoreset_mode is not AutoresetMode.SAME_STEP else over
        self.has_autoreset = over and self.autoreset_mode is AutoresetMode.NEXT_STEP
        if begins:
            self._episode_began()

    def close(self, **kwargs: Any) -> None:
        """Complete the running video, and close."""
        if self.recording:
            self.stop_recording()
        super().close(**kwargs)

    def _rendered(self) -> list[Any]:
        return [self.env.render()]

    def _picture(self, rendered: Any) -> Picture:
        if not isinstance(rendered, (list, tuple)) or len(rendered) != self.num_envs:
            count = f" of {len(rendered)}" if isinstance(rendered, (list, tuple)) else ""
            raise CheckFailed(
                f"Expected `env.render()` to return a tuple of {self.num_envs} frames, one a lane, "
                f"actually returned {type(rendered)}{count}"
            )
        pictures = [picture_of(latest(frame)) for frame in (rendered[:1] if self.record_first_only else rendered)]
        if self.frame_rows == -1:
            width, height = self.video_aspect_ratio
            size = pictures[0].shape[0], pictures[0].shape[1]
            self.frame_rows, self.frame_cols = rows_and_columns(len(pictures), size, width / height)
        self._grid = joined(pictures, self.frame_rows, self.frame_cols, self._grid)
        return self._grid
