"""Problems about grids: lists of texts of the same length, one a row."""

from __future__ import annotations

from paddock.agentic.envs.coding.family import Arguments, Draws, Family, each

_STRAIGHT = ((0, 1), (1, 0), (0, -1), (-1, 0))
_ALL = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right)
# Moves to the right and down, by the words that the statement has for them.
_MOVES = {
    "one cell to the right or one cell down": ((0, 1), (1, 0)),
    "one cell to the right, one cell down, or one of each": ((0, 1), (1, 0), (1, 1)),
    "one or two cells to the right, or one cell down": ((0, 1), (0, 2), (1, 0)),
    "one cell to the right, or one or two cells down": ((0, 1), (1, 0), (2, 0)),
}


def _ways_through(grid: list[str], *, moves: str) -> int:
    ways: dict[tuple[int, int], int] = {}
    for down, row in enumerate(grid):
        for right, cell in enumerate(row):
            came = sum(ways.get((down - d, right - r), 0) for d, r in _MOVES[moves])
            ways[down, right] = 0 if cell == "#" else 1 if down == right == 0 else came
    return ways[len(grid) - 1, len(grid[0]) - 1]


def _generations(grid: list[str], *, born: list[int], stays: list[int], steps: int) -> list[str]:
    for _ in range(steps):
        rows, columns = len(grid), len(grid[0])
        after = []
        for down in range(rows):
            row = ""
            for right in range(columns):
                near = [(down + d, right + r) for d, r in _ALL]
                count = sum(0 <= d < rows and 0 <= r < columns and grid[d][r] == "#" for d, r in near)
                row += "#" if count in (stays if grid[down][right] == "#" else born) else "."
            after.append(row)
        grid = after
    return grid


def _spiral(grid: list[str], *, turning: str, direction: str) -> str:
    text = ""
    left = grid if turning == "clockwise" else ["".join(column) for column in zip(*grid, strict=True)]
    while left:
        text += left[0]
        left = ["".join(column) for column in zip(*left[1:], strict=True)][::-1]
    return text if direction == "from the outside in" else text[::-1]


def _turned(grid: list[str], *, how: str) -> list[str]:
    if how == "a quarter clockwise":
        return ["".join(column) for column in zip(*grid[::-1], strict=True)]
    if how == "a quarter counter-clockwise":
        return ["".join(column) for column in zip(*grid, strict=True)][::-1]
    if how == "upside down, by half a turn":
        return [row[::-1] for row in grid[::-1]]
    if how == "over, so that left and right change places":
        return [row[::-1] for row in grid]
    return ["".join(column) for column in zip(*grid, strict=True)]


def _regions(grid: list[str], *, near: str, result: str) -> int:
    cells = {(down, right) for down, row in enumerate(grid) for right, cell in enumerate(row) if cell == "#"}
    steps = _STRAIGHT if near == "a side" else _ALL
    sizes = []
    while cells:
        waiting, size = [cells.pop()], 0
        while waiting:
            down, right = waiting.pop()
            size += 1
            for step in steps:
                neighbour = down + step[0], right + step[1]
                if neighbour in cells:
                    cells.remove(neighbour)
                    waiting.append(neighbour)
        sizes.append(size)
    if result == "how many regions there are":
        return len(sizes)
    return max(sizes, default=0) if result == "the size of the largest region" else sizes.count(1)


def _fewest_steps(grid: list[str], *, near: str) -> int:
    steps = _STRAIGHT if near == "left, right, up or down" else _ALL
    goal = len(grid) - 1, len(grid[0]) - 1
    reached, count, seen = {(0, 0)} if grid[0][0] != "#" else set(), 0, {(0, 0)}
    while reached:
        if goal in reached:
            return count
        count += 1
        around = {(down + d, right + r) for down, right in reached for d, r in steps} - seen
        reached = {(d, r) for d, r in around if 0 <= d < len(grid) and 0 <= r < len(grid[0]) and grid[d][r] != "#"}
        seen |= reached
    return -1


def _grid(draws: Draws, letters: str, least: int = 2, most: int = 6) -> list[str]:
    columns = draws.number(least, most)
    return ["".join(draws.one_of(letters) for _ in range(columns)) for _ in range(draws.number(least, most))]


def _open_corners(draws: Draws) -> Arguments:
    grid = _grid(draws, "....#", 3, 6)
    grid[0], grid[-1] = "." + grid[0][1:], grid[-1][:-1] + "."
    return (grid,)


_RULES: tuple[tuple[list[int], list[int], int], ...] = (
    ([3], [2, 3], 1),
    ([3], [2, 3], 2),
    ([3, 6], [2, 3], 2),
    ([2], [], 1),
    ([1], [1, 2], 1),
    ([3], [1, 2, 3], 3),
)
_TURNS = (
    "a quarter clockwise",
    "a quarter counter-clockwise",
    "upside down, by half a turn",
    "over, so that left and right change places",
    "over its diagonal, so that rows become columns",
)

FAMILIES = (
    Family(
        "ways_through",
        "grid: list[str]) -> int",
        "In the grid, '#' is blocked and '.' is free. Return in how many ways one can go from the first cell of the "
        "first row to the last cell of the last row over free cells, if each move is {moves}. (Cells that are jumped "
        "over may be blocked; a blocked first or last cell means 0.)",
        each(moves=tuple(_MOVES)),
        _ways_through,
        _open_corners,
        edges=((["."],), (["..."],), ([".#", "#."],), (["...", "...", "..."],)),
    ),
    Family(
        "generations",
        "grid: list[str]) -> list[str]",
        "In the grid, '#' lives and '.' does not; every cell has up to eight neighbours, and nothing lives outside. In "
        "each generation a cell that does not live comes to life if its number of living neighbours is one of {born}, "
        "a living one stays alive if that number is one of {stays}, and all others do not live. Return the grid after "
        "{steps} generation(s).",
        [{"born": born, "stays": stays, "steps": steps} for born, stays, steps in _RULES],
        _generations,
        lambda draws: (_grid(draws, ".#"),),
        edges=((["#"],), ([".....", ".###.", "....."],), (["##", "##"],)),
    ),
    Family(
        "spiral",
        "grid: list[str]) -> str",
        "Begin at the first cell of the first row and read the grid in a spiral, {turning}, ever further inwards. "
        "Return the letters as one text, {direction}.",
        each(
            turning=("clockwise", "counter-clockwise"),
            direction=("from the outside in", "from the inside out (so the first cell comes last)"),
        ),
        _spiral,
        lambda draws: (_grid(draws, "abcdefgh", 1, 5),),
        edges=((["a"],), (["abc"],), (["a", "b"],)),
    ),
    Family(
        "turned",
        "grid: list[str]) -> list[str]",
        "Turn the grid {how}, and return the new one.",
        each(how=_TURNS),
        _turned,
        lambda draws: (_grid(draws, "abcdef.#", 1, 5),),
        edges=((["a"],), (["ab"],), (["a", "b"],)),
    ),
    Family(
        "regions",
        "grid: list[str]) -> int",
        "Cells with '#' that share {near} belong to one region, and so do those that are joined by others. Return "
        "{result}.",
        each(
            near=("a side", "a side or a corner"),
            result=(
                "how many regions there are",
                "the size of the largest region",
                "how many regions have only one cell",
            ),
        ),
        _regions,
        lambda draws: (_grid(draws, "..#", 3, 7),),
        edges=((["."],), (["#.", ".#"],), (["###", "#.#", "###"],)),
    ),
    Family(
        "fewest_steps",
        "grid: list[str]) -> int",
        "In the grid, '#' is blocked and '.' is free. Return the fewest steps from the first cell of the first row to "
        "the last cell of the last row, or -1 if there is no way. A step goes to a free cell {near}.",
        each(near=("left, right, up or down", "in any of the eight directions")),
        _fewest_steps,
        lambda draws: (_grid(draws, "...#", 3, 7),),
        edges=((["."],), (["#"],), ([".#", "#."],), ([".#.", ".#.", "..."],)),
    ),
)
