"""The random numbers of one lane, as a kernel sees them: a few draws over NumPy's Generator.

The compiled form draws the same bits from the same state, so a kernel may use nothing but these methods.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from paddock.errors import InvalidKernel

T = TypeVar("T")


class LaneRng:
    """Draws from ``generator``. ``random()`` is a float in [0, 1)."""

    __slots__ = ("generator", "random")

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.random = generator.random  # bound once: a method of ours around it would double its cost

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"rng has no {name}(). It offers random(), uniform(), integers() and choice().")

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        return low + (high - low) * self.random()

    def integers(self, low: int, high: int) -> int:
        """An integer in [low, high); ``high - low`` at most 2**32."""
        return int(self.generator.integers(low, high))

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        try:
            count = len(options)
        except TypeError:
            caller = sys._getframe(1)
            raise InvalidKernel(
                f"{caller.f_code.co_filename}:{caller.f_lineno}: rng.choice({options!r}): expected a tuple or an array "
                f"to choose from. A number from 0 to n - 1 is rng.integers(0, n)."
            ) from None
        return options[int(self.generator.integers(0, count))]
