"""Window: an environment's share of pygame's display. A process has one display: the last window to close closes it."""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from paddock.errors import DependencyNotInstalled, UnsupportedMode

_QUIET = "PYGAME_HIDE_SUPPORT_PROMPT"


class Window:
    """Shows pictures at a number of frames per second. Nothing is opened before the first one.

    Several windows share the display, which takes the size of the latest picture. pygame can open more than one, but a
    second window crashes the interpreter once anything, such as another library, has called ``pygame.quit()``.
    """

    _showing: ClassVar[WeakSet[Window]] = WeakSet()
    _display_is_ours: ClassVar[bool] = False

    def __init__(self, frames_per_second: float) -> None:
        self.frames_per_second = frames_per_second
        self._clock: Any = None

    def show(self, picture: Any) -> None:
        """Show a Surface or an array uint8[height, width, 3], and wait until it is time for the next one."""
        pygame, surface = load_pygame(), as_surface(picture)
        if self not in self._showing:
            self._join(pygame)
        display = pygame.display.get_surface()  # another environment may have closed or resized it
        size = surface.get_size()
        if display is None or display.get_size() != size:
            display = pygame.display.set_mode(size)
        display.blit(surface, (0, 0))
        pygame.event.pump()
        self._clock.tick(self.frames_per_second)
        pygame.display.flip()

    def close(self) -> None:
        """Leave the display, and close it if no other window shows anything there. Calling it twice is fine."""
        if self not in self._showing:
            return
        self._showing.discard(self)
        if not self._showing and Window._display_is_ours:
            # Not pygame.quit(), which would end sounds, fonts and joysticks of others.
            load_pygame().display.quit()

    def _join(self, pygame: Any) -> None:
        try:
            pygame.display.init()
        except pygame.error as error:
            raise UnsupportedMode(
                f"render_mode='human' needs a display, and there is none: {error}. "
                f"Use render_mode='rgb_array', or set SDL_VIDEODRIVER=dummy to draw off screen."
            ) from error
        if not self._showing:
            Window._display_is_ours = pygame.display.get_surface() is None
        self._clock = pygame.time.Clock()
        self._showing.add(self)


def as_surface(picture: Any) -> Any:
    """A pygame Surface of a picture: itself, or one with the pixels of an array uint8[height, width, 3]."""
    if not isinstance(picture, np.ndarray):
        return picture
    return load_pygame().surfarray.make_surface(np.transpose(picture, (1, 0, 2)))


def load_pygame() -> Any:
    """The pygame module, imported when first used and without its greeting on stdout, where programs print results."""
    if sys.modules.get("pygame") is not None:
        return sys.modules["pygame"]
    greeted = _QUIET in os.environ
    os.environ.setdefault(_QUIET, "hide")
    try:
        import pygame
    except ImportError as error:
        raise DependencyNotInstalled("pygame is not installed, run `pip install pygame-ce`") from error
    finally:
        if not greeted:
            os.environ.pop(_QUIET, None)
    return pygame
