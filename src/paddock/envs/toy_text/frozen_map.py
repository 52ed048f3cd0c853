"""Maps of the frozen lake: rows of letters, S start, F frozen, H hole, G goal. Any other letter is ice as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from paddock.errors import InvalidKernel
from paddock.seeding import np_random

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


def is_valid(board: Sequence[Sequence[str]], max_size: int) -> bool:
    """Whether some path without holes leads from the upper left corner to a goal."""
    seen, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        row, column = waiting.pop()
        for r, c in ((row + 1, column), (row, column + 1), (row - 1, column), (row, column - 1)):
            if 0 <= r < max_size and 0 <= c < max_size and (r, c) not in seen:
                if board[r][c] == "G":
                    return True
                if board[r][c] != "H":
                    seen.add((r, c))
                    waiting.append((r, c))
    return False


def generate_random_map(size: int = 8, p: float = 0.8, seed: int | None = None) -> list[str]:
    """A map with a path from start to goal, each tile frozen with probability ``p``: the one that Gymnasium draws."""
    if size < 2 or not p > 0:
        raise InvalidKernel(f"size={size}, p={p}: expected at least 2 tiles a side, frozen with probability above 0.")
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
            raise InvalidKernel(f"map_name={map_name!r} is no map; expected one of {sorted(MAPS)}, or rows as desc.")
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
