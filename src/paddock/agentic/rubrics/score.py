"""What a score may be: a finite number. True and False are 1 and 0; None, text, NaN and infinity are no scores."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from paddock.core.problem import kind


class NoScore(ValueError):
    """A value that is no score. The text may be told to anyone, so it has the value only if that is a number."""


def finite(given: Any) -> float:
    """``given`` as a float, scalars of array libraries too. NoScore if it is no finite number."""
    if type(given) is float and math.isfinite(given):  # nearly always
        return given
    value = given
    if not isinstance(value, Real) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, Real):
        raise NoScore(f"its score is {kind(given)}; expected a finite number")
    try:
        score = float(value)
    except OverflowError:
        score = math.inf
    if not math.isfinite(score):
        raise NoScore(f"its score is {score}; expected a finite number")
    return score
