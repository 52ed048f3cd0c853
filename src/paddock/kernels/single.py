"""CompiledLane: one lane whose step is a call with one address, drawing from NumPy's own generator memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidAction
from paddock.kernels import driver
from paddock.kernels.kernel import Kernel
from paddock.kernels.lanes import Lanes
from paddock.kernels.layout import Layout
from paddock.kernels.pcg64 import layout_is_known
from paddock.spaces import Box, Discrete, Space

_RNGS = driver.SCALARS.index("rngs")


class CompiledLane:
    """One lane. ``step(action)`` and ``begin()`` are made anew for each block of addresses; see ``_quick``."""

    step: Callable[[Any], tuple[Any, float, bool, bool, Info]]
    begin: Callable[[], tuple[Any, Info]]

    def __init__(
        self,
        kernel: Kernel,
        params: Any,
        generator: np.random.Generator,
        *,
        layout: Layout,
        spaces: tuple[Space[Any], Space[Any]],
    ) -> None:
        self._observation_space, self._action_space = spaces
        self._lanes = Lanes(
            kernel, params, 1, mode=driver.FREE, strict=False, layout=layout, action_space=self._action_space
        )
        self._generator = generator
        self._bind()

    def use(self, generator: np.random.Generator) -> bool:
        """Draw from this generator from now on, if its memory can be shared."""
        if not can_share_memory(generator):
            return False
        self._generator = generator  # keeps the memory alive
        for block in (self._lanes.block, self._reset_block):
            block[_RNGS] = generator.bit_generator.ctypes.state_address
        return True

    def begin_with(self, params: Any, start: Any) -> tuple[Any, Info]:
        """Begin an episode with ``start`` as the params of its first state."""
        self.set_params(params, start)
        try:
            return self.begin()
        finally:
            self.set_params(params)

    def set_params(self, params: Any, start: Any = None) -> None:
        """Other params; ``start``, if given, for the states that ``begin`` draws."""
        self._lanes.set_params(params, start)
        self._bind()

    def get_state(self) -> Any:
        """The state as the author's NamedTuple."""
        return self._lanes.get_state(0)

    def set_state(self, state: Any) -> None:
        """Go on from a state that the kernel accepts."""
        self._lanes.set_state(0, state)

    def _bind(self) -> None:
        self._reset_block = self._lanes.block.copy()
        self._reset_block[0] = driver.RESET
        self.use(self._generator)
        self.step, self.begin = self._quick()

    def _quick(self) -> tuple[Any, Any]:
        """The two calls with all that they touch in local variables, read through memoryviews: 600 ns a step."""
        columns: dict[str, Any] = self._lanes.columns
        run, address, reset_address = self._lanes.run, self._lanes.address, self._reset_block.ctypes.data
        take = self._action_taker(columns["action"])
        seen, told = self._observer(columns), self._teller(columns)
        reward: Any = memoryview(columns["reward"])
        terminated: Any = memoryview(columns["terminated"])

        def step(action: Any) -> tuple[Any, float, bool, bool, Info]:
            take(0, action)
            if run(address) < 0:
                self._refuse(action)
            return seen(), reward[0], terminated[0], False, told() if told is not None else {}

        def begin() -> tuple[Any, Info]:
            run(reset_address)
            return seen(), told() if told is not None else {}

        return step, begin

    def _action_taker(self, column: Any) -> Callable[[int, Any], None]:
        # Bound methods of C types: `view[0] = action` as one call, without a Python frame.
        if isinstance(self._action_space, Discrete):
            return memoryview(column).__setitem__
        return column.__setitem__  # type: ignore[no-any-return]

    def _observer(self, columns: dict[str, Any]) -> Callable[[], Any]:
        parts = [columns[f"obs_{at}"] for at in range(len(self._lanes.layout.observation))]
        if isinstance(self._observation_space, Box):
            return parts[0][0].copy  # type: ignore[no-any-return]
        if len(parts) == 1:
            return partial(memoryview(parts[0]).__getitem__, 0)
        numbers = [partial(memoryview(part).__getitem__, 0) for part in parts]
        return lambda: tuple([number() for number in numbers])

    def _teller(self, columns: dict[str, Any]) -> Callable[[], Info] | None:
        informing = self._lanes.layout.info
        if not informing:
            return None
        rows = [(c.name, columns[f"info_{c.name}"], c.shape) for c in informing]
        looks = [(name, row[0].copy if shape else partial(memoryview(row).__getitem__, 0)) for name, row, shape in rows]
        if len(looks) == 1:
            name, look = looks[0]
            return lambda: {name: look()}
        return lambda: {name: look() for name, look in looks}

    def _refuse(self, action: Any) -> None:
        raise InvalidAction(
            f"action {action!r} is outside {self._action_space}.", action=action, space=self._action_space
        )


def can_share_memory(generator: np.random.Generator) -> bool:
    """Whether compiled code can draw from this generator's own memory."""
    return type(generator.bit_generator) is np.random.PCG64 and layout_is_known()
