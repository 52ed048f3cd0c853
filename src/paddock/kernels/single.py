"""CompiledLane: one lane whose step is a call with one address, drawing from NumPy's own generator memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidAction
from paddock.kernels import driver
from paddock.kernels.kernel import Kernel
from paddock.kernels.lanes import Lanes
from paddock.spaces import Box, Discrete

_RNGS = driver.SCALARS.index("rngs")


class CompiledLane:
    """One lane. Results are read through memoryviews: an element of an array costs twice as much."""

    def __init__(self, kernel: Kernel, params: Any, generator: np.random.Generator) -> None:
        self._lanes = Lanes(kernel, params, 1, mode=driver.FREE, strict=False)
        self._space, self._action_space = kernel.spaces(params)
        columns: dict[str, Any] = self._lanes.columns
        observations = [columns[f"obs_{at}"] for at in range(len(self._lanes.layout.observation))]
        self._array = observations[0][0] if isinstance(self._space, Box) else None
        self._numbers = [memoryview(array) for array in observations] if self._array is None else []
        self._reward: Any = memoryview(columns["reward"])
        self._terminated: Any = memoryview(columns["terminated"])
        self._discrete = isinstance(self._action_space, Discrete)
        self._action: Any = memoryview(columns["action"]) if self._discrete else columns["action"][0]
        self._informs = bool(self._lanes.layout.info)
        self._bind()
        self.use(generator)

    def _bind(self) -> None:
        self._run, self._address = self._lanes.run, self._lanes.address

    def use(self, generator: np.random.Generator) -> bool:
        """Draw from this generator from now on, if its memory can be shared."""
        if not can_share_memory(generator):
            return False
        self._generator = generator  # keeps the memory alive
        self._lanes.block[_RNGS] = generator.bit_generator.ctypes.state_address
        return True

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        if self._discrete:
            self._action[0] = action
        else:
            self._action[:] = action
        if self._run(self._address) < 0:
            raise InvalidAction(
                f"action {action!r} is outside {self._action_space}.", action=action, space=self._action_space
            )
        array = self._array
        return (
            array.copy() if array is not None else self._seen(),
            self._reward[0],
            self._terminated[0],
            False,
            self._told() if self._informs else {},
        )

    def begin(self, params: Any, start: Any) -> tuple[Any, Info]:
        """Begin an episode with ``start`` as the params of its first state."""
        if start is not self._lanes.start or params is not self._lanes.params:
            self.set_params(params, start)
        self._lanes.call(driver.RESET)
        if start is not params:
            self.set_params(params)
        return (self._seen() if self._array is None else self._array.copy()), self._told()

    def set_params(self, params: Any, start: Any = None) -> None:
        self._lanes.set_params(params, params if start is None else start)
        self._bind()
        self.use(self._generator)

    def get_state(self) -> Any:
        return self._lanes.get_state(0)

    def set_state(self, state: Any) -> None:
        self._lanes.set_state(0, state)

    def _seen(self) -> Any:
        numbers = self._numbers
        return numbers[0][0] if len(numbers) == 1 else tuple(part[0] for part in numbers)

    def _told(self) -> Info:
        columns = self._lanes.columns
        return {
            c.name: columns[f"info_{c.name}"][0].copy() if c.shape else columns[f"info_{c.name}"][0].item()
            for c in self._lanes.layout.info
        }


def can_share_memory(generator: np.random.Generator) -> bool:
    """Whether compiled code can draw from this generator's own memory."""
    return type(generator.bit_generator) is np.random.PCG64 and _layout_is_known()


@cache
def _layout_is_known() -> bool:
    """Read NumPy's PCG64 state from memory and compare: where the layout differs, lanes stay in Python."""
    import ctypes

    generator = np.random.Generator(np.random.PCG64(7))
    generator.integers(5)
    state = generator.bit_generator.state
    words = (ctypes.c_uint64 * 2).from_address(generator.bit_generator.ctypes.state_address)
    inner = (ctypes.c_uint64 * 4).from_address(words[0])
    numbers, low = state["state"], (1 << 64) - 1
    expected = [numbers["state"] & low, numbers["state"] >> 64, numbers["inc"] & low, numbers["inc"] >> 64]
    return list(inner) == expected and words[1] == (state["uinteger"] << 32 | state["has_uint32"])
