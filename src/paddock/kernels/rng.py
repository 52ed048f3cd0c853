"""The random numbers of a lane: a few draws over NumPy's Generator, and where its PCG64 keeps its state.

Compiled lanes draw the same bits from the same state, so a kernel may use nothing but the methods of LaneRng. They lay
the state out as NumPy does, six words of 64 bits: a pointer to the third, a kept half-draw and whether there is one,
the state, the increment. So one machine code serves lanes of a batch and a Generator that others draw from too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from paddock.errors import InvalidKernel

Array = np.ndarray[Any, Any]
T = TypeVar("T")

WORDS = 6
STRIDE = 8 * WORDS  # bytes from one lane's words to the next's
_LOW = (1 << 64) - 1


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


def words_of(generator: np.random.Generator, address: int) -> Array:
    """A generator's state as the six words that will lie at an address."""
    return np.array([address + 16, *_numbers(generator)], dtype=np.uint64)


def state_of(words: Array) -> dict[str, Any]:
    """The ``state`` of a PCG64 with these words."""
    _, halves, state_low, state_high, inc_low, inc_high = (int(word) for word in words)
    return {
        "bit_generator": "PCG64",
        "state": {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low},
        "has_uint32": halves & 0xFFFFFFFF,
        "uinteger": halves >> 32,
    }


def can_share_memory(generator: np.random.Generator) -> bool:
    """Whether compiled code can draw from this generator's own memory."""
    return type(generator.bit_generator) is np.random.PCG64 and _knows_layout()


@cache
def _knows_layout() -> bool:
    """Read NumPy's PCG64 state from memory and compare: where the layout differs, single lanes stay in Python."""
    import ctypes

    generator = np.random.Generator(np.random.PCG64(7))
    generator.integers(5)
    outer = (ctypes.c_uint64 * 2).from_address(generator.bit_generator.ctypes.state_address)
    inner = (ctypes.c_uint64 * 4).from_address(outer[0])
    return [outer[1], *inner] == _numbers(generator)


def _numbers(generator: np.random.Generator) -> list[int]:
    """All words but the pointer."""
    state = generator.bit_generator.state
    halves = int(state["uinteger"]) << 32 | int(state["has_uint32"])
    number, increment = state["state"]["state"], state["state"]["inc"]
    return [halves, number & _LOW, number >> 64, increment & _LOW, increment >> 64]
