"""What a worker says, checked before it is believed: BadFrame for a reply that no worker of ours would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.core.env import Info
from paddock.errors import BadFrame
from paddock.hosting import messages as m


def notes_by_row(notes: Any, rows: Sequence[int], *, loose: bool) -> dict[int, tuple[Any, ...]]:
    """What a step's reply says of its rows, by row: (info,), (info, observation) or (Failed,).

    ``loose``: observations have no fixed size, so each row that was stepped brings its own in the reply.
    """
    if not isinstance(notes, list) or not all(type(one) is list and one and type(one[0]) is int for one in notes):
        raise BadFrame("Step: the reply is no list of notes.")
    found = {one[0]: tuple(one[1:]) for one in notes}
    if not found.keys() <= set(rows) or (loose and len(found) < len(rows)):
        raise BadFrame("Step: the reply has notes about other environments than those that were asked for.")
    for note in found.values():
        failed = len(note) == 1 and isinstance(note[0], m.Failed)
        if not failed and not (len(note) == 1 + loose and isinstance(note[0], dict)):
            raise BadFrame("Step: a note of the reply is neither an info nor a failure.")
    return found


def observation_and_info(value: Any) -> tuple[Any, Info]:
    """What a reset's reply brings."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not isinstance(value[1], dict):
        raise BadFrame("Reset: the reply is no observation with an info.")
    return value[0], value[1]
