"""FrozenLake: cross a slippery lake without falling into a hole. P is Gymnasium's, entry by entry.

A map is rows of letters: S start, F frozen, H hole, G goal. Any other letter is ice as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from paddock.envs.toy_text import table_env
from paddock.envs.toy_text.table_env import Array, Outcome, Params, Table, TableEnv
from paddock.errors import InvalidKernel
from paddock.kernels import KernelVectorEnv
from paddock.seeding import np_random

__all__ = ["MAPS", "FrozenLakeEnv", "FrozenLakeVectorEnv", "generate_random_map", "is_valid"]

LEFT, DOWN, RIGHT, UP = range(4)
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
_NAMES = ("Left", "Down", "Right", "Up")
MAPS = {
    "4x4": ["SFFF", "FHFH", "FFFH", "HFFG"],
    "8x8": [
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
    ],
}
_ATTEMPTS = 100_000


def tables(rows: tuple[str, ...], is_slippery: bool, success_rate: float, schedule: tuple[float, ...]) -> Table:
    """P of a map. ``schedule`` are the rewards of goal, hole and ice."""
    height, width = len(rows), len(rows[0])
    aside = (1.0 - success_rate) / 2.0

    def move(s: int, direction: int) -> tuple[int, float, bool]:
        row = min(max(s // width + _MOVES[direction][0], 0), height - 1)
        column = min(max(s % width + _MOVES[direction][1], 0), width - 1)
        tile = rows[row][column]
        return row * width + column, schedule["GH".find(tile) if tile in "GH" else 2], tile in "GH"

    def outcomes(s: int, a: int) -> list[Outcome]:
        if rows[s // width][s % width] in "GH":
            return [(1.0, s, 0, True)]
        if not is_slippery:
            return [(1.0, *move(s, a))]
        return [(success_rate if b == a else aside, *move(s, b)) for b in ((a - 1) % 4, a, (a + 1) % 4)]

    return table_env.build_table(height * width, 4, outcomes)


def start_distribution(rows: tuple[str, ...]) -> Array:
    """All start tiles are equally likely."""
    starts: Array = np.array([tile == "S" for row in rows for tile in row], np.float64)
    starts /= starts.sum()
    return starts


@lru_cache(maxsize=64)
def params(rows: tuple[str, ...], is_slippery: bool, success_rate: float, schedule: tuple[float, ...]) -> Params:
    return table_env.params_of(tables(rows, is_slippery, success_rate, schedule), start_distribution(rows))


KERNEL = table_env.table_kernel(params(tuple(MAPS["4x4"]), True, 1.0 / 3.0, (1, 0, 0)), params)


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
        rows[row][column] = table_env.color_text(rows[row][column], table_env.ON_RED)
        head = "\n" if action is None else f"  ({_NAMES[action]})\n"
        return head + "".join("".join(row) + "\n" for row in rows)

    def paint(self) -> Any:
        from paddock.envs.drawing.toy_text import paint_frozen_lake

        rows = tuple(row.tobytes().decode("latin-1") for row in self.desc)
        return paint_frozen_lake(rows, self.s, self.lastaction)


class FrozenLakeVectorEnv(KernelVectorEnv):
    """FrozenLake in n lanes, all on one map."""

    env_type = FrozenLakeEnv


def is_valid(board: Sequence[Sequence[str]], max_size: int) -> bool:
    """Whether some path without holes leads from the upper left corner to a goal."""
    reached, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        row, column = waiting.pop()
        for r, c in ((row + 1, column), (row, column + 1), (row - 1, column), (row, column - 1)):
            if 0 <= r < max_size and 0 <= c < max_size and (r, c) not in reached:
                if board[r][c] == "G":
                    return True
                if board[r][c] != "H":
                    reached.add((r, c))
                    waiting.append((r, c))
    return False


def generate_random_map(size: int = 8, p: float = 0.8, seed: int | None = None) -> list[str]:
    """A map with a path from start to goal, each tile frozen with probability ``p``: the one that Gymnasium draws."""
    if size < 2 or not p > 0:
        raise InvalidKernel(f"size={size}, p={p}: expected at least 2 tiles per side, frozen with probability above 0.")
    p = min(1, p)
    generator, _ = np_random(seed)
    for _ in range(_ATTEMPTS):
        board = generator.choice(["F", "H"], (size, size), p=[p, 1 - p])
        board[0][0], board[-1][-1] = "S", "G"
        if is_valid(board.tolist(), size):
            return ["".join(row) for row in board]
    raise InvalidKernel(f"No map of {size}x{size} with p={p} had a path in {_ATTEMPTS} attempts. Choose a larger p.")


def map_rows(desc: Iterable[Any] | None, map_name: str | None) -> tuple[str, ...]:
    """The rows of ``desc``, else of the named map, else of a random one; anything but a rectangle is refused."""
    if desc is None:
        if map_name is not None and map_name not in MAPS:
            raise InvalidKernel(f"map_name={map_name!r} is not a map; expected one of {sorted(MAPS)}, or rows as desc.")
        desc = generate_random_map() if map_name is None else MAPS[map_name]
    rows = tuple(_letters(row) for row in desc)
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise InvalidKernel(f"desc={list(rows)}: expected rows of one length, for example {MAPS['4x4']}.")
    if isinstance(desc, str) or not any("S" in row for row in rows):
        raise InvalidKernel(f"desc={list(rows)}: expected rows with at least one S, the tile to start from.")
    return rows


def _letters(row: Any) -> str:
    if isinstance(row, (str, bytes)):
        return row.decode("latin-1") if isinstance(row, bytes) else str(row)
    cells = [_letters(cell) for cell in row] if np.iterable(row) else [repr(row)]
    if any(len(cell) != 1 for cell in cells):
        raise InvalidKernel(f"desc has the row {row!r}; expected text, or single letters.")
    return "".join(cells)
