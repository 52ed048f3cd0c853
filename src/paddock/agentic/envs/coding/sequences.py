"""Problems about lists of numbers."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from paddock.agentic.envs.coding.family import Arguments, Draws, Family, each, whole_numbers


def _windows(numbers: list[int], *, width: int, what: str) -> list[int]:
    found = []
    for at in range(len(numbers) - width + 1):
        part = numbers[at : at + width]
        found.append({"largest": max(part), "smallest": min(part), "sum": sum(part)}[what])
    return found


def _merged(intervals: list[list[int]], *, gap: int) -> list[list[int]]:
    found: list[list[int]] = []
    for low, high in sorted(intervals):
        if found and low - found[-1][1] <= gap:
            found[-1][1] = max(found[-1][1], high)
        else:
            found.append([low, high])
    return found


def _longest_stretch(numbers: list[int], *, relation: str) -> int:
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


def _pairs_apart(numbers: list[int], *, difference: int) -> int:
    return sum(
        abs(numbers[i] - numbers[j]) == difference for i in range(len(numbers)) for j in range(i + 1, len(numbers))
    )


def _with_bits(numbers: list[int], *, bits: int, what: str) -> int:
    chosen = [number for number in numbers if bin(number).count("1") == bits]
    return len(chosen) if what == "how many" else sum(chosen)


def _finishing_order(durations: list[int], *, quantum: int) -> list[int]:
    waiting = deque(enumerate(durations))
    done = []
    while waiting:
        job, left = waiting.popleft()
        if left <= quantum:
            done.append(job)
        else:
            waiting.append((job, left - quantum))
    return done


def _calculated(tokens: list[str], *, modulus: int) -> int:
    stack: list[int] = []
    for word in tokens:
        if word.isdigit():
            stack.append(int(word) % modulus)
            continue
        two, one = stack.pop(), stack.pop()
        stack.append({"+": one + two, "-": one - two, "*": one * two}[word] % modulus)
    return stack[0]


def _moved(numbers: list[int], *, places: int, direction: str) -> list[int]:
    if not numbers:
        return []
    cut = places % len(numbers)
    cut = cut if direction == "left" else len(numbers) - cut
    return numbers[cut:] + numbers[:cut]


def _list(draws: Draws) -> Arguments:
    return (whole_numbers(draws, -9, 9, draws.number(6, 20)),)


def _intervals(draws: Draws) -> Arguments:
    starts = whole_numbers(draws, 0, 60, draws.number(2, 8))
    return ([[start, start + draws.number(0, 9)] for start in starts],)


def _tokens(draws: Draws) -> Arguments:
    tokens: list[str] = [str(draws.number(0, 99))]
    for _ in range(draws.number(1, 6)):
        tokens += [str(draws.number(0, 99)), draws.one_of("+-*")]
    if draws.number(0, 1):  # not only one after the other
        tokens = [*tokens, *tokens[: draws.one_of((1, 3))], "-"]
    return (tokens,)


FAMILIES = (
    Family(
        "windows",
        "numbers: list[int]) -> list[int]",
        "For each {width} numbers that follow each other in the list, take their {what}. Return the list of these, "
        "which is empty if there are fewer than {width} numbers.",
        each(width=(2, 3, 4, 5), what=("largest", "smallest", "sum")),
        _windows,
        _list,
        edges=(([],), ([3],), ([5, 5, 5, 5, 5],)),
    ),
    Family(
        "merged",
        "intervals: list[list[int]]) -> list[list[int]]",
        "Each interval is [low, high], both ends included. Two are joined into one if they overlap, or if the next "
        "one's low is at most {gap} more than the other's high. Return what is left, sorted.",
        each(gap=(0, 1, 2, 3, 5, 8)),
        _merged,
        _intervals,
        edges=(([],), ([[1, 9], [2, 3]],), ([[4, 4], [0, 1]],)),
    ),
    Family(
        "longest_stretch",
        "numbers: list[int]) -> int",
        "Return the length of the longest stretch of the list in which each number {relation} the one before it. A "
        "single number is a stretch of length 1; an empty list has 0.",
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
        _longest_stretch,
        _list,
        edges=(([],), ([4],), ([2, 2, 2],), ([-1, 0, -1, 0],)),
    ),
    Family(
        "pairs_apart",
        "numbers: list[int]) -> int",
        "Return in how many ways two places of the list can be chosen whose numbers differ by exactly {difference}. "
        "The order of the two places does not count.",
        each(difference=range(8)),
        _pairs_apart,
        _list,
        edges=(([],), ([7],), ([1, 1, 1, 2, 3],)),
    ),
    Family(
        "with_bits",
        "numbers: list[int]) -> int",
        "Look at the numbers of the list that have exactly {bits} ones in their binary form. Return {what} (0 if there "
        "are none).",
        each(bits=(1, 2, 3, 4, 5), what=("how many", "their sum")),
        _with_bits,
        lambda draws: (whole_numbers(draws, 0, 255, draws.number(6, 24)),),
        edges=(([],), ([0, 1, 2, 3, 7, 15, 31, 255],)),
    ),
    Family(
        "finishing_order",
        "durations: list[int]) -> list[int]",
        "Jobs 0, 1, 2, … wait in a queue; durations says how long each takes. The first job in the queue runs for "
        "{quantum} units of time or until it is finished, and if it is not, it goes to the end of the queue. Return "
        "the jobs in the order in which they finish.",
        each(quantum=(1, 2, 3, 4, 5, 7)),
        _finishing_order,
        lambda draws: (whole_numbers(draws, 1, 20, draws.number(3, 9)),),
        edges=(([],), ([5],), ([3, 3, 3],)),
    ),
    Family(
        "calculated",
        "tokens: list[str]) -> int",
        "The tokens are an expression in postfix form: numbers, and the operators +, - and *, each of which takes the "
        "two values before it. Everything is calculated modulo {modulus}, with results from 0 to {modulus} - 1. Return "
        "the value.",
        each(modulus=(7, 11, 64, 97, 100, 1009)),
        _calculated,
        _tokens,
        edges=((["5"],), (["1", "2", "-"],), (["9", "9", "*", "3", "-"],)),
    ),
    Family(
        "moved",
        "numbers: list[int]) -> list[int]",
        "Move every number of the list {places} places to the {direction}; those that fall off one end come in at the "
        "other. Return the new list.",
        each(places=(1, 2, 3, 7, 25), direction=("left", "right")),
        _moved,
        _list,
        edges=(([],), ([1],), ([1, 2],)),
    ),
)
