"""Taxi: fetch a passenger and bring them where they want to go. A fickle passenger may want to go elsewhere, once.

A state is ((row * 5 + column) * 5 + passenger) * 4 + destination; passenger 4 means in the taxi. ``locs`` and ``desc``
decide only the action mask and the picture: what actions do stands in P, as in Gymnasium.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from paddock.core.env import Info
from paddock.envs.toy_text import table_env
from paddock.envs.toy_text.table_env import Array, Outcome, Table, TableEnv, choose_outcome, first_state
from paddock.errors import InvalidKernel
from paddock.kernels import Kernel, KernelVectorEnv

_NAMES = ("South", "North", "East", "West", "Pickup", "Dropoff")
_COLORS = ((255, 0, 0), (0, 255, 0), (255, 255, 0), (0, 0, 255))
MAP = ("+---------+", "|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |", "+---------+")
PLACES = ((0, 0), (0, 4), (4, 0), (4, 3))
SIDE, STATES, ACTIONS, RIDING = 5, 500, 6, 4
SOUTH, NORTH, EAST, WEST, PICKUP, DROPOFF = range(6)
# In rain the taxi drifts to the left or right of where it heads.
_ASIDE = ((EAST, WEST), (WEST, EAST), (NORTH, SOUTH), (SOUTH, NORTH))


def encode(taxi_row: Any, taxi_col: Any, pass_loc: Any, dest_idx: Any) -> Any:
    return ((taxi_row * SIDE + taxi_col) * 5 + pass_loc) * 4 + dest_idx


def decode(i: int) -> tuple[int, int, int, int]:
    """Row, column, passenger and destination of a state."""
    if not 0 <= i < STATES:
        raise InvalidKernel(f"{i} is not a state of the taxi; expected 0 to {STATES - 1}.")
    return i // 100, i // 20 % SIDE, i // 4 % 5, i % 4


def move(row: int, column: int, direction: int) -> tuple[int, int]:
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
    ahead = move(row, column, action)
    if rainy_probability is None:
        return [(1.0, encode(*ahead, passenger, destination), -1, False)]
    # Against a wall the taxi stays where it is: it drifts only while it moves.
    stuck = ahead == (row, column)
    ways = [ahead, *((ahead if stuck else move(row, column, aside)) for aside in _ASIDE[action])]
    drift = (1.0 - rainy_probability) / 2.0
    likely = (rainy_probability, drift, drift)
    return [(p, encode(*way, passenger, destination), -1, False) for p, way in zip(likely, ways, strict=True)]


def tables(rainy_probability: float | None) -> Table:
    return table_env.build_table(STATES, ACTIONS, lambda s, a: outcomes(s, a, rainy_probability))


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
    try:
        return np.concatenate([action_mask(s, desc, locs) for s in range(STATES)])
    except (LookupError, TypeError):
        raise InvalidKernel(
            f"desc and locs {locs!r} are not a town; expected 7 rows of 11 letters and four places."
        ) from None


class Params(NamedTuple):
    """The arrays of ``table_env.Params``, which its functions read here too, and what is the taxi's own."""

    probability: Array
    successor: Array
    reward: Array
    terminated: Array
    actions: int
    outcomes: int
    first_states: Array
    first_sums: Array
    masks: Array  # int8[states * 6]
    fickle_passenger: bool
    fickle_probability: float


class State(NamedTuple):
    s: int
    lastaction: int = -1
    prob: float = 1.0
    fickle_step: bool = False  # the passenger will change their mind when the taxi first moves with them
    taxi_orientation: int = 0  # the last move, for the picture


class TaxiInfo(NamedTuple):
    prob: float
    action_mask: Array


def initial(rng: Any, params: Params) -> State:
    s = first_state(rng.random(), params)
    fickle = params.fickle_passenger and rng.random() < params.fickle_probability
    return State(s, -1, 1.0, fickle, 0)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    s, fickle = state.s, state.fickle_step
    at = choose_outcome(s, action, rng.random(), params)
    new = int(params.successor[at])
    if fickle and params.fickle_passenger and s // 4 % 5 == 4 and new // 20 != s // 20:
        fickle = False
        other = rng.integers(0, 3)  # of the destinations that are not the present one
        new = new - new % 4 + (other if other < s % 4 else other + 1)
    heading = action if action < 4 else state.taxi_orientation
    reached = State(new, action, float(params.probability[at]), fickle, heading)
    return reached, float(params.reward[at]), bool(params.terminated[at])


def observe(state: State, params: Params) -> int:
    return state.s


def info(state: State, params: Params) -> TaxiInfo:
    return TaxiInfo(state.prob, params.masks[6 * state.s : 6 * state.s + 6])


def valid(state: State, params: Params) -> bool:
    return table_env.valid(state, params) and 0 <= state.taxi_orientation < 4


def params(rainy_probability: float | None, fickle_passenger: bool, fickle_probability: float) -> Params:
    return Params(*_town(rainy_probability), _usual_masks(), fickle_passenger, fickle_probability)


@cache
def _town(rainy_probability: float | None) -> table_env.Params:
    return table_env.params_of(tables(rainy_probability), start_distribution())


@cache
def _usual_masks() -> Array:
    masks = action_masks(_desc(), PLACES)
    masks.flags.writeable = False
    return masks


def _desc() -> Array:
    return np.array([list(row) for row in MAP], dtype="c")


KERNEL = Kernel(
    initial,
    step,
    observe,
    params=params(None, False, 0.3),
    observation_space=table_env.observation_space,
    action_space=table_env.action_space,
    info=info,
    configure=params,
    valid=valid,
)


class TaxiEnv(TableEnv):
    """Move south (0), north (1), east (2), west (3), pick up (4), drop off (5): -1 per step, -10 in vain, 20 if right.

    ``is_rainy``: a move goes ahead with ``rainy_probability``, else aside. ``fickle_passenger``: with
    ``fickle_probability`` a passenger chooses another destination when the taxi first moves with them.
    """

    kernel = KERNEL
    metadata = {"render_modes": ["human", "ansi", "rgb_array"], "render_fps": 4}
    fickle_step = table_env.state_attribute("fickle_step", "Whether the passenger is about to change their mind.")
    taxi_orientation = table_env.state_attribute("taxi_orientation", "The move that the taxi made last, 0 to 3.")

    def __init__(
        self,
        render_mode: str | None = None,
        is_rainy: bool = False,
        fickle_passenger: bool = False,
        rainy_probability: float = 0.8,
        fickle_probability: float = 0.3,
    ) -> None:
        for name, value in (("rainy_probability", rainy_probability), ("fickle_probability", fickle_probability)):
            if not 0.0 <= value <= 1.0:
                raise InvalidKernel(f"{name}={value}: expected a probability from 0 to 1.")
        rain = float(rainy_probability) if is_rainy else None
        super().__init__(
            render_mode,
            tables=partial(tables, rain),
            distribution=start_distribution(),
            rainy_probability=rain,
            fickle_passenger=bool(fickle_passenger),
            fickle_probability=float(fickle_probability),
        )
        self.rainy_probability = rainy_probability
        self.max_row = self.max_col = 4
        self.locs_colors = list(_COLORS)
        self.cell_size = (88, 56)
        self._desc, self._locs = _desc(), list(PLACES)
        self._mask_source = (_desc(), list(PLACES))  # the map and places that the masks are of
        self._scenery_shared = False

    @property
    def desc(self) -> Array:
        """The map's letters: S1[7, 11]. Writing into it changes action masks and the picture."""
        self._shared = self._scenery_shared = True
        return self._desc

    @desc.setter
    def desc(self, letters: Any) -> None:
        self._desc = np.asarray(letters, dtype="c")
        self._shared = self._scenery_shared = True
        self._read_scenery()

    @property
    def locs(self) -> list[tuple[int, int]]:
        """Row and column of the four places, as ``desc``."""
        self._shared = self._scenery_shared = True
        return self._locs

    @locs.setter
    def locs(self, places: Any) -> None:
        self._locs = places
        self._shared = self._scenery_shared = True
        self._read_scenery()

    def encode(self, taxi_row: Any, taxi_col: Any, pass_loc: Any, dest_idx: Any) -> Any:
        """The number of a state."""
        return encode(taxi_row, taxi_col, pass_loc, dest_idx)

    def decode(self, i: int) -> tuple[int, int, int, int]:
        """Row, column, passenger (4: in the taxi) and destination of a state."""
        return decode(i)

    def action_mask(self, state: int) -> Array:
        """Which actions would change this state: int8[6]."""
        return action_mask(state, self._desc, self._locs)

    def _fits(self, params: Any) -> bool:
        return super()._fits(params) and len(params.masks) == len(self._params.masks)

    def _info_of(self, state: Any) -> Info:
        return {"prob": state.prob, "action_mask": self._params.masks[6 * state.s : 6 * state.s + 6].copy()}

    def _read_before_step(self, action: Any) -> None:
        super()._read_before_step(action)
        self._read_scenery()

    def _read_before_reset(self) -> None:
        super()._read_before_reset()
        self._read_scenery()

    def _read_scenery(self) -> None:
        desc, locs = self._mask_source
        if self._scenery_shared and (not np.array_equal(self._desc, desc) or self._locs != locs):
            self.set_params(self._params._replace(masks=action_masks(self._desc, self._locs)))
            self._mask_source = (self._desc.copy(), list(self._locs))

    def describe(self) -> str:
        """The town: taxi yellow, or green with its passenger; passenger blue; destination magenta. Then the action."""
        row, column, passenger, destination = self.decode(self.s)
        letters = [[letter.decode("latin-1") for letter in line] for line in self._desc.tolist()]

        def paint(place: tuple[int, int], code: str) -> None:
            letters[1 + place[0]][2 * place[1] + 1] = table_env.color_text(
                letters[1 + place[0]][2 * place[1] + 1], code
            )

        if passenger == RIDING:
            if letters[1 + row][2 * column + 1] == " ":
                letters[1 + row][2 * column + 1] = "_"
            paint((row, column), table_env.ON_GREEN)
        else:
            paint((row, column), table_env.ON_YELLOW)
            paint(self._locs[passenger], table_env.BOLD_BLUE)
        paint(self._locs[destination], table_env.MAGENTA)
        tail = "\n" if self.lastaction is None else f"  ({_NAMES[self.lastaction]})\n"
        return "".join("".join(line) + "\n" for line in letters) + tail

    def paint(self) -> Any:
        from paddock.envs.drawing.toy_text import paint_taxi

        row, column, passenger, destination = self.decode(self.s)
        return paint_taxi(
            tuple(line.tobytes().decode("latin-1") for line in self._desc),
            tuple((int(row), int(column)) for row, column in self._locs),
            taxi=(row, column),
            passenger=passenger,
            destination=destination,
            heading=self.taxi_orientation,
        )


class TaxiVectorEnv(KernelVectorEnv):
    env_type = TaxiEnv
