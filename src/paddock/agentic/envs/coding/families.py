"""Families of programming problems: each problem is a family with its parameters filled in.

A family is a function that knows the answers, which are computed here, where no agent's code runs. Its docstring is the
statement that the agent reads. The order counts: it decides which problem is in which split.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, product
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
        """Draw one of the choices."""
        return choices[self.number(0, len(choices) - 1)]

    def numbers(self, least: int, most: int, count: int) -> list[int]:
        """Draw ``count`` numbers, in any order, with repetitions."""
        return [self.number(least, most) for _ in range(count)]


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
        arguments = [
            f"{one.name}: {one.annotation}" for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY
        ]
        FAMILIES.append(
            Family(
                answer.__name__,
                f"{', '.join(arguments)}) -> {signature.return_annotation}",
                " ".join((answer.__doc__ or "").split()),
                variants,
                answer,
                draw,
                edges,
            )
        )
        return answer

    return add


def each(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    """Combine the parameters' values in every way.

    >>> each(base=(2, 3))
    [{'base': 2}, {'base': 3}]
    """
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


# ── Whole numbers ──

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _one_number(draws: Draws) -> Arguments:
    return (draws.number(0, 10 ** draws.number(1, 12)),)


@family(each(base=range(2, 13)), _one_number, edges=((0,), (1,), (2**40,)))
def digit_sum(n: int, *, base: int) -> int:
    """Return the sum of the digits of the non-negative integer n when it is written in base {base}."""
    total = 0
    while n:
        n, digit = divmod(n, base)
        total += digit
    return total


@family(each(base=(2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 16, 20, 36)), _one_number, edges=((0,), (1,), (35,)))
def in_base(n: int, *, base: int) -> str:
    """Return the non-negative integer n written in base {base}, with the digits 0-9 and then the letters a-z, and no
    leading zeros (0 is '0').
    """
    text = ""
    while n:
        n, digit = divmod(n, base)
        text = _DIGITS[digit] + text
    return text or "0"


@family(
    [
        {"a": a, "b": b, "modulus": m}
        for a, b, m in ((1, 1, 997), (2, 1, 1009), (3, 2, 541), (1, 5, 619), (4, 3, 883), (7, 1, 773), (2, 9, 661))
    ],
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
    [
        {"factor": factor, "addend": addend}
        for factor, addend in ((3, 1), (3, 5), (5, 1), (5, 3), (7, 1), (3, 7), (9, 1), (7, 5))
    ],
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
    [
        {"modulus": modulus, "rest": rest}
        for modulus, rest in ((4, 1), (4, 3), (6, 1), (6, 5), (3, 1), (3, 2), (8, 3), (8, 5), (10, 7), (10, 9))
    ],
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


def _of(draws: Draws, letters: str, least: int, most: int) -> str:
    return "".join(draws.one_of(letters) for _ in range(draws.number(least, most)))


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
    found = ""
    for letter in text:
        if "a" <= letter <= "z":
            letter = chr((ord(letter) - ord("a") + shift) % 26 + ord("a"))
        elif "A" <= letter <= "Z":
            letter = chr((ord(letter) - ord("A") + shift) % 26 + ord("A"))
        found += letter
    return found


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
        if count < least:
            found += letter * count
        else:
            found += f"{count}{letter}" if order == "the count, then the letter" else f"{letter}{count}"
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
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


@family(
    each(pairs=("()", "[]", "<>", "()[]", "()<>", "[]{}", "()[]{}", "()<>{}")),
    lambda draws: (_of(draws, "()()[]{}<>ab", 4, 14),),
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
    lambda draws: (_sentence(draws, draws.number(3, 9)) + " " + _of(draws, "abcde", 3, 10),),
    edges=(("",), ("ab abc abcd abcde abcdef",)),
)
def turned_words(text: str, *, divisor: int) -> str:
    """The text has words with one space between two. Write every word whose length is divisible by {divisor} backwards,
    and return the new text.
    """
    return " ".join(word[::-1] if len(word) % divisor == 0 else word for word in text.split(" "))


@family(
    [
        {"insert": insert, "delete": delete, "replace": replace}
        for insert, delete, replace in (
            (1, 1, 1),
            (1, 1, 2),
            (2, 1, 1),
            (1, 2, 2),
            (3, 2, 4),
            (2, 3, 1),
            (1, 3, 2),
            (2, 2, 3),
        )
    ],
    lambda draws: (_of(draws, "abc", 1, 12), _of(draws, "abc", 1, 12)),
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


@family(
    each(
        column=("name", "city"),
        result=("number of rows", "largest amount", "sum of the amounts", "sum of all amounts but the smallest"),
    ),
    _table,
    edges=(("", "Lima"), ("Lima,-5,Chester", "Lima"), ("Lima,-5,Sydney\nLima,-7,Sydney", "Sydney")),
)
def table_query(table: str, key: str, *, column: str, result: str) -> int:
    """Each line of the table is 'name,amount,city', the amount a whole number. Look at the rows whose {column} is the
    key and return the {result} (0 if there are no such rows).
    """
    rows = [line.split(",") for line in table.split("\n") if line]
    amounts = [int(row[1]) for row in rows if row[0 if column == "name" else 2] == key]
    if result == "number of rows":
        return len(amounts)
    if result == "largest amount":
        return max(amounts, default=0)
    return sum(amounts) if result == "sum of the amounts" else sum(amounts) - min(amounts, default=0)


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
    found = []
    for at in range(len(numbers) - width + 1):
        part = numbers[at : at + width]
        found.append({"largest": max(part), "smallest": min(part), "sum": sum(part)}[what])
    return found


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


@family(
    each(
        relation=(
            "is greater than",
            "is smaller than",
            "is at least as great as",
            "differs by at most 3 from",
            "has another sign (zero counts as positive) than",
            "differs in parity (odd or even) from",
        )
    ),
    _list,
    edges=(([],), ([4],), ([2, 2, 2],), ([-1, 0, -1, 0],)),
)
def longest_stretch(numbers: list[int], *, relation: str) -> int:
    """Return the length of the longest stretch of the list in which each number {relation} the one before it. A single
    number is a stretch of length 1; an empty list has 0.
    """
    longest = here = min(1, len(numbers))
    for one, two in pairwise(numbers):
        holds = {
            "is greater than": two > one,
            "is smaller than": two < one,
            "is at least as great as": two >= one,
            "differs by at most 3 from": abs(two - one) <= 3,
            "has another sign (zero counts as positive) than": (two < 0) != (one < 0),
            "differs in parity (odd or even) from": (two + one) % 2 == 1,
        }[relation]
        here = here + 1 if holds else 1
        longest = max(longest, here)
    return longest


@family(each(difference=range(8)), _list, edges=(([],), ([7],), ([1, 1, 1, 2, 3],)))
def pairs_apart(numbers: list[int], *, difference: int) -> int:
    """Return in how many ways two places of the list can be chosen whose numbers differ by exactly {difference}. The
    order of the two places does not count.
    """
    return sum(
        abs(numbers[i] - numbers[j]) == difference for i in range(len(numbers)) for j in range(i + 1, len(numbers))
    )


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
    if not numbers:
        return []
    cut = places % len(numbers)
    cut = cut if direction == "left" else len(numbers) - cut
    return numbers[cut:] + numbers[:cut]


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


@family(
    each(moves=tuple(_MOVES)), _open_corners, edges=((["."],), (["..."],), ([".#", "#."],), (["...", "...", "..."],))
)
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
    [{"born": born, "stays": stays, "steps": steps} for born, stays, steps in _RULES],
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
    left = grid if turning == "clockwise" else ["".join(column) for column in zip(*grid, strict=True)]
    while left:
        text += left[0]
        left = ["".join(column) for column in zip(*left[1:], strict=True)][::-1]
    return text if direction == "from the outside in" else text[::-1]


@family(each(how=_TURNS), lambda draws: (_grid(draws, "abcdef.#", 1, 5),), edges=((["a"],), (["ab"],), (["a", "b"],)))
def turned(grid: list[str], *, how: str) -> list[str]:
    """Turn the grid {how}, and return the new one."""
    if how == "a quarter clockwise":
        return ["".join(column) for column in zip(*grid[::-1], strict=True)]
    if how == "a quarter counter-clockwise":
        return ["".join(column) for column in zip(*grid, strict=True)][::-1]
    if how == "upside down, by half a turn":
        return [row[::-1] for row in grid[::-1]]
    if how == "over, so that left and right change places":
        return [row[::-1] for row in grid]
    return ["".join(column) for column in zip(*grid, strict=True)]


@family(
    each(
        near=("a side", "a side or a corner"),
        result=(
            "how many regions there are",
            "the size of the largest region",
            "how many regions have only one cell",
        ),
    ),
    lambda draws: (_grid(draws, "..#", 3, 7),),
    edges=((["."],), (["#.", ".#"],), (["###", "#.#", "###"],)),
)
def regions(grid: list[str], *, near: str, result: str) -> int:
    """Cells with '#' that share {near} belong to one region, and so do those that are joined by others. Return
    {result}.
    """
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
    reached, count, seen = {(0, 0)} if grid[0][0] != "#" else set(), 0, {(0, 0)}
    while reached:
        if goal in reached:
            return count
        count += 1
        around = {(down + d, right + r) for down, right in reached for d, r in steps} - seen
        reached = {(d, r) for d, r in around if 0 <= d < len(grid) and 0 <= r < len(grid[0]) and grid[d][r] != "#"}
        seen |= reached
    return -1
