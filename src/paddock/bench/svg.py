"""Charts as SVG text that a page can hold: curves with bands, and points with intervals. Nothing in them runs or loads.

All text is escaped here, for names come from records that anyone may have written.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from paddock.bench.statistics import Numbers

# Told apart by eyes of any kind (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 70, 20, 34, 48
_ROW, _NAME_LIMIT = 26, 60


@dataclass(frozen=True)
class Curve:
    """A line through (x, y), with a band from ``low`` to ``high``."""

    name: str
    x: Numbers
    y: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class Point:
    """A value with its interval, in a row of its own; ``series`` chooses the colour."""

    name: str
    value: float
    low: float | None
    high: float | None
    series: int


def escape(text: str, limit: int = 200) -> str:
    """Return text for HTML and SVG: markup as characters, and what can't be seen as a replacement character."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in shown))


def draw_curves(curves: Sequence[Curve], *, title: str, x: str, y: str) -> str:
    """Return a chart of curves over the same axes, with their names below."""
    height = 360 + 18 * len(curves)
    bottom = 360 - _BOTTOM
    every = np.concatenate([np.concatenate([one.y, one.low, one.high]) for one in curves])
    across = _Axis(np.concatenate([one.x for one in curves]), _LEFT, WIDTH - _RIGHT)
    up = _Axis(every, bottom, _TOP)
    parts = [*_frame(across, bottom, title, x), *_side(up, y)]
    for at, one in enumerate(curves):
        colour = COLOURS[at % len(COLOURS)]
        there = np.isfinite(one.low) & np.isfinite(one.high)
        outline = [*zip(one.x[there], one.low[there], strict=True)]
        outline += reversed([*zip(one.x[there], one.high[there], strict=True)])
        parts.append(f'<polygon points="{_path(outline, across, up)}" fill="{colour}" fill-opacity="0.18"/>')
        points = [(a, b) for a, b in zip(one.x, one.y, strict=True) if math.isfinite(b)]
        parts.append(f'<polyline points="{_path(points, across, up)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        row = 360 + 18 * at
        parts.append(f'<rect x="{_LEFT}" y="{row - 9}" width="18" height="10" fill="{colour}"/>')
        parts.append(_text(_LEFT + 26, row, one.name))
    return _svg(height, title, parts)


def draw_intervals(points: Sequence[Point], *, title: str, x: str) -> str:
    """Return a chart with one row per point: its name, and its interval as a line."""
    bottom = _TOP + _ROW * len(points) + 12
    ends = [end for one in points for end in (one.value, one.low, one.high) if end is not None]
    across = _Axis(np.array(ends, float), 250, WIDTH - _RIGHT)
    parts = _frame(across, bottom, title, x)
    for at, one in enumerate(points):
        row, colour = _TOP + _ROW * at + 16, COLOURS[one.series % len(COLOURS)]
        parts.append(_text(240, row + 4, one.name, anchor="end"))
        if one.low is not None and one.high is not None and math.isfinite(one.low) and math.isfinite(one.high):
            left, right = across(one.low), across(one.high)
            line = f'<line x1="{left}" y1="{row}" x2="{right}" y2="{row}" stroke="{colour}"'
            parts.append(f'{line} stroke-width="6" stroke-opacity="0.4"/>')
        if math.isfinite(one.value):
            parts.append(f'<circle cx="{across(one.value)}" cy="{row}" r="5" fill="{colour}"/>')
    return _svg(bottom + _BOTTOM, title, parts)


class _Axis:
    """Maps numbers to a place between two pixels, with ticks at round numbers."""

    def __init__(self, values: Numbers, first: float, last: float) -> None:
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        size = max(abs(low), abs(high))
        if not 1e-12 * size < high - low or high - low < 1e-300:  # one value, as far as a chart can show
            low, high = low - max(size, 1.0) / 2, high + max(size, 1.0) / 2
        margin = (high - low) * 0.03
        self._low, self._high, self._first, self._last = low - margin, high + margin, first, last
        step = 10.0 ** math.floor(math.log10((high - low) / 4))
        step *= next(times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= 6)
        begin = math.ceil(self._low / step)
        self.ticks = [(begin + n) * step for n in range(8) if (begin + n) * step <= self._high]

    def __call__(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(self._first + share * (self._last - self._first), 1)


def _frame(across: _Axis, bottom: float, title: str, x: str) -> list[str]:
    """The title, and the horizontal axis with lines up from its ticks."""
    parts = [_text(WIDTH / 2, 20, title, anchor="middle", size=14), _text(WIDTH / 2, bottom + 38, x, anchor="middle")]
    for tick in across.ticks:
        at = across(tick)
        parts.append(f'<line x1="{at}" y1="{_TOP}" x2="{at}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(_text(at, bottom + 18, f"{tick:.6g}", anchor="middle"))
    return parts


def _side(up: _Axis, y: str) -> list[str]:
    parts = []
    for tick in up.ticks:
        parts.append(f'<line x1="{_LEFT}" y1="{up(tick)}" x2="{WIDTH - _RIGHT}" y2="{up(tick)}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 6, up(tick) + 4, f"{tick:.6g}", anchor="end"))
    middle = (_TOP + 360 - _BOTTOM) / 2
    return [*parts, _text(14, middle, y, anchor="middle", more=f' transform="rotate(-90 14 {middle})"')]


def _path(points: Sequence[tuple[float, float]], across: Callable[[float], float], up: Callable[[float], float]) -> str:
    return " ".join(f"{across(x)},{up(y)}" for x, y in points)


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"{more}>{escape(text, _NAME_LIMIT)}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head += f' role="img" aria-label="{escape(title)}" font-family="sans-serif" fill="#222">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"])
