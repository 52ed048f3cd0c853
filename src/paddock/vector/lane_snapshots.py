"""The snapshot of n lanes out of those of each. One form, so lanes in a loop and in processes restore each other's."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.core.snapshot import opened, sealed
from paddock.errors import InvalidSnapshot


def sealed_lanes(begun: bool, each: Sequence[bytes]) -> bytes:
    """All lanes as bytes; ``begun``: they have been reset."""
    return sealed("lanes", begun, sealed("each", each, b""))


def opened_lanes(snapshot: bytes, num_envs: int) -> tuple[bool, list[bytes]]:
    """What ``sealed_lanes`` was given; anything else, or of another number of lanes, is an InvalidSnapshot."""
    begun, inner = opened("lanes", snapshot, bool)
    each, _ = opened("each", inner, list[bytes])
    if len(each) != num_envs:
        raise InvalidSnapshot(f"This snapshot is of {len(each)} lanes, these are {num_envs}.")
    return begun, each
