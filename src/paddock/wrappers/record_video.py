"""RecordVideo of one environment. The agent's ``render`` gives what it would give without this wrapper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, SupportsFloat

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.warning import warn_user
from paddock.core.wrapper import Wrapper
from paddock.wrappers.picture import Picture, picture_of
from paddock.wrappers.video_recording import Trigger, VideoRecording, after_every_video


class RecordVideo(Wrapper[ObsType, ActType, ObsType, ActType], VideoRecording):
    """Videos of the episodes, or from the steps on, that a trigger chooses; without one the capped cubic schedule.

    A video holds a whole episode, or ``video_length`` steps and the frame before them, over several episodes if need
    be. Each frame goes to the file at once. ``disable_logger`` has no effect: nothing is left to do at the end whose
    progress could be shown. Restoring a snapshot leaves the video alone: it shows what happened, in that order.
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
            "video_folder": str(video_folder),
            "episode_trigger": episode_trigger,
            "step_trigger": step_trigger,
            "video_length": video_length,
            "name_prefix": name_prefix,
            "fps": fps,
            "disable_logger": disable_logger,
        }
        chosen = {} if gc_trigger is after_every_video else {"gc_trigger": gc_trigger}
        self._record_arguments(**arguments, **chosen)
        self._set_triggers(episode_trigger, step_trigger, gc_trigger)
        self._prepare(env, video_folder, video_length, name_prefix, fps)
        self.disable_logger = disable_logger
        self.render_history: list[Any] = []  # frames of a list mode that were taken from the agent's next `render`
        # Frames in a list are gone once rendered and gone with a reset, unless the list's maker says otherwise.
        self._keeps = not env.has_wrapper_attr("pop_frames") or env.get_wrapper_attr("pop_frames")
        self._forgets = not env.has_wrapper_attr("reset_clean") or env.get_wrapper_attr("reset_clean")

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        result = self.env.reset(seed=seed, options=options)
        if self._forgets:
            self.render_history = []
        self._episode_began()
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
        taken, self.render_history = self.render_history, []
        return taken + frames

    def close(self) -> None:
        """Complete the running video, and close."""
        if self.recording:
            self.stop_recording()
        super().close()

    def _rendered(self) -> list[Any]:
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
        return picture_of(rendered)
