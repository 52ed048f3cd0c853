"""Mosaics: the pictures of all lanes as one. Lanes go row by row; a place that no lane takes stays black."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddock.errors import CheckFailed
from paddock.wrappers.picture import Picture


def rows_and_columns(lanes: int, size: tuple[int, int], aspect_ratio: float) -> tuple[int, int]:
    """The full grid, no higher than it is wide in lanes, whose width by height is nearest to the ratio.

    ``size``: height and width of a picture. A prime number of lanes has one such grid: a single row.
    """
    height, width = size
    full = [rows for rows in range(1, int(lanes**0.5) + 1) if lanes % rows == 0]
    best = min(full, key=lambda rows: abs(lanes // rows * width / (rows * height) - aspect_ratio), default=1)
    return best, lanes // best


def fitting(lanes: int, size: tuple[int, int], screen: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
    """Rows, columns, and the size to which pictures shrink or grow so that all fit. Sizes: width, height."""
    (width, height), (across, down) = size, screen
    rows = columns = 1
    while rows * columns < lanes:  # where the screen is less full there is room for one more
        wide, high = columns * width * down, rows * height * across
        columns, rows = columns + (wide <= high), rows + (high <= wide)
    # In whole numbers: with fractions, what should fill the screen may be a pixel short of it.
    if across * rows * height <= down * columns * width:
        scaled = across // columns, across * height // (columns * width)
    else:
        scaled = down * width // (rows * height), down // rows
    return rows, columns, (max(scaled[0], 1), max(scaled[1], 1))


def joined(pictures: Sequence[Picture], rows: int, columns: int, into: Picture | None = None) -> Picture:
    """The pictures, all of one size, in rows; written over ``into`` if that is as large."""
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) != 1:
        raise CheckFailed(f"Expected the frames of all lanes to have one shape, they have {shapes}")
    height, width, _ = shapes[0]
    whole = (rows * height, columns * width, 3)
    grid = np.zeros(whole, np.uint8) if into is None or into.shape != whole else into
    for lane, picture in enumerate(pictures):
        top, left = lane // columns * height, lane % columns * width
        grid[top : top + height, left : left + width] = picture
    return grid
