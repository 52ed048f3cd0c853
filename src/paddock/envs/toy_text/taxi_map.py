"""The taxi's town: where walls stand, what an action does in a state, and P.

A state is ((row * 5 + column) * 5 + passenger) * 4 + destination; passenger 4 means in the taxi.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.envs.toy_text import transitions
from paddock.envs.toy_text.transitions import Array, Outcome, Table
from paddock.errors import InvalidKernel

MAP = ("+---------+", "|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |", "+---------+")
PLACES = ((0, 0), (0, 4), (4, 0), (4, 3))
SIDE, STATES, ACTIONS, RIDING = 5, 500, 6, 4
SOUTH, NORTH, EAST, WEST, PICKUP, DROPOFF = range(6)
# In rain the taxi drifts to the left or right of where it heads.
_ASIDE = ((EAST, WEST), (WEST, EAST), (NORTH, SOUTH), (SOUTH, NORTH))


def encode(taxi_row: Any, taxi_col: Any, pass_loc: Any, dest_idx: Any) -> Any:
    """The number of a state."""
    return ((taxi_row * SIDE + taxi_col) * 5 + pass_loc) * 4 + dest_idx


def decode(i: int) -> tuple[int, int, int, int]:
    """Row, column, passenger and destination of a state."""
    if not 0 <= i < STATES:
        raise InvalidKernel(f"{i} is no state of the taxi; expected 0 to {STATES - 1}.")
    return i // 100, i // 20 % SIDE, i // 4 % 5, i % 4


def moved(row: int, column: int, direction: int) -> tuple[int, int]:
    """Where one step leads; walls stand only between columns."""
    if direction == SOUTH:
        return min(row + 1, SIDE - 1), column
    if direction == NORTH:
        return max(row - 1, 0), column
    if direction == EAST:
        return row, column + (MAP[1 + row][2 * column + 2] == ":")
    return row, column - (MAP[1 + row][2 * column] == ":")


def outcomes(s: int, action: int, rainy_probability: float | None) -> list[Outcome]:
    """What an action may lead to; ``rainy_probability`` is None on a dry day."""
    row, column, passenger, destination = decode(s)
    if action == PICKUP:
        if passenger != RIDING and PLACES[passenger] == (row, column):
            return [(1.0, encode(row, column, RIDING, destination), -1, False)]
        return [(1.0, s, -10, False)]
    if action == DROPOFF:
        if passenger != RIDING or (row, column) not in PLACES:
            return [(1.0, s, -10, False)]
        place = PLACES.index((row, column))
        arrived = place == destination
        return [(1.0, encode(row, column, place, destination), 20 if arrived else -1, arrived)]
    ahead = moved(row, column, action)
    if rainy_probability is None:
        return [(1.0, encode(*ahead, passenger, destination), -1, False)]
    # Against a wall the taxi stays where it is: it drifts only while it moves.
    stuck = ahead == (row, column)
    ways = [ahead, *((ahead if stuck else moved(row, column, aside)) for aside in _ASIDE[action])]
    drift = (1.0 - rainy_probability) / 2.0
    likely = (rainy_probability, drift, drift)
    return [(p, encode(*way, passenger, destination), -1, False) for p, way in zip(likely, ways, strict=True)]


def tables(rainy_probability: float | None) -> Table:
    """P of the town."""
    return transitions.table(STATES, ACTIONS, lambda s, a: outcomes(s, a, rainy_probability))


def start_distribution() -> Array:
    """Anywhere, with a passenger who waits at a place that is not the destination."""
    passenger, destination = np.arange(STATES) // 4 % 5, np.arange(STATES) % 4
    starts: Array = ((passenger != RIDING) & (passenger != destination)).astype(np.float64)
    starts /= starts.sum()
    return starts


def action_mask(state: int, desc: Array, locs: Any) -> Array:
    """Which actions change the state, on a map and with places that may not be the usual ones: int8[6]."""
    row, column, passenger, _ = decode(state)
    here, riding = (row, column), passenger == RIDING
    return np.array(
        [
            row < SIDE - 1,
            row > 0,
            column < SIDE - 1 and desc[row + 1, 2 * column + 2] == b":",
            column > 0 and desc[row + 1, 2 * column] == b":",
            not riding and here == tuple(locs[passenger]),
            riding and any(here == tuple(place) for place in locs),
        ],
        np.int8,
    )


def action_masks(desc: Array, locs: Any) -> Array:
    """The masks of all states, one after another: int8[500 * 6]."""
    return np.concatenate([action_mask(s, desc, locs) for s in range(STATES)])
