"""Where NumPy's PCG64 keeps its state. Compiled lanes lay theirs out alike, so that one machine code serves both.

Six words of 64 bits: a pointer to the third, a kept half-draw and whether there is one, the state, the increment.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
WORDS = 6
STRIDE = 8 * WORDS  # bytes from one lane's words to the next's
_LOW = (1 << 64) - 1


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


@cache
def layout_is_known() -> bool:
    """Read NumPy's PCG64 state from memory and compare: where the layout differs, lanes stay in Python."""
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
