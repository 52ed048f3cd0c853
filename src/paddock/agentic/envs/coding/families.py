"""Families of programming problems: each problem is a family with its parameters filled in.

A family is a function that knows the answers, which are computed here, where no agent's code runs. Its docstring is the
statement that the agent reads. The order counts: it decides which problem is in which split.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise, product
from string import ascii_lowercase
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np

Arguments = tuple[Any, ...]  # of one call, plain data
Choice = TypeVar("Choice")
Answer = TypeVar("Answer", bound=Callable[..., Any])


class Draws:
    """A random stream for arguments, in Python's own numbers: results are compared by their types."""

    def __init__(self, *seeds: int) -> None:
        self._stream = np.random.default_rng(seeds)

    def number(self, least: int, most: int) -> int:
        """Draw from ``least`` to ``most``, both included."""
        return int(self._stream.integers(least, most + 1))

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.number(0, len(choices) - 1)]

    def numbers(self, least: int, most: int, count: int) -> list[int]:
        """Draw ``count`` numbers, in any order, with repetitions."""
        return [self.number(least, most) for _ in range(count)]

    def text(self, letters: str, count: int) -> str:
        return "".join(self.one_of(letters) for _ in range(count))


@dataclass(frozen=True)
class Family:
    """``statement`` has a place for each parameter. ``answer`` takes a call's arguments, then the parameters by name.

    ``signature`` is what follows "def solve(". ``draw`` makes the arguments of a call; ``edges`` are calls that a hasty
    solution gets wrong.
    """

    name: str
    signature: str
    statement: str
    variants: Sequence[dict[str, Any]]
    answer: Callable[..., Any]
    draw: Callable[[Draws], Arguments]
    edges: Sequence[Arguments] = ()


FAMILIES: list[Family] = []


def family(
    variants: Sequence[dict[str, Any]], draw: Callable[[Draws], Arguments], *, edges: Sequence[Arguments] = ()
) -> Callable[[Answer], Answer]:
    """Add the function below to ``FAMILIES``. Its keyword-only arguments are the parameters of the family."""

    def add(answer: Answer) -> Answer:
        signature = inspect.signature(answer)
        parameters = [one for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
        arguments = ", ".join(f"{one.name}: {one.annotation}" for one in parameters)
        heading = f"{arguments}) -> {signature.return_annotation}"
        statement = " ".join((answer.__doc__ or "").split())
        FAMILIES.append(Family(answer.__name__, heading, statement, variants, answer, draw, edges))
        return answer

    return add


def each(**values: Iterable[Any]) -> list[dict[str, Any]]:
    """Combine the parameters' values in every way.

    >>> each(base=(2, 3))
    [{'base': 2}, {'base': 3}]
    """
    return choices(" ".join(values), *product(*values.values()))


def choices(names: str, *rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Name the values of each row.

    >>> choices("a b", (1, 2), (3, 4))
    [{'a': 1, 'b': 2}, {'a': 3, 'b': 4}]
    """
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


# ── Whole numbers ──


def _one_number(draws: Draws) -> Arguments:
    return (draws.number(0, 10 ** draws.number(1, 12)),)


def _digits(n: int, base: int) -> list[int]:
    return [*_digits(n // base, base), n % base] if n >= base else [n]


@family(each(base=range(2, 13)), _one_number, edges=((0,), (1,), (2**40,)))
def digit_sum(n: int, *, base: int) -> int:
    """Return the sum of the digits of the non-negative integer n when it is written in base {base}."""
    return sum(_digits(n, base))


@family(each(base=(2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 16, 20, 36)), _one_number, edges=((0,), (1,), (35,)))
def in_base(n: int, *, base: int) -> str:
    """Return the non-negative integer n written in base {base}, with the digits 0-9 and then the letters a-z, and no
    leading zeros (0 is '0').
    """
    return "".join("0123456789abcdefghijklmnopqrstuvwxyz"[digit] for digit in _digits(n, base))


@family(
    choices("a b modulus", (1, 1, 997), (2, 1, 1009), (3, 2, 541), (1, 5, 619), (4, 3, 883), (7, 1, 773), (2, 9, 661)),
    lambda draws: (draws.number(2, 1000),),
    edges=((0,), (1,), (2,)),
)
def recurrence(n: int, *, a: int, b: int, modulus: int) -> int:
    """A sequence begins x(0) = 0, x(1) = 1 and goes on with x(n) = ({a} * x(n-1) + {b} * x(n-2)) modulo {modulus}.
    Return x(n). n is at most 1000.
    """
    one, two = 0, 1
    for _ in range(n):
        one, two = two, (a * two + b * one) % modulus
    return one


@family(
    choices("factor addend", (3, 1), (3, 5), (5, 1), (5, 3), (7, 1), (3, 7), (9, 1), (7, 5)),
    lambda draws: (draws.number(1, 10_000), draws.number(1, 12)),
    edges=((1, 0), (2, 1)),
)
def hailstone(n: int, steps: int, *, factor: int, addend: int) -> int:
    """Start with the positive integer n and do this `steps` times: halve the number if it is even, otherwise multiply
    it by {factor} and add {addend}. Return the number at the end.
    """
    for _ in range(steps):
        n = n // 2 if n % 2 == 0 else factor * n + addend
    return n


@family(
    choices("modulus rest", (4, 1), (4, 3), (6, 1), (6, 5), (3, 1), (3, 2), (8, 3), (8, 5), (10, 7), (10, 9)),
    lambda draws: (draws.number(20, 500),),
    edges=((0,), (1,), (2,), (13,)),
)
def primes_of_kind(n: int, *, modulus: int, rest: int) -> int:
    """Return how many primes up to and including n leave the remainder {rest} when divided by {modulus}. n is at most
    500.
    """
    count = 0
    for number in range(2, n + 1):
        prime = all(number % divisor for divisor in range(2, int(number**0.5) + 1))
        count += prime and number % modulus == rest
    return count


@family(each(step=range(4, 14)), lambda draws: (draws.number(3, 2000),), edges=((1,), (2,)))
def last_in_circle(n: int, *, step: int) -> int:
    """The people 1 to n sit in a circle. Beginning to count at person 1, every {step}th person leaves, and counting
    goes on with the next one, until one is left. Return the number of that person. n is at most 2000.
    """
    place = 0
    for size in range(2, n + 1):
        place = (place + step) % size
    return place + 1


@family(
    each(coins=([1, 3, 4], [1, 7, 10], [2, 5], [3, 8, 20], [4, 9, 25], [5, 6, 16], [1, 12, 15, 40], [7, 11])),
    lambda draws: (draws.number(1, 400),),
    edges=((0,), (1,), (14,)),
)
def fewest_coins(amount: int, *, coins: list[int]) -> int:
    """There are coins of the values {coins}, as many of each as you like. Return the fewest coins that make up the
    amount exactly, or -1 if none do. The amount is at most 400.
    """
    fewest = [0] + [amount + 1] * amount
    for total in range(1, amount + 1):
        fewest[total] = min([fewest[total - coin] + 1 for coin in coins if coin <= total], default=amount + 1)
    return fewest[amount] if fewest[amount] <= amount else -1


@family(
    each(power=(0, 1, 2, 3), last=("n itself included", "n itself left out")),
    lambda draws: (draws.number(2, 3000),),
    edges=((1,), (2,), (36,)),
)
def divisor_powers(n: int, *, power: int, last: str) -> int:
    """Return the sum of the divisors of the positive integer n, {last}, each raised to the power {power}. n is at most
    3000.
    """
    most = n if last == "n itself included" else n - 1
    return int(sum(divisor**power for divisor in range(1, most + 1) if n % divisor == 0))


# ── Texts ──

_WORDS = ("the", "sea", "red", "Ant", "hill", "oak", "Moon", "tin", "ape", "river", "stone", "Elm", "sky", "iron")
_BOTH = ("Chester", "Florence", "Lima", "Sydney")  # a name as well as a city


def _sentence(draws: Draws, words: int) -> str:
    return " ".join(draws.one_of(_WORDS) for _ in range(words))


def _table(draws: Draws) -> Arguments:
    rows = [f"{draws.one_of(_BOTH)},{draws.number(-50, 200)},{draws.one_of(_BOTH)}" for _ in range(draws.number(3, 12))]
    return "\n".join(rows), draws.one_of(_BOTH)


@family(
    each(shift=(-11, -9, -4, -1, 2, 3, 5, 7, 10, 13, 19, 25)),
    lambda draws: (_sentence(draws, 4) + draws.one_of(("!", "?", " 42")),),
    edges=(("",), ("xyz ABC",), ("Ünder-1",)),
)
def shifted(text: str, *, shift: int) -> str:
    """Move every letter a-z and A-Z of the text by {shift} places in the alphabet, round from its end to its beginning
    (or back), and leave everything else as it is. Return the new text.
    """
    shifted = ascii_lowercase[shift % 26 :] + ascii_lowercase[: shift % 26]
    both_cases = (letters + letters.upper() for letters in (ascii_lowercase, shifted))
    return text.translate(str.maketrans(*both_cases))


@family(
    each(least=(1, 2, 3, 4), order=("the count, then the letter", "the letter, then the count")),
    lambda draws: ("".join(draws.one_of("abX") * draws.number(1, 12) for _ in range(draws.number(2, 8))),),
    edges=(("",), ("a",), ("aaaabbbcca",)),
)
def shortened(text: str, *, least: int, order: str) -> str:
    """Replace every run of {least} or more equal letters by its length and letter ({order}), and leave shorter runs as
    they are. The text has letters only. Return the new text.
    """
    found = ""
    for letter, run in groupby(text):
        count = len(list(run))
        short = f"{count}{letter}" if order == "the count, then the letter" else f"{letter}{count}"
        found += letter * count if count < least else short
    return found


@family(
    each(count=(1, 2, 3, 4, 5), order=("most frequent", "rarest")),
    lambda draws: (_sentence(draws, draws.number(8, 24)),),
    edges=(("",), ("Sea sea SEA",), ("b a",)),
)
def top_words(text: str, *, count: int, order: str) -> list[str]:
    """The text has words with spaces between them; upper and lower case make no difference. Return the {count} {order}
    words in lower case, in that order, those that occur equally often by the alphabet. If there are fewer different
    words, return all of them.
    """
    words = text.lower().split()
    often = 1 if order == "rarest" else -1
    return sorted(set(words), key=lambda word: (often * words.count(word), word))[:count]


@family(
    each(width=(3, 5, 8, 10, 13, 16, 20)),
    lambda draws: (_sentence(draws, draws.number(4, 16)),),
    edges=(("",), ("extraordinarily",), ("a b c d e f",)),
)
def wrapped(text: str, *, width: int) -> list[str]:
    """Break the text into lines of at most {width} characters: put as many words on each line as fit, with one space
    between two. A word that is longer than that stands on a line alone. Return the lines.
    """
    return wrap(text, width, break_long_words=False)


@family(
    each(pairs=("()", "[]", "<>", "()[]", "()<>", "[]{}", "()[]{}", "()<>{}")),
    lambda draws: (draws.text("()()[]{}<>ab", draws.number(4, 14)),),
    edges=(("",), ("()[]{}<>",), ("((",), ("([)]",), ("a)",)),
)
def first_unmatched(text: str, *, pairs: str) -> int:
    """In the text, the brackets {pairs} (each opening one is followed by the one that closes it) must be nested
    properly; other characters do not count. Return the index of the first closing bracket that does not close the
    bracket opened last; if there is none, the index of the first bracket that is never closed; if there is none either,
    -1.
    """
    opening, closing = pairs[::2], pairs[1::2]
    waiting: list[tuple[int, str]] = []
    for at, sign in enumerate(text):
        if sign in opening:
            waiting.append((at, closing[opening.index(sign)]))
        elif sign in closing and (not waiting or waiting.pop()[1] != sign):
            return at
    return waiting[0][0] if waiting else -1


@family(
    each(divisor=(1, 2, 3, 4, 5)),
    lambda draws: (_sentence(draws, draws.number(3, 9)) + " " + draws.text("abcde", draws.number(3, 10)),),
    edges=(("",), ("ab abc abcd abcde abcdef",)),
)
def turned_words(text: str, *, divisor: int) -> str:
    """The text has words with one space between two. Write every word whose length is divisible by {divisor} backwards,
    and return the new text.
    """
    return " ".join(word[::-1] if len(word) % divisor == 0 else word for word in text.split(" "))


@family(
    choices(
        "insert delete replace",
        *((1, 1, 1), (1, 1, 2), (2, 1, 1), (1, 2, 2), (3, 2, 4), (2, 3, 1), (1, 3, 2), (2, 2, 3)),
    ),
    lambda draws: (draws.text("abc", draws.number(1, 12)), draws.text("abc", draws.number(1, 12))),
    edges=(("", ""), ("", "abc"), ("abc", "")),
)
def distance(one: str, other: str, *, insert: int, delete: int, replace: int) -> int:
    """Turn the first text into the second by changes of single letters: inserting one costs {insert}, deleting one
    {delete}, replacing one by another {replace}. Return the lowest cost. Both have at most 12 letters.
    """
    row = [at * insert for at in range(len(other) + 1)]
    for down, letter in enumerate(one, 1):
        above, row = row, [down * delete]
        for at, wanted in enumerate(other, 1):
            kept = above[at - 1] + (0 if letter == wanted else replace)
            row.append(min(kept, above[at] + delete, row[at - 1] + insert))
    return row[-1]


_FIGURES: dict[str, Callable[[list[int]], int]] = {
    "number of rows": len,
    "largest amount": lambda amounts: max(amounts, default=0),
    "sum of the amounts": sum,
    "sum of all amounts but the smallest": lambda amounts: sum(amounts) - min(amounts, default=0),
}


@family(
    each(column=("name", "city"), result=_FIGURES),
    _table,
    edges=(("", "Lima"), ("Lima,-5,Chester", "Lima"), ("Lima,-5,Sydney\nLima,-7,Sydney", "Sydney")),
)
def table_query(table: str, key: str, *, column: str, result: str) -> int:
    """Each line of the table is 'name,amount,city', the amount a whole number. Look at the rows whose {column} is the
    key and return the {result} (0 if there are no such rows).
    """
    rows = [line.split(",") for line in table.split("\n") if line]
    return _FIGURES[result]([int(row[1]) for row in rows if row[0 if column == "name" else 2] == key])


# ── Lists of numbers ──


def _list(draws: Draws) -> Arguments:
    return (draws.numbers(-9, 9, draws.number(6, 20)),)


def _tokens(draws: Draws) -> Arguments:
    tokens: list[str] = [str(draws.number(0, 99))]
    for _ in range(draws.number(1, 6)):
        tokens += [str(draws.number(0, 99)), draws.one_of("+-*")]
    if draws.number(0, 1):  # not only one after the other
        tokens = [*tokens, *tokens[: draws.one_of((1, 3))], "-"]
    return (tokens,)


@family(each(width=(2, 3, 4, 5), what=("largest", "smallest", "sum")), _list, edges=(([],), ([3],), ([5, 5, 5, 5, 5],)))
def windows(numbers: list[int], *, width: int, what: str) -> list[int]:
    """For each {width} numbers that follow each other in the list, take their {what}. Return the list of these, which
    is empty if there are fewer than {width} numbers.
    """
    take: Any = {"largest": max, "smallest": min, "sum": sum}[what]
    return [take(numbers[at : at + width]) for at in range(len(numbers) - width + 1)]


@family(
    each(gap=(0, 1, 2, 3, 5, 8)),
    lambda draws: ([[low, low + draws.number(0, 9)] for low in draws.numbers(0, 60, draws.number(2, 8))],),
    edges=(([],), ([[1, 9], [2, 3]],), ([[4, 4], [0, 1]],)),
)
def merged(intervals: list[list[int]], *, gap: int) -> list[list[int]]:
    """Each interval is [low, high], both ends included. Two are joined into one if they overlap, or if the next one's
    low is at most {gap} more than the other's high. Return what is left, sorted.
    """
    found: list[list[int]] = []
    for low, high in sorted(intervals):
        if found and low - found[-1][1] <= gap:
            found[-1][1] = max(found[-1][1], high)
        else:
            found.append([low, high])
    return found


# Of a number to the one before it.
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "is greater than": lambda number, before: number > before,
    "is smaller than": lambda number, before: number < before,
    "is at least as great as": lambda number, before: number >= before,
    "differs by at most 3 from": lambda number, before: abs(number - before) <= 3,
    "has another sign (zero counts as positive) than": lambda number, before: (number < 0) != (before < 0),
    "differs in parity (odd or even) from": lambda number, before: (number + before) % 2 == 1,
}


@family(each(relation=_RELATIONS), _list, edges=(([],), ([4],), ([2, 2, 2],), ([-1, 0, -1, 0],)))
def longest_stretch(numbers: list[int], *, relation: str) -> int:
    """Return the length of the longest stretch of the list in which each number {relation} the one before it. A single
    number is a stretch of length 1; an empty list has 0.
    """
    longest = here = min(1, len(numbers))
    for before, number in pairwise(numbers):
        here = here + 1 if _RELATIONS[relation](number, before) else 1
        longest = max(longest, here)
    return longest


@family(each(difference=range(8)), _list, edges=(([],), ([7],), ([1, 1, 1, 2, 3],)))
def pairs_apart(numbers: list[int], *, difference: int) -> int:
    """Return in how many ways two places of the list can be chosen whose numbers differ by exactly {difference}. The
    order of the two places does not count.
    """
    return sum(abs(one - other) == difference for one, other in combinations(numbers, 2))


@family(
    each(bits=(1, 2, 3, 4, 5), what=("how many", "their sum")),
    lambda draws: (draws.numbers(0, 255, draws.number(6, 24)),),
    edges=(([],), ([0, 1, 2, 3, 7, 15, 31, 255],)),
)
def with_bits(numbers: list[int], *, bits: int, what: str) -> int:
    """Look at the numbers of the list that have exactly {bits} ones in their binary form. Return {what} (0 if there are
    none).
    """
    chosen = [number for number in numbers if bin(number).count("1") == bits]
    return len(chosen) if what == "how many" else sum(chosen)


@family(
    each(quantum=(1, 2, 3, 4, 5, 7)),
    lambda draws: (draws.numbers(1, 20, draws.number(3, 9)),),
    edges=(([],), ([5],), ([3, 3, 3],)),
)
def finishing_order(durations: list[int], *, quantum: int) -> list[int]:
    """Jobs 0, 1, 2, … wait in a queue; durations says how long each takes. The first job in the queue runs for
    {quantum} units of time or until it is finished, and if it is not, it goes to the end of the queue. Return the jobs
    in the order in which they finish.
    """
    waiting = deque(enumerate(durations))
    done = []
    while waiting:
        job, left = waiting.popleft()
        if left <= quantum:
            done.append(job)
        else:
            waiting.append((job, left - quantum))
    return done


@family(
    each(modulus=(7, 11, 64, 97, 100, 1009)),
    _tokens,
    edges=((["5"],), (["1", "2", "-"],), (["9", "9", "*", "3", "-"],)),
)
def calculated(tokens: list[str], *, modulus: int) -> int:
    """The tokens are an expression in postfix form: numbers, and the operators +, - and *, each of which takes the two
    values before it. Everything is calculated modulo {modulus}, with results from 0 to {modulus} - 1. Return the value.
    """
    stack: list[int] = []
    for word in tokens:
        if word.isdigit():
            stack.append(int(word) % modulus)
            continue
        two, one = stack.pop(), stack.pop()
        stack.append({"+": one + two, "-": one - two, "*": one * two}[word] % modulus)
    return stack[0]


@family(each(places=(1, 2, 3, 7, 25), direction=("left", "right")), _list, edges=(([],), ([1],), ([1, 2],)))
def moved(numbers: list[int], *, places: int, direction: str) -> list[int]:
    """Move every number of the list {places} places to the {direction}; those that fall off one end come in at the
    other. Return the new list.
    """
    circle = deque(numbers)
    circle.rotate(places if direction == "right" else -places)
    return list(circle)


# ── Grids: lists of texts of the same length, one per row ──

_STRAIGHT = ((0, 1), (1, 0), (0, -1), (-1, 0))
_ALL = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right)
# Moves to the right and down, by the words that the statement has for them.
_MOVES = {
    "one cell to the right or one cell down": ((0, 1), (1, 0)),
    "one cell to the right, one cell down, or one of each": ((0, 1), (1, 0), (1, 1)),
    "one or two cells to the right, or one cell down": ((0, 1), (0, 2), (1, 0)),
    "one cell to the right, or one or two cells down": ((0, 1), (1, 0), (2, 0)),
}


def _grid(draws: Draws, letters: str, least: int = 2, most: int = 6) -> list[str]:
    columns = draws.number(least, most)
    return [draws.text(letters, columns) for _ in range(draws.number(least, most))]


def _open_corners(draws: Draws) -> Arguments:
    grid = _grid(draws, "....#", 3, 6)
    grid[0], grid[-1] = "." + grid[0][1:], grid[-1][:-1] + "."
    return (grid,)


def _columns(grid: list[str]) -> list[str]:
    return ["".join(column) for column in zip(*grid, strict=True)]


def _cells(grid: list[str], sign: str) -> set[tuple[int, int]]:
    return {(down, right) for down, row in enumerate(grid) for right, cell in enumerate(row) if cell == sign}


def _around(cells: Iterable[tuple[int, int]], moves: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(down + d, right + r) for down, right in cells for d, r in moves}


@family(each(moves=_MOVES), _open_corners, edges=((["."],), (["..."],), ([".#", "#."],), (["...", "...", "..."],)))
def ways_through(grid: list[str], *, moves: str) -> int:
    """In the grid, '#' is blocked and '.' is free. Return in how many ways one can go from the first cell of the first
    row to the last cell of the last row over free cells, if each move is {moves}. (Cells that are jumped over may be
    blocked; a blocked first or last cell means 0.)
    """
    ways: dict[tuple[int, int], int] = {}
    for down, row in enumerate(grid):
        for right, cell in enumerate(row):
            came = sum(ways.get((down - d, right - r), 0) for d, r in _MOVES[moves])
            ways[down, right] = 0 if cell == "#" else 1 if down == right == 0 else came
    return ways[len(grid) - 1, len(grid[0]) - 1]


@family(
    choices(
        "born stays steps",
        *(([3], [2, 3], 1), ([3], [2, 3], 2), ([3, 6], [2, 3], 2), ([2], [], 1), ([1], [1, 2], 1), ([3], [1, 2, 3], 3)),
    ),
    lambda draws: (_grid(draws, ".#"),),
    edges=((["#"],), ([".....", ".###.", "....."],), (["##", "##"],)),
)
def generations(grid: list[str], *, born: list[int], stays: list[int], steps: int) -> list[str]:
    """In the grid, '#' lives and '.' does not; every cell has up to eight neighbours, and nothing lives outside. In
    each generation a cell that does not live comes to life if its number of living neighbours is one of {born}, a
    living one stays alive if that number is one of {stays}, and all others do not live. Return the grid after {steps}
    generation(s).
    """
    for _ in range(steps):
        living, after = _cells(grid, "#"), []
        for down, row in enumerate(grid):
            counts = [len(living & _around([(down, right)], _ALL)) for right in range(len(row))]
            lives = [count in (stays if cell == "#" else born) for cell, count in zip(row, counts, strict=True)]
            after.append("".join("#" if alive else "." for alive in lives))
        grid = after
    return grid


@family(
    each(
        turning=("clockwise", "counter-clockwise"),
        direction=("from the outside in", "from the inside out (so the first cell comes last)"),
    ),
    lambda draws: (_grid(draws, "abcdefgh", 1, 5),),
    edges=((["a"],), (["abc"],), (["a", "b"],)),
)
def spiral(grid: list[str], *, turning: str, direction: str) -> str:
    """Begin at the first cell of the first row and read the grid in a spiral, {turning}, ever further inwards. Return
    the letters as one text, {direction}.
    """
    text = ""
    left = grid if turning == "clockwise" else _columns(grid)
    while left:
        text += left[0]
        left = _columns(left[1:])[::-1]
    return text if direction == "from the outside in" else text[::-1]


_TURNS: dict[str, Callable[[list[str]], list[str]]] = {
    "a quarter clockwise": lambda grid: _columns(grid[::-1]),
    "a quarter counter-clockwise": lambda grid: _columns(grid)[::-1],
    "upside down, by half a turn": lambda grid: [row[::-1] for row in grid[::-1]],
    "over, so that left and right change places": lambda grid: [row[::-1] for row in grid],
    "over its diagonal, so that rows become columns": _columns,
}


@family(each(how=_TURNS), lambda draws: (_grid(draws, "abcdef.#", 1, 5),), edges=((["a"],), (["ab"],), (["a", "b"],)))
def turned(grid: list[str], *, how: str) -> list[str]:
    """Turn the grid {how}, and return the new one."""
    return _TURNS[how](grid)


_OF_SIZES: dict[str, Callable[[list[int]], int]] = {
    "how many regions there are": len,
    "the size of the largest region": lambda sizes: max(sizes, default=0),
    "how many regions have only one cell": lambda sizes: sizes.count(1),
}


@family(
    each(near=("a side", "a side or a corner"), result=_OF_SIZES),
    lambda draws: (_grid(draws, "..#", 3, 7),),
    edges=((["."],), (["#.", ".#"],), (["###", "#.#", "###"],)),
)
def regions(grid: list[str], *, near: str, result: str) -> int:
    """Cells with '#' that share {near} belong to one region, and so do those that are joined by others. Return
    {result}.
    """
    cells, steps = _cells(grid, "#"), _STRAIGHT if near == "a side" else _ALL
    sizes = []
    while cells:
        size, border = 0, {cells.pop()}
        while border:
            size += len(border)
            border = _around(border, steps) & cells
            cells -= border
        sizes.append(size)
    return _OF_SIZES[result](sizes)


@family(
    each(near=("left, right, up or down", "in any of the eight directions")),
    lambda draws: (_grid(draws, "...#", 3, 7),),
    edges=((["."],), (["#"],), ([".#", "#."],), ([".#.", ".#.", "..."],)),
)
def fewest_steps(grid: list[str], *, near: str) -> int:
    """In the grid, '#' is blocked and '.' is free. Return the fewest steps from the first cell of the first row to the
    last cell of the last row, or -1 if there is no way. A step goes to a free cell {near}.
    """
    steps = _STRAIGHT if near == "left, right, up or down" else _ALL
    goal = len(grid) - 1, len(grid[0]) - 1
    free, reached, count = _cells(grid, "."), {(0, 0)}, 0
    while reached := reached & free:
        if goal in reached:
            return count
        count += 1
        free -= reached
        reached = _around(reached, steps)
    return -1
