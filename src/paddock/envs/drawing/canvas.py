"""Canvas: shapes with smooth edges, in pixels of the frame with fractions.

They are drawn larger and shrunk: pygame's own anti-aliased shapes are hollow or round their corners to whole pixels,
which makes slow motion jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from paddock.core.window import load_pygame
from paddock.envs.drawing.palette import Color

Point = tuple[float, float]
SCALE = 2
CORNER_STEPS = 6
FARTHEST = 10_000.0

# left, top, right, bottom in pixels of the frame
Bounds = tuple[float, float, float, float]
# draws on a surface that is SCALE times larger, whose corner is at this point of the frame
Mark = Callable[[Any, float, float], None]


class Canvas:
    """A list of shapes, later ones over earlier ones. Remembers how far they reach, so that only that is redrawn."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.bounds: Bounds = (math.inf, math.inf, -math.inf, -math.inf)

    def polygon(self, points: Sequence[Point], color: Color) -> None:
        points = [(near(x), near(y)) for x, y in points]

        def mark(surface: Any, left: float, top: float) -> None:
            corners = [((x - left) * SCALE, (y - top) * SCALE) for x, y in points]
            load_pygame().draw.polygon(surface, color, corners)

        xs, ys = [x for x, _ in points], [y for _, y in points]
        self._add(mark, (min(xs), min(ys), max(xs), max(ys)))

    def circle(self, center: Point, radius: float, color: Color, *, outline: int = 0) -> None:
        """A disc, or an outline of so many pixels of the larger surface."""
        x, y = near(center[0]), near(center[1])

        def mark(surface: Any, left: float, top: float) -> None:
            load_pygame().draw.circle(surface, color, ((x - left) * SCALE, (y - top) * SCALE), radius * SCALE, outline)

        self._add(mark, (x - radius, y - radius, x + radius, y + radius))

    def ring(self, center: Point, radius: float, width: float, color: Color) -> None:
        """A circle's outline, ``width`` inwards."""
        self.circle(center, radius, color, outline=max(1, round(width * SCALE)))

    def ellipse(self, center: Point, across: float, down: float, color: Color) -> None:
        """``across`` and ``down`` are half of the width and of the height."""
        self.polygon(arc_points(center, across, 0.0, 2 * math.pi, down=down), color)

    def line(self, start: Point, end: Point, width: float, color: Color) -> None:
        """A stroke with round ends."""
        (x, y), (to_x, to_y) = start, end
        length = math.hypot(to_x - x, to_y - y)
        if length > 0:
            across, down = (y - to_y) / length * width / 2, (to_x - x) / length * width / 2
            corners = [(x + across, y + down), (to_x + across, to_y + down)]
            self.polygon([*corners, (to_x - across, to_y - down), (x - across, y - down)], color)
        self.circle(start, width / 2, color)
        self.circle(end, width / 2, color)

    def path(self, points: Sequence[Point], width: float, color: Color) -> None:
        """Strokes from point to point."""
        for start, end in pairwise(points):
            self.line(start, end, width, color)

    def box(self, left: float, top: float, width: float, height: float, color: Color, *, radius: float = 0.0) -> None:
        """A rectangle, with round corners if there is a radius."""
        self.polygon(box_points(left, top, width, height, radius), color)

    def text(self, words: str, center: Point, height: float, color: Color) -> None:
        """Words in pygame's own font; ``height`` is that of a line."""
        picture = _render_text(words, round(height * SCALE), color)
        width, tall = picture.get_width() / SCALE, picture.get_height() / SCALE
        x, y = center[0] - width / 2, center[1] - tall / 2

        def mark(surface: Any, left: float, top: float) -> None:
            surface.blit(picture, (round((x - left) * SCALE), round((y - top) * SCALE)))

        self._add(mark, (x, y, x + width, y + tall))

    def _add(self, mark: Mark, bounds: Bounds) -> None:
        left, top, right, bottom = self.bounds
        self.bounds = min(left, bounds[0]), min(top, bounds[1]), max(right, bounds[2]), max(bottom, bounds[3])
        self.marks.append(mark)


class Backdrop:
    """What stays the same from frame to frame, drawn once. Keep it, and ask for frames with what moves."""

    def __init__(self, size: tuple[int, int], color: Color, canvas: Canvas) -> None:
        self.size = size
        self._large = blank((size[0] * SCALE, size[1] * SCALE))
        self._large.fill(color)
        for mark in canvas.marks:
            mark(self._large, 0.0, 0.0)
        self._work = self._large.copy()
        self._small = blank(size)
        load_pygame().transform.smoothscale(self._large, size, self._small)

    def frame(self, canvas: Canvas) -> Any:
        """A new Surface with the shapes on the backdrop. Only the part that they reach is drawn again."""
        frame = self._small.copy()
        if not canvas.marks:
            return frame
        left, top, right, bottom = canvas.bounds
        # A pixel more on each side: shapes that end between pixels colour both.
        left, top = int(max(0.0, left - 1)), int(max(0.0, top - 1))
        width = int(min(self.size[0], right + 2)) - left
        height = int(min(self.size[1], bottom + 2)) - top
        if width > 0 and height > 0:
            pygame = load_pygame()
            area = pygame.Rect(left * SCALE, top * SCALE, width * SCALE, height * SCALE)
            part = self._work.subsurface(area)
            for mark in canvas.marks:
                mark(part, left, top)
            frame.blit(pygame.transform.smoothscale(part, (width, height)), (left, top))
            part.blit(self._large, (0, 0), area)  # as it was; a new copy for each frame would cost as much as drawing
        return frame


def blank(size: tuple[int, int]) -> Any:
    """A Surface of a format of its own; by default it would be that of the display, if there is one."""
    return load_pygame().Surface(size, depth=32, masks=(0xFF0000, 0xFF00, 0xFF, 0))


def near(number: float) -> float:
    """A coordinate that pygame draws quickly: a state that was assigned may hold anything, even NaN."""
    return max(-FARTHEST, min(FARTHEST, number))


def rotate_points(points: Sequence[Point], angle: float, origin: Point) -> list[Point]:
    """Points around (0, 0), turned clockwise on the screen and moved to ``origin``."""
    cos, sin = math.cos(angle), math.sin(angle)
    return [(origin[0] + x * cos - y * sin, origin[1] + x * sin + y * cos) for x, y in points]


def box_points(left: float, top: float, width: float, height: float, radius: float = 0.0) -> list[Point]:
    """The outline of a rectangle with round corners."""
    right, bottom = left + width, top + height
    if radius <= 0:
        return [(left, top), (right, top), (right, bottom), (left, bottom)]
    radius = min(radius, width / 2, height / 2)
    corners = [(right - radius, bottom - radius), (left + radius, bottom - radius)]
    corners += [(left + radius, top + radius), (right - radius, top + radius)]
    return [
        point
        for quarter, corner in enumerate(corners)
        for point in arc_points(corner, radius, quarter * math.pi / 2, (quarter + 1) * math.pi / 2, CORNER_STEPS)
    ]


def arc_points(
    center: Point, across: float, start: float, end: float, steps: int = 40, *, down: float | None = None
) -> list[Point]:
    """Points along an arc, clockwise on the screen from ``start`` to ``end``; 0 is to the right."""
    down = across if down is None else down
    angles = [start + (end - start) * at / steps for at in range(steps + 1)]
    return [(center[0] + across * math.cos(angle), center[1] + down * math.sin(angle)) for angle in angles]


@lru_cache(maxsize=256)
def _render_text(words: str, height: int, color: Color) -> Any:
    pygame = load_pygame()
    pygame.font.init()  # counts nothing and opens nothing; needed again after a pygame.quit()
    return pygame.font.Font(None, height).render(words, True, color)
