"""Compare what came out of a workspace with what was expected. It came from a stranger: bounded, plain, or wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from paddock.agentic.envs.coding.inside import ANSWER

MOST_BYTES = 10_000  # of one answer, as JSON
_MOST_DIGITS = 1_000


def passed(lines: Sequence[bytes], expected: Sequence[Any]) -> list[bool]:
    """Whether each answer is what was expected; one that did not come is wrong."""
    answers = [*lines, *[b""] * (len(expected) - len(lines))]
    return [_is(line, wanted) for line, wanted in zip(answers, expected, strict=False)]


def _is(line: bytes, wanted: Any) -> bool:
    if not line.startswith(ANSWER) or len(line) > MOST_BYTES:
        return False
    try:
        answer = json.loads(line[1:], parse_int=_integer, parse_constant=_refuse)
        return same(answer, wanted)
    except (ValueError, OverflowError, RecursionError):
        return False


def same(answer: Any, wanted: Any) -> bool:
    """Of the same types throughout, and equal; a number for a float, nearly so. Both are plain data."""
    if type(wanted) is float:
        return type(answer) in (int, float) and math.isclose(answer, wanted, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(wanted, (list, tuple)):
        return type(answer) is list and len(answer) == len(wanted) and all(map(same, answer, wanted))
    if type(wanted) is dict:
        alike = type(answer) is dict and answer.keys() == wanted.keys()
        return alike and all(same(answer[key], item) for key, item in wanted.items())
    return type(answer) is type(wanted) and bool(answer == wanted)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:  # reading it could take long
        raise ValueError("more digits than any answer has")
    return int(digits)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no answer")
