"""FrozenLake: cross a slippery lake without falling into a hole. P is Gymnasium's, entry by entry."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from paddock.envs.toy_text import transitions
from paddock.envs.toy_text.ansi import ON_RED, painted
from paddock.envs.toy_text.frozen_map import MAPS, generate_random_map, is_valid, map_rows
from paddock.envs.toy_text.table_env import TableEnv
from paddock.envs.toy_text.transitions import Array, Outcome, Params, Table
from paddock.errors import InvalidKernel
from paddock.kernels import Kernel, KernelVectorEnv

__all__ = ["MAPS", "FrozenLakeEnv", "FrozenLakeVectorEnv", "generate_random_map", "is_valid"]

LEFT, DOWN, RIGHT, UP = range(4)
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
_NAMES = ("Left", "Down", "Right", "Up")


def tables(rows: tuple[str, ...], is_slippery: bool, success_rate: float, schedule: tuple[float, ...]) -> Table:
    """P of a map. ``schedule`` are the rewards of goal, hole and ice."""
    height, width = len(rows), len(rows[0])
    aside = (1.0 - success_rate) / 2.0

    def moved(s: int, direction: int) -> tuple[int, float, bool]:
        row = min(max(s // width + _MOVES[direction][0], 0), height - 1)
        column = min(max(s % width + _MOVES[direction][1], 0), width - 1)
        tile = rows[row][column]
        return row * width + column, schedule["GH".find(tile) if tile in "GH" else 2], tile in "GH"

    def outcomes(s: int, a: int) -> list[Outcome]:
        if rows[s // width][s % width] in "GH":
            return [(1.0, s, 0, True)]
        if not is_slippery:
            return [(1.0, *moved(s, a))]
        return [(success_rate if b == a else aside, *moved(s, b)) for b in ((a - 1) % 4, a, (a + 1) % 4)]

    return transitions.table(height * width, 4, outcomes)


def start_distribution(rows: tuple[str, ...]) -> Array:
    """All start tiles are equally likely."""
    starts: Array = np.array([tile == "S" for row in rows for tile in row], np.float64)
    starts /= starts.sum()
    return starts


@lru_cache(maxsize=64)
def params(rows: tuple[str, ...], is_slippery: bool, success_rate: float, schedule: tuple[float, ...]) -> Params:
    return transitions.params_of(tables(rows, is_slippery, success_rate, schedule), start_distribution(rows))


KERNEL = Kernel(
    transitions.initial,
    transitions.step,
    transitions.observe,
    params=params(tuple(MAPS["4x4"]), True, 1.0 / 3.0, (1, 0, 0)),
    observation_space=transitions.observation_space,
    action_space=transitions.action_space,
    info=transitions.info,
    configure=params,
    valid=transitions.valid,
)


class FrozenLakeEnv(TableEnv):
    """Walk left (0), down (1), right (2) or up (3); on slippery ice the walk goes aside as often as not.

    ``desc`` are rows of a map of your own; with ``desc`` and ``map_name`` both None the map is random.
    ``success_rate`` is the probability to go where one wants, ``reward_schedule`` the rewards of goal, hole and ice.
    """

    kernel = KERNEL
    metadata = {"render_modes": ["human", "ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        render_mode: str | None = None,
        desc: Any = None,
        map_name: str | None = "4x4",
        is_slippery: bool = True,
        success_rate: float = 1.0 / 3.0,
        reward_schedule: tuple[float, float, float] = (1, 0, 0),
    ) -> None:
        rows = map_rows(desc, map_name)
        schedule = tuple(reward_schedule)
        if len(schedule) != 3 or not all(isinstance(reward, (int, float, np.number)) for reward in schedule):
            raise InvalidKernel(f"reward_schedule={reward_schedule!r}: expected the rewards of goal, hole and ice.")
        if not 0.0 <= success_rate <= 1.0:
            raise InvalidKernel(f"success_rate={success_rate}: expected a probability from 0 to 1.")
        rules: dict[str, Any] = {"rows": rows, "is_slippery": bool(is_slippery)}
        rules |= {"success_rate": success_rate, "schedule": schedule}
        super().__init__(render_mode, tables=partial(tables, **rules), distribution=start_distribution(rows), **rules)
        self.desc = np.array([list(row) for row in rows], dtype="c")
        self.nrow, self.ncol = self.desc.shape
        self.reward_range = (min(schedule), max(schedule))
        self.window_size = (min(64 * self.ncol, 512), min(64 * self.nrow, 512))
        self.cell_size = (self.window_size[0] // self.ncol, self.window_size[1] // self.nrow)

    def describe(self) -> str:
        """The last action in brackets, then the map with the walker's tile in red."""
        s, action = self.s, self.lastaction
        rows = [[tile.decode("latin-1") for tile in row] for row in self.desc.tolist()]
        row, column = divmod(s, self.ncol)
        rows[row][column] = painted(rows[row][column], ON_RED)
        head = "\n" if action is None else f"  ({_NAMES[action]})\n"
        return head + "".join("".join(row) + "\n" for row in rows)

    def paint(self) -> Any:
        from paddock.envs.drawing.frozen_lake import paint_frozen_lake

        rows = tuple(row.tobytes().decode("latin-1") for row in self.desc)
        return paint_frozen_lake(rows, self.s, self.lastaction)


class FrozenLakeVectorEnv(KernelVectorEnv):
    """FrozenLake in n lanes, all on one map."""

    env_type = FrozenLakeEnv
