"""The frames of n lanes: in one window, in one video, or with noise. pygame scales them; OpenCV is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import paddock.wrappers.rendering as rendering
from paddock.core.env import Info
from paddock.core.problem import warn_user
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import VectorWrapper, shortcut
from paddock.core.window import load_pygame
from paddock.core.wrapper import forwarded
from paddock.errors import CheckFailed, InvalidBound
from paddock.wrappers.many_lanes import autoreset_mode_of, draw_in_lanes
from paddock.wrappers.noise import Noise, Obstructions, WhiteNoise
from paddock.wrappers.rendering import Picture, choose_grid, fit_tiles, latest_frame, tile, to_picture
from paddock.wrappers.video import Trigger, VideoRecording, after_every_video

Array = np.ndarray[Any, Any]


class HumanRendering(VectorWrapper[Any, Any, Any, Any, Array]):
    """Shows the lanes in a window of ``screen_size`` (width, height); by default that of a single lane's frame."""

    ACCEPTED_RENDER_MODES = rendering.HumanRendering.ACCEPTED_RENDER_MODES

    def __init__(self, env: VectorEnv[Any, Any, Any], screen_size: tuple[int, int] | None = None) -> None:
        super().__init__(env)
        if screen_size is not None and (len(screen_size) != 2 or min(screen_size) < 1):
            raise InvalidBound(f"screen_size is a width and a height in pixels, got {screen_size}")
        self.screen_size = None if screen_size is None else (screen_size[0], screen_size[1])
        self.scaled_subenv_size: tuple[int, int] | None = None
        self.num_rows: int | None = None
        self.num_cols: int | None = None
        self.window = rendering.make_window(env.render_mode, env.metadata, self.ACCEPTED_RENDER_MODES)
        self.metadata = rendering.add_mode(env.metadata, "human")

    @property
    def render_mode(self) -> str:  # type: ignore[override]
        return "human"

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        result = self.env.reset(seed=seed, options=options)
        self._show()
        return result

    def _on_the_way_out(self, result: Any) -> Any:
        self._show()
        return result

    def render(self) -> None:
        """Do nothing: each reset and step has shown its frames."""

    def close(self, **kwargs: Any) -> None:
        self.window.close()
        super().close(**kwargs)

    def _show(self) -> None:
        frames = _newest_frames(self.env, self.env.render())
        if any(frame is None for frame in frames):
            return
        pictures = [to_picture(frame) for frame in frames]
        if len(shapes := {picture.shape for picture in pictures}) > 1:
            raise CheckFailed(f"The lanes' frames have several shapes: {sorted(shapes)}")
        self.window.show(self._screen(pictures))

    def _screen(self, pictures: list[Picture]) -> Any:
        pygame = load_pygame()
        height, width, _ = pictures[0].shape
        self.screen_size = self.screen_size or (width, height)
        self.num_rows, self.num_cols, cell = fit_tiles(self.num_envs, (width, height), self.screen_size)
        across, down = self.scaled_subenv_size = cell
        screen = pygame.Surface(self.screen_size)
        for lane, picture in enumerate(pictures):
            # Not as_surface, which copies pixel by pixel: this borrows the array while it shrinks it.
            whole = pygame.image.frombuffer(np.ascontiguousarray(picture), (width, height), "RGB")
            small = pygame.transform.smoothscale(whole, (across, down))
            screen.blit(small, (lane % self.num_cols * across, lane // self.num_cols * down))
        return screen


def _newest_frames(env: VectorEnv[Any, Any, Any], rendered: Any) -> list[Any]:
    """Each lane's frame, or the last one of its list; None if that is empty."""
    if not isinstance(rendered, (list, tuple)) or len(rendered) != env.num_envs:
        count = f" of {len(rendered)}" if isinstance(rendered, (list, tuple)) else ""
        raise CheckFailed(
            f"Expected `env.render()` to return a tuple of {env.num_envs} frames, one per lane, "
            f"actually returned {type(rendered)}{count}"
        )
    return [latest_frame(frame) for frame in rendered]


class RecordVideo(VectorWrapper[Any, Any, Any, Any, Array], VideoRecording):
    """The single RecordVideo with all lanes in a grid near ``video_aspect_ratio``, or with the first lane alone.

    Episodes are those of lane 0. Under SAME_STEP a video lacks each episode's last frame: the lane has already begun
    again when the step returns.
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
        triggers = episode_trigger, step_trigger
        self._prepare(env, video_folder, *triggers, video_length, name_prefix, fps, disable_logger, gc_trigger)
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
            self._begin_episode()
        if self.recording:
            self._capture_frame()
        return result

    @shortcut
    def step(self, actions: Any) -> Any:
        # Nearly always nothing is recorded and lane 0 just goes on. Then there is nothing else to do.
        result = self.env.step(actions)
        busy = self.recording or self.step_trigger or self.has_autoreset or self._held
        if busy or result[2][0] or result[3][0]:
            return self._on_the_way_out(result)
        self.step_id += 1
        return result

    def _on_the_way_out(self, result: Any) -> Any:
        self.step_id += 1
        over = bool(result[2][0] or result[3][0])
        if self._held:
            self._held = False
        elif self.has_autoreset or over:
            begins = self.has_autoreset if self.autoreset_mode is not AutoresetMode.SAME_STEP else over
            self.has_autoreset = over and self.autoreset_mode is AutoresetMode.NEXT_STEP
            if begins:
                self._begin_episode()
        if self.step_trigger and self.step_trigger(self.step_id):
            self.start_recording(f"{self.name_prefix}-step-{self.step_id}")
        if self.recording:
            self._capture_frame()
        return result

    def close(self, **kwargs: Any) -> None:
        """Complete the running video, and close."""
        if self.recording:
            self.stop_recording()
        super().close(**kwargs)

    def _render_frames(self) -> list[Any]:
        return [self.env.render()]

    def _picture(self, rendered: Any) -> Picture:
        frames = _newest_frames(self.env, rendered)
        pictures = [to_picture(frame) for frame in (frames[:1] if self.record_first_only else frames)]
        if self.frame_rows == -1:
            width, height = self.video_aspect_ratio
            size = pictures[0].shape[0], pictures[0].shape[1]
            self.frame_rows, self.frame_cols = choose_grid(len(pictures), size, width / height)
        self._grid = tile(pictures, self.frame_rows, self.frame_cols, self._grid)
        return self._grid


class _NoisyRender(VectorWrapper[Any, Any, Any, Any, np.ndarray[Any, Any]]):
    def __init__(self, env: VectorEnv[Any, Any, Any], noise: Noise) -> None:
        super().__init__(env)
        self._logic = noise

    def render(self) -> tuple[Any, ...] | None:
        rendered = self.env.render()
        if rendered is None:
            return None
        frames = iter(rendered)  # lane by lane, in the order in which the streams come
        lanes = list(range(self.num_envs))
        return tuple(draw_in_lanes(self.env, lanes, lambda random: self._logic.disturb(next(frames), random)))


class AddWhiteNoise(_NoisyRender):
    """Replaces each pixel of what is rendered by noise, with a probability."""

    probability_of_noise_per_pixel: float = forwarded("_logic", "probability_of_noise_per_pixel")
    is_noise_grayscale: bool = forwarded("_logic", "is_noise_grayscale")

    def __init__(
        self, env: VectorEnv[Any, Any, Any], probability_of_noise_per_pixel: float, is_noise_grayscale: bool = False
    ) -> None:
        super().__init__(env, WhiteNoise(probability_of_noise_per_pixel, is_noise_grayscale))


class ObstructView(_NoisyRender):
    """Hides patches of what is rendered behind noise: ``obstructed_pixels_ratio`` of it, in squares of a width."""

    obstruction_centers_ratio: float = forwarded("_logic", "obstruction_centers_ratio")
    obstruction_width: int = forwarded("_logic", "obstruction_width")
    is_noise_grayscale: bool = forwarded("_logic", "is_noise_grayscale")

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        obstructed_pixels_ratio: float,
        obstruction_width: int,
        is_noise_grayscale: bool = False,
    ) -> None:
        super().__init__(env, Obstructions(obstructed_pixels_ratio, obstruction_width, is_noise_grayscale))
