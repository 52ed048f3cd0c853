"""HumanRendering of n lanes: all of them in one window, scaled to fit. pygame scales; OpenCV is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddock.wrappers.rendering as rendering
from paddock.core.env import Info
from paddock.core.vector_env import VectorEnv
from paddock.core.vector_wrapper import VectorWrapper
from paddock.core.window import load_pygame
from paddock.errors import CheckFailed, InvalidBound
from paddock.wrappers.mosaic import fitting
from paddock.wrappers.picture import Picture, latest, picture_of

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
        self.window = rendering.window_for(env.render_mode, env.metadata, self.ACCEPTED_RENDER_MODES)
        self.metadata = rendering.with_mode(env.metadata, "human")

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
        """Nothing: each reset and step has shown its frames."""

    def close(self, **kwargs: Any) -> None:
        self.window.close()
        super().close(**kwargs)

    def _show(self) -> None:
        pictures = self._pictures()
        if pictures:
            self.window.show(self._screen(pictures))

    def _pictures(self) -> list[Picture]:
        frames: Any = self.env.render()
        if not isinstance(frames, (list, tuple)) or len(frames) != self.num_envs:
            raise CheckFailed(
                f"Expected `env.render()` to return {self.num_envs} frames, one a lane, got {type(frames)}"
            )
        newest = [latest(frame) for frame in frames]
        if any(frame is None for frame in newest):
            return []
        pictures = [picture_of(frame) for frame in newest]
        if len({picture.shape for picture in pictures}) > 1:
            raise CheckFailed(f"The lanes' frames have several shapes: {sorted({p.shape for p in pictures})}")
        return pictures

    def _screen(self, pictures: list[Picture]) -> Any:
        pygame = load_pygame()
        height, width, _ = pictures[0].shape
        self.screen_size = self.screen_size or (width, height)
        self.num_rows, self.num_cols, cell = fitting(self.num_envs, (width, height), self.screen_size)
        across, down = self.scaled_subenv_size = cell
        screen = pygame.Surface(self.screen_size)
        for lane, picture in enumerate(pictures):
            # Not as_surface: that copies pixel by pixel, this borrows the array for as long as it takes to shrink it.
            whole = pygame.image.frombuffer(np.ascontiguousarray(picture), (width, height), "RGB")
            small = pygame.transform.smoothscale(whole, (across, down))
            screen.blit(small, (lane % self.num_cols * across, lane // self.num_cols * down))
        return screen
