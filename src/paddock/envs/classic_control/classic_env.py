"""ClassicControlEnv: what these environments share: bounds of the first state, and which states can be continued.

Reset options are checked here, in Python, once per reset; the kernels trust what they get.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidBound
from paddock.kernels import KernelEnv

Array = np.ndarray[Any, Any]
# Beyond it a square of a square overflows, which Python reports and compiled code does not.
LARGEST = 1e15


def continuable(state: Any, params: Any) -> bool:
    """Whether every number of a state from outside is finite and small enough to calculate with."""
    return all(abs(number) <= LARGEST for number in state)


def clip(value: float, low: float, high: float) -> float:
    """The value, or the bound that it exceeds. For kernels: it compiles."""
    if value < low:
        value = low
    return high if value > high else value


class ClassicControlEnv(KernelEnv):
    """A kernel whose first state is drawn between bounds that ``reset(options=...)`` may set for one episode.

    ``state`` is Gymnasium's: the first ``state_size`` numbers of the kernel's.
    """

    state_size: ClassVar[int]
    start_options: ClassVar[tuple[str, ...]] = ("low", "high")
    screen: Any = None
    clock: Any = None
    isopen = True

    @property
    def state(self) -> Array | None:
        """The numbers of the state, read-only; assign others to go on from there. None before the first reset."""
        state = self.kernel_state
        if state is None:
            return None
        # A copy that refuses writes: one into it would not reach the environment.
        array = np.array(state[: self.state_size], self._state_dtype(state))
        array.flags.writeable = False
        return array

    @state.setter
    def state(self, values: Any) -> None:
        self.kernel_state = self._state_of(values)

    def _state_dtype(self, state: Any) -> Any:
        return np.float64

    def _state_of(self, values: Any) -> Any:
        """The kernel's state for numbers that were assigned."""
        raise NotImplementedError

    def _start_params(self, options: Info | None) -> Any:
        chosen = {name: options[name] for name in self.start_options if name in options} if options else {}
        if not chosen:
            return self._params
        start = self.kernel.replace_params(self._params, chosen)
        for low, high in self._start_bounds(start):
            if not (low <= high and math.isfinite(high - low)):
                raise InvalidBound(f"reset options {chosen} give a range from {low} to {high}; expected low <= high.")
        return start

    def _start_bounds(self, start: Any) -> list[tuple[float, float]]:
        """The ranges that ``initial`` will draw from."""
        return [(start.low, start.high)]
