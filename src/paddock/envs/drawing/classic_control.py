"""The pictures of classic control. CartPole and MountainCar are 600 x 400, Pendulum and Acrobot 500 x 500."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from paddock.envs.drawing import palette
from paddock.envs.drawing.canvas import Backdrop, Canvas, Point, box_points, rotate_points

WIDTH, HEIGHT = 600, 400
SQUARE = 500
CENTER: Point = (SQUARE / 2, SQUARE / 2)
WHEEL = 8.0
# CartPole: the track's ends stand inside the frame, so that you see a cart leave it.
RAIL, MARGIN = 300.0, 45.0
CART = (64.0, 34.0)
# Pendulum: a rod of length 1 leaves a quarter of itself as margin.
PIXELS = SQUARE / 2 / 1.25
DIAL = 0.42 * PIXELS


def paint_cartpole(x: float, theta: float, *, x_threshold: float, theta_threshold: float, length: float) -> Any:
    """The cart at ``x`` with its pole at ``theta``, clockwise from upright; ``length`` is half of the pole's."""
    pixels = (WIDTH / 2 - MARGIN) / x_threshold
    middle, (width, height) = WIDTH / 2 + x * pixels, CART
    top = RAIL - WHEEL - height
    canvas = Canvas()
    canvas.box(middle - width / 2, top, width, height, palette.BLUE, radius=7)
    canvas.polygon(rotate_points(box_points(-width / 2 + 6, 22, width - 12, 5, 2.5), 0, (middle, top)), palette.DEEP)
    for side in (-0.28, 0.28):
        hub = (middle + side * width, RAIL - WHEEL)
        canvas.circle(hub, WHEEL, palette.INK)
        canvas.circle(hub, WHEEL * 0.4, palette.STONE)
    pivot = (middle, top + 6)

    def above(angle: float, reach: float) -> Point:
        return pivot[0] + math.sin(angle) * reach, pivot[1] - math.cos(angle) * reach

    for limit in (-theta_threshold, theta_threshold):
        canvas.line(above(limit, 30), above(limit, length * 2 * pixels), 1.4, palette.MIST)
    tip = above(theta, length * 2 * pixels)
    canvas.line(pivot, tip, 11, palette.AMBER)
    canvas.line(pivot, tip, 4, palette.SUN)
    canvas.circle(pivot, 7.5, palette.INK)
    canvas.circle(pivot, 3, palette.PAPER)
    return _track(x_threshold).frame(canvas)


@lru_cache(maxsize=4)
def _track(x_threshold: float) -> Backdrop:
    canvas = Canvas()
    canvas.box(0, RAIL + 6, WIDTH, HEIGHT - RAIL, palette.mix(palette.PAPER, palette.MIST, 0.8))
    canvas.box(0, RAIL, WIDTH, 6, palette.STONE)
    pixels = (WIDTH / 2 - MARGIN) / x_threshold
    # A mark at each whole unit while they can be told apart.
    reach = min(int(x_threshold), 20)
    for unit in range(-reach, reach + 1):
        place = WIDTH / 2 + unit * pixels
        canvas.line((place, RAIL + 20), (place, RAIL + (38 if unit == 0 else 30)), 2, palette.STONE)
    for side in (-1, 1):
        place = WIDTH / 2 + side * (WIDTH / 2 - MARGIN)
        canvas.box(place - 3, RAIL - 26, 6, 26, palette.CORAL, radius=3)
    return Backdrop((WIDTH, HEIGHT), palette.PAPER, canvas)


def paint_mountain_car(position: float, *, min_position: float, max_position: float, goal_position: float) -> Any:
    """The car at ``position``, upright on the slope there. The hill is the dynamics' own curve."""
    canvas = Canvas()
    slope = math.atan2(3 * 0.45 * math.cos(3 * position), 1.0)
    place = rotate_points([(0.0, -WHEEL)], -slope, _on_hill(position, min_position, max_position))[0]

    def part(points: list[Point], color: palette.Color) -> None:
        canvas.polygon(rotate_points(points, -slope, place), color)

    part(box_points(-24, -15, 48, 15, 6), palette.CORAL)
    part([(-15, -14), (-10, -26), (8, -26), (15, -14)], palette.CORAL)
    part([(-10.5, -14.5), (-7.5, -23), (-1.5, -23), (-1.5, -14.5)], palette.SKY)
    part([(1.5, -14.5), (1.5, -23), (6, -23), (10.5, -14.5)], palette.SKY)
    part(box_points(-24, -7, 48, 3, 1.5), palette.darker(palette.CORAL))
    part(box_points(19, -12, 5, 4, 2), palette.SUN)
    for axle in (-12.0, 12.0):
        hub = rotate_points([(axle, 0.0)], -slope, place)[0]
        canvas.circle(hub, WHEEL, palette.INK)
        canvas.circle(hub, WHEEL * 0.4, palette.STONE)
    return _hills(min_position, max_position, goal_position).frame(canvas)


def _on_hill(position: float, low: float, high: float) -> Point:
    """A position of the track as pixels. Heights do not depend on the ends: the valley would leave the frame."""
    height = math.sin(3 * position) * 0.45 + 0.55
    return (position - low) * (WIDTH / max(high - low, 1e-9)), HEIGHT - 60.0 - (height - 0.1) * 270


@lru_cache(maxsize=4)
def _hills(min_position: float, max_position: float, goal_position: float) -> Backdrop:
    canvas = Canvas()
    canvas.circle((92, 78), 30, palette.SUN)
    canvas.circle((92, 78), 24, palette.lighter(palette.SUN))
    far = [(x, 250 - 46 * math.sin(x / 85 + 0.4) - 18 * math.sin(x / 37)) for x in range(0, WIDTH + 1, 4)]
    canvas.polygon([(0, HEIGHT), *far, (WIDTH, HEIGHT)], palette.mix(palette.SKY, palette.TEAL, 0.28))
    positions = [min_position + (max_position - min_position) * at / 150 for at in range(151)]
    ridge = [_on_hill(position, min_position, max_position) for position in positions]
    canvas.polygon([(0, HEIGHT), *ridge, (WIDTH, HEIGHT)], palette.LEAF)
    deep = [(x, y + 26) for x, y in ridge]
    canvas.polygon([(0, HEIGHT), *deep, (WIDTH, HEIGHT)], palette.mix(palette.LEAF, palette.GREEN, 0.55))
    canvas.path(ridge, 4, palette.darker(palette.GREEN, 0.15))
    x, y = _on_hill(goal_position, min_position, max_position)
    canvas.line((x, y), (x, y - 58), 3.5, palette.INK)
    canvas.polygon([(x + 1.5, y - 58), (x + 32, y - 48), (x + 1.5, y - 38)], palette.AMBER)
    canvas.circle((x, y - 59), 3.5, palette.INK)
    return Backdrop((WIDTH, HEIGHT), palette.SKY, canvas)


def paint_pendulum(theta: float, torque: float, *, length: float, max_torque: float) -> Any:
    """The rod at ``theta``, and an arc around the pivot for the last torque. Angle 0 is up and grows to the left."""
    canvas = Canvas()
    tip = _around(theta, min(length, 1.15) * PIXELS)
    if abs(torque) > 1e-9 and max_torque > 0:
        # From the bottom of the dial towards the side that the torque turns to, with an arrow's head.
        share = max(-1.0, min(1.0, torque / max_torque))
        sweep = share * 1.9
        angles = [math.pi + sweep * at / 24 for at in range(25)]
        outer, inner = ([_around(angle, DIAL + side) for angle in angles] for side in (3.5, -3.5))
        canvas.polygon([*outer, *reversed(inner)], palette.TEAL)
        canvas.circle(_around(math.pi, DIAL), 3.5, palette.TEAL)
        end, ahead = math.pi + sweep, math.copysign(0.17, share)
        canvas.polygon([_around(end, DIAL + 13), _around(end + ahead, DIAL), _around(end, DIAL - 13)], palette.TEAL)
    canvas.line(CENTER, tip, 26, palette.CORAL)
    canvas.line(CENTER, tip, 9, palette.lighter(palette.CORAL))
    canvas.circle(tip, 24, palette.darker(palette.CORAL, 0.2))
    canvas.circle(tip, 15, palette.CORAL)
    canvas.circle(CENTER, 12, palette.INK)
    canvas.circle(CENTER, 4.5, palette.PAPER)
    return _dial(min(length, 1.15)).frame(canvas)


def _around(angle: float, reach: float) -> Point:
    return CENTER[0] - math.sin(angle) * reach, CENTER[1] - math.cos(angle) * reach


@lru_cache(maxsize=4)
def _dial(length: float) -> Backdrop:
    canvas, reach = Canvas(), length * PIXELS
    canvas.circle(CENTER, reach + 30, palette.mix(palette.PAPER, palette.MIST, 0.75))
    canvas.circle(CENTER, reach - 30, palette.PAPER)
    for at in range(24):
        half, angle = 14 if at % 6 == 0 else 7, at * math.pi / 12
        canvas.line(_around(angle, reach - half), _around(angle, reach + half), 2.2, palette.STONE)
    canvas.ring(CENTER, DIAL + 1.5, 3, palette.MIST)
    x, y = _around(0.0, reach + 40)
    canvas.polygon([(x - 9, y - 8), (x + 9, y - 8), (x, y + 6)], palette.AMBER)
    return Backdrop((SQUARE, SQUARE), palette.PAPER, canvas)


def paint_acrobot(theta1: float, theta2: float, *, length_1: float, length_2: float) -> Any:
    """Two links from the pivot, and the line that the free end must rise above.

    Both angles are 0 when the links hang down; the second counts from the first link.
    """
    pixels = _arm_pixels(length_1, length_2)

    def below(start: Point, angle: float, reach: float) -> Point:
        return start[0] + math.sin(angle) * reach, start[1] + math.cos(angle) * reach

    elbow = below(CENTER, theta1, length_1 * pixels)
    tip = below(elbow, theta1 + theta2, length_2 * pixels)
    canvas = Canvas()
    for start, end, color in ((CENTER, elbow, palette.TEAL), (elbow, tip, palette.CORAL)):
        canvas.line(start, end, 20, color)
        canvas.line(start, end, 7, palette.lighter(color))
    for joint, radius in ((CENTER, 12.0), (elbow, 11.0)):
        canvas.circle(joint, radius, palette.INK)
        canvas.circle(joint, radius * 0.4, palette.PAPER)
    canvas.circle(tip, 11, palette.AMBER)
    canvas.circle(tip, 5, palette.lighter(palette.AMBER))
    return _bar(length_1, length_2).frame(canvas)


def _arm_pixels(length_1: float, length_2: float) -> float:
    return SQUARE / 2 / max(length_1 + length_2 + 0.2, 1e-9)


@lru_cache(maxsize=4)
def _bar(length_1: float, length_2: float) -> Backdrop:
    canvas, pixels = Canvas(), _arm_pixels(length_1, length_2)
    height = CENTER[1] - pixels  # the dynamics ask for a height of 1, whatever the links are
    canvas.box(0, 0, SQUARE, height, palette.mix(palette.PAPER, palette.LEAF, 0.3))
    for start in range(6, SQUARE, 22):
        canvas.line((start, height), (start + 10, height), 3, palette.GREEN)
    canvas.ring(CENTER, (length_1 + length_2) * pixels, 1.5, palette.MIST)
    canvas.box(CENTER[0] - 4, CENTER[1], 8, SQUARE, palette.MIST)
    canvas.box(CENTER[0] - 60, SQUARE - 14, 120, 14, palette.MIST, radius=6)
    return Backdrop((SQUARE, SQUARE), palette.PAPER, canvas)
