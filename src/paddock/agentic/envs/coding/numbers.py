"""Problems about whole numbers."""

from __future__ import annotations

from paddock.agentic.envs.coding.family import Arguments, Draws, Family, each

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _digit_sum(n: int, *, base: int) -> int:
    total = 0
    while n:
        n, digit = divmod(n, base)
        total += digit
    return total


def _in_base(n: int, *, base: int) -> str:
    text = ""
    while n:
        n, digit = divmod(n, base)
        text = _DIGITS[digit] + text
    return text or "0"


def _recurrence(n: int, *, a: int, b: int, modulus: int) -> int:
    one, two = 0, 1
    for _ in range(n):
        one, two = two, (a * two + b * one) % modulus
    return one


def _hailstone(n: int, steps: int, *, factor: int, addend: int) -> int:
    for _ in range(steps):
        n = n // 2 if n % 2 == 0 else factor * n + addend
    return n


def _primes_of_kind(n: int, *, modulus: int, rest: int) -> int:
    count = 0
    for number in range(2, n + 1):
        prime = all(number % divisor for divisor in range(2, int(number**0.5) + 1))
        count += prime and number % modulus == rest
    return count


def _last_in_circle(n: int, *, step: int) -> int:
    place = 0
    for size in range(2, n + 1):
        place = (place + step) % size
    return place + 1


def _fewest_coins(amount: int, *, coins: list[int]) -> int:
    fewest = [0] + [amount + 1] * amount
    for total in range(1, amount + 1):
        fewest[total] = min([fewest[total - coin] + 1 for coin in coins if coin <= total], default=amount + 1)
    return fewest[amount] if fewest[amount] <= amount else -1


def _divisor_powers(n: int, *, power: int, last: str) -> int:
    most = n if last == "n itself included" else n - 1
    return int(sum(divisor**power for divisor in range(1, most + 1) if n % divisor == 0))


def _one_number(draws: Draws) -> Arguments:
    return (draws.number(0, 10 ** draws.number(1, 12)),)


FAMILIES = (
    Family(
        "digit_sum",
        "n: int) -> int",
        "Return the sum of the digits of the non-negative integer n when it is written in base {base}.",
        each(base=range(2, 13)),
        _digit_sum,
        _one_number,
        edges=((0,), (1,), (2**40,)),
    ),
    Family(
        "in_base",
        "n: int) -> str",
        "Return the non-negative integer n written in base {base}, with the digits 0-9 and then the letters a-z, and "
        "no leading zeros (0 is '0').",
        each(base=(2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 16, 20, 36)),
        _in_base,
        _one_number,
        edges=((0,), (1,), (35,)),
    ),
    Family(
        "recurrence",
        "n: int) -> int",
        "A sequence begins x(0) = 0, x(1) = 1 and goes on with x(n) = ({a} * x(n-1) + {b} * x(n-2)) modulo {modulus}. "
        "Return x(n). n is at most 1000.",
        [
            {"a": a, "b": b, "modulus": m}
            for a, b, m in ((1, 1, 997), (2, 1, 1009), (3, 2, 541), (1, 5, 619), (4, 3, 883), (7, 1, 773), (2, 9, 661))
        ],
        _recurrence,
        lambda draws: (draws.number(2, 1000),),
        edges=((0,), (1,), (2,)),
    ),
    Family(
        "hailstone",
        "n: int, steps: int) -> int",
        "Start with the positive integer n and do this `steps` times: halve the number if it is even, otherwise "
        "multiply it by {factor} and add {addend}. Return the number at the end.",
        [
            {"factor": factor, "addend": addend}
            for factor, addend in ((3, 1), (3, 5), (5, 1), (5, 3), (7, 1), (3, 7), (9, 1), (7, 5))
        ],
        _hailstone,
        lambda draws: (draws.number(1, 10_000), draws.number(1, 12)),
        edges=((1, 0), (2, 1)),
    ),
    Family(
        "primes_of_kind",
        "n: int) -> int",
        "Return how many primes up to and including n leave the remainder {rest} when divided by {modulus}. n is at "
        "most 500.",
        [
            {"modulus": modulus, "rest": rest}
            for modulus, rest in ((4, 1), (4, 3), (6, 1), (6, 5), (3, 1), (3, 2), (8, 3), (8, 5), (10, 7), (10, 9))
        ],
        _primes_of_kind,
        lambda draws: (draws.number(20, 500),),
        edges=((0,), (1,), (2,), (13,)),
    ),
    Family(
        "last_in_circle",
        "n: int) -> int",
        "The people 1 to n sit in a circle. Beginning to count at person 1, every {step}th person leaves, and counting "
        "goes on with the next one, until one is left. Return the number of that person. n is at most 2000.",
        each(step=range(4, 14)),
        _last_in_circle,
        lambda draws: (draws.number(3, 2000),),
        edges=((1,), (2,)),
    ),
    Family(
        "fewest_coins",
        "amount: int) -> int",
        "There are coins of the values {coins}, as many of each as you like. Return the fewest coins that make up the "
        "amount exactly, or -1 if none do. The amount is at most 400.",
        each(coins=([1, 3, 4], [1, 7, 10], [2, 5], [3, 8, 20], [4, 9, 25], [5, 6, 16], [1, 12, 15, 40], [7, 11])),
        _fewest_coins,
        lambda draws: (draws.number(1, 400),),
        edges=((0,), (1,), (14,)),
    ),
    Family(
        "divisor_powers",
        "n: int) -> int",
        "Return the sum of the divisors of the positive integer n, {last}, each raised to the power {power}. n is at "
        "most 3000.",
        each(power=(0, 1, 2, 3), last=("n itself included", "n itself left out")),
        _divisor_powers,
        lambda draws: (draws.number(2, 3000),),
        edges=((1,), (2,), (36,)),
    ),
)
