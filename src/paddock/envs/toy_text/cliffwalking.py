"""CliffWalking: along a cliff from one corner to the other. A fall costs 100 and leads back to the start."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from paddock.envs.toy_text import table_env
from paddock.envs.toy_text.table_env import Array, Outcome, Params, Table, TableEnv
from paddock.kernels import KernelVectorEnv

UP, RIGHT, DOWN, LEFT = range(4)
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
_HEIGHT, _WIDTH = 4, 12
_START, _GOAL = 36, 47


def tables(is_slippery: bool) -> Table:
    """P of the grid; slippery, each action goes where it should or to either side, equally likely."""

    def move(s: int, direction: int) -> tuple[int, int, bool]:
        row = min(max(s // _WIDTH + _MOVES[direction][0], 0), _HEIGHT - 1)
        column = min(max(s % _WIDTH + _MOVES[direction][1], 0), _WIDTH - 1)
        reached = row * _WIDTH + column
        return (_START, -100, False) if _START < reached < _GOAL else (reached, -1, reached == _GOAL)

    def outcomes(s: int, a: int) -> list[Outcome]:
        directions = ((a - 1) % 4, a, (a + 1) % 4) if is_slippery else (a,)
        return [(1 / len(directions), *move(s, direction)) for direction in directions]

    return table_env.build_table(_HEIGHT * _WIDTH, 4, outcomes)


def start_distribution() -> Array:
    distribution: Array = np.eye(_HEIGHT * _WIDTH)[_START]
    return distribution


@cache
def params(is_slippery: bool) -> Params:
    return table_env.params_of(tables(is_slippery), start_distribution())


KERNEL = table_env.table_kernel(params(False), params)


class CliffWalkingEnv(TableEnv):
    """Walk up (0), right (1), down (2) or left (3); each step costs 1, a fall 100, and the goal ends the episode."""

    kernel = KERNEL
    metadata = {"render_modes": ["human", "rgb_array", "ansi"], "render_fps": 4}

    def __init__(self, render_mode: str | None = None, is_slippery: bool = False) -> None:
        slippery = bool(is_slippery)
        super().__init__(
            render_mode, tables=partial(tables, slippery), distribution=start_distribution(), is_slippery=slippery
        )
        self.is_slippery = slippery
        self.shape = (_HEIGHT, _WIDTH)
        self.start_state_index, self.nS, self.nA = _START, _HEIGHT * _WIDTH, 4
        self.cell_size = (64, 64)
        self.window_size = (_WIDTH * 64, _HEIGHT * 64)

    def describe(self) -> str:
        """The grid: x walker, T goal, C cliff, o ground."""
        marks = ["C" if _START < place < _GOAL else "o" for place in range(_HEIGHT * _WIDTH)]
        marks[_GOAL] = "T"
        marks[self.s] = "x"
        rows = ["  ".join(marks[at : at + _WIDTH]) for at in range(0, len(marks), _WIDTH)]
        return "\n".join(rows) + "\n\n"

    def paint(self) -> Any:
        from paddock.envs.drawing.toy_text import paint_cliff_walking

        return paint_cliff_walking(self.s, self.lastaction)


class CliffWalkingVectorEnv(KernelVectorEnv):
    env_type = CliffWalkingEnv
