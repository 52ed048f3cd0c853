"""Draw integers in batches that equal single draws, bit for bit. Nobody else may hold the generator meanwhile.

``Generator.integers`` costs about a microsecond for one number and 20 ns per number for 64. A batch is the same stream
as single draws, but afterwards the generator stands too far ahead; `ReadAhead.settle` puts it back to where single
draws would have left it. So whoever is about to show the generator to others settles first.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

BATCH = 64


class ReadAhead:
    """Integers of ``[0, n)`` plus ``start``, drawn ahead from a generator that belongs to one space alone."""

    __slots__ = ("_generator", "_n", "_start", "_state", "_warm", "values")

    def __init__(self, generator: np.random.Generator, n: np.integer[Any], start: np.integer[Any]) -> None:
        self._generator, self._n, self._start = generator, n, start
        self._state: Any = None  # where the generator stood before the batch; None while nothing is drawn ahead
        self._warm = False
        self.values: Iterator[np.integer[Any]] = iter(())

    def refill(self) -> np.integer[Any]:
        """The next value when ``values`` has run out. The first one is a single draw: it may well be the only one."""
        draw, dtype = self._generator.integers, self._n.dtype.type
        if not self._warm:
            self._warm = True
            single: np.integer[Any] = self._start + draw(self._n, dtype=dtype)
            return single
        self._state = self._generator.bit_generator.state
        # A list's iterator tells how much is left of it, so that `sample` needs no counter.
        self.values = iter(list(self._start + draw(self._n, size=BATCH, dtype=dtype)))
        return next(self.values)

    def settle(self) -> None:
        """Put the generator to where single draws would have left it."""
        if self._state is not None:
            used = BATCH - operator.length_hint(self.values)
            self._generator.bit_generator.state = self._state
            self._generator.integers(self._n, size=used, dtype=self._n.dtype.type)
        self._state, self._warm, self.values = None, False, iter(())
