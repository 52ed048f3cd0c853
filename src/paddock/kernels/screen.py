"""Screen: where an environment's pictures go: into an array, or into a window. An array never opens a display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paddock.core.window import Window, as_surface, load_pygame

Frame = np.ndarray[Any, np.dtype[np.uint8]]
LARGEST_GRID = (1280, 800)
LANES_SHOWN = 64


class Screen:
    """A picture is a pygame Surface, or an array uint8[height, width, 3] from authors who draw in other ways."""

    def __init__(self, frames_per_second: float) -> None:
        self._window = Window(frames_per_second)

    def show(self, picture: Any, mode: str) -> Frame | None:
        """In mode ``human`` put into the window, else returned as an array that nothing else writes to."""
        if mode == "human":
            self._window.show(picture)
            return None
        return as_array(picture)

    def close(self) -> None:
        """Leave the window, if there is one. Calling it twice is fine."""
        self._window.close()


def as_array(picture: Any) -> Frame:
    """uint8[height, width, 3], a new array."""
    if isinstance(picture, np.ndarray):
        return np.array(picture, np.uint8)
    width, height = picture.get_size()
    pixels = load_pygame().image.tobytes(picture, "RGB")
    return np.frombuffer(bytearray(pixels), np.uint8).reshape(height, width, 3)


def tiled(pictures: Sequence[Any]) -> Any:
    """One Surface with the pictures of several lanes side by side, made smaller if they would not fit a display."""
    pygame = load_pygame()
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    width, height = as_surface(pictures[0]).get_size()
    scale = min(1.0, LARGEST_GRID[0] / (columns * width), LARGEST_GRID[1] / (rows * height))
    tile = max(1, int(width * scale)), max(1, int(height * scale))
    grid = pygame.Surface((columns * tile[0], rows * tile[1]), depth=32)
    for at, picture in enumerate(pictures):
        place = (at % columns * tile[0], at // columns * tile[1])
        grid.blit(pygame.transform.smoothscale(as_surface(picture), tile), place)
    return grid
