"""ClassicControlEnv: what these environments share: bounds of the first state, and which states can be continued.

Options are checked here, in Python, once a reset; the kernels trust what they are given.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidBound
from paddock.kernels import KernelEnv

# Beyond it a square of a square overflows, which Python reports and compiled code does not.
LARGEST = 1e15

Array = np.ndarray[Any, Any]


def continuable(state: Any, params: Any) -> bool:
    """Whether every number of a state from outside is finite and small enough to calculate with."""
    return all(abs(number) <= LARGEST for number in state)


def clip(value: float, low: float, high: float) -> float:
    """The value, or the bound that it passed. For kernels: it compiles."""
    if value < low:
        value = low
    return high if value > high else value


class ClassicControlEnv(KernelEnv):
    """A kernel whose first state is drawn between bounds that ``reset(options=...)`` may set for one episode."""

    start_options: ClassVar[tuple[str, ...]] = ("low", "high")
    screen: Any = None
    clock: Any = None
    isopen = True

    def _start_params(self, options: Info | None) -> Any:
        chosen = {name: options[name] for name in self.start_options if name in options} if options else {}
        if not chosen:
            return self._params
        start = self.kernel.replaced(self._params, chosen)
        for low, high in self._start_bounds(start):
            if not (low <= high and math.isfinite(high - low)):
                raise InvalidBound(f"reset options {chosen} give a range from {low} to {high}; expected low <= high.")
        return start

    def _start_bounds(self, start: Any) -> list[tuple[float, float]]:
        """The ranges that ``initial`` will draw from."""
        return [(start.low, start.high)]


def frozen(values: Any, dtype: Any = np.float64) -> Array:
    """Values as an array that refuses writes: a write into this copy would not reach the environment."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array
