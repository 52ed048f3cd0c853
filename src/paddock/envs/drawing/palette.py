"""The colours of all built-in environments. Few on purpose: what moves is warm, where it moves is cool or pale."""

from __future__ import annotations

Color = tuple[int, int, int]

PAPER: Color = (246, 244, 239)
WHITE: Color = (255, 255, 255)
MIST: Color = (226, 229, 233)
STONE: Color = (163, 170, 181)
SLATE: Color = (92, 101, 117)
INK: Color = (41, 48, 61)

CORAL: Color = (226, 100, 82)
AMBER: Color = (243, 180, 72)
SUN: Color = (250, 207, 94)
GREEN: Color = (110, 168, 109)
LEAF: Color = (167, 204, 148)
TEAL: Color = (52, 140, 143)
SKY: Color = (214, 233, 244)
ICE: Color = (190, 220, 238)
BLUE: Color = (64, 112, 189)
DEEP: Color = (38, 70, 122)
VIOLET: Color = (134, 104, 178)
EARTH: Color = (150, 112, 84)


def mix(one: Color, other: Color, share: float) -> Color:
    """A colour between two; ``share`` of the other, 0 to 1."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def darker(color: Color, share: float = 0.25) -> Color:
    """The colour with a share of ink."""
    return mix(color, INK, share)


def lighter(color: Color, share: float = 0.35) -> Color:
    """The colour with a share of white."""
    return mix(color, WHITE, share)
