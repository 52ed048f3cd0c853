"""Lanes: the arrays of n lanes and the loop over them, compiled or in Python. It knows no Env and no infos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.errors import InvalidKernel
from paddock.kernels import driver
from paddock.kernels.compile import compiled_run, python_run
from paddock.kernels.installed import numba_installed
from paddock.kernels.kernel import Kernel
from paddock.kernels.layout import Layout
from paddock.kernels.pcg64 import STRIDE, WORDS, state_of, words_of
from paddock.kernels.rng import LaneRng
from paddock.spaces import Box, Discrete, Space

Array = np.ndarray[Any, Any]
_RNGS = driver.SCALARS.index("rngs")


class Lanes:
    """n lanes of a kernel. ``call(op)`` runs the loop; arrays are attributes of ``columns`` and never move."""

    def __init__(
        self,
        kernel: Kernel,
        params: Any,
        count: int,
        *,
        mode: int,
        limit: int = 0,
        strict: bool = True,
        statistics: bool = False,
        layout: Layout | None = None,
        action_space: Space[Any] | None = None,
    ) -> None:
        self.kernel, self.count = kernel, count
        self.layout = kernel.layout(params) if layout is None else layout
        self.compiled = numba_installed()
        self.columns: dict[str, Array] = {name: np.zeros(count, dtype) for name, dtype in driver.COUNTERS}
        for name, column in driver.columns(self.layout):
            self.columns[name] = column.empty(count)
        if action_space is None:
            _, action_space = kernel.spaces(params)
        self.columns["action_low"], self.columns["action_high"] = _action_bounds(action_space)
        self.columns["mask"][:] = True
        self._settings = {"op": driver.VALIDATE_AND_STEP, "lanes": count, "mode": mode, "limit": limit}
        self._settings |= {"strict": int(strict), "statistics": int(statistics)}
        self.generators: list[np.random.Generator | None] = [None] * count
        self._random = np.zeros((count, WORDS), np.uint64)
        self._states: list[Any] = [None] * count
        self._rngs: list[Any] = [None] * count
        self._python = None if self.compiled else python_run(kernel, self.layout)
        self._kept: list[Any] = []  # arrays whose addresses are in the block
        # Made once and written in place: whoever holds its address, holds the right one.
        self.block = np.zeros(driver.block_size(self.layout), dtype=np.int64)
        self.address = self.block.ctypes.data
        self.version = 0  # of the block's words
        self.set_params(params)

    def begin(self, start: Any) -> None:
        """Begin an episode in the lanes of the mask, with ``start`` as the params of their first states alone."""
        params = self.params
        if start is params:
            self.call(driver.RESET)
            return
        self.set_params(params, start)
        try:
            self.call(driver.RESET)
        finally:
            self.set_params(params)

    def set_params(self, params: Any, start: Any = None) -> None:
        """Parameters of every lane from now on; ``start``, if given, are those of first states."""
        self.params, self.start = params, params if start is None else start
        if self.compiled:
            self._fill_block()

    def use_kernel(self, kernel: Kernel) -> None:
        """Other dynamics over the same state and params."""
        self.kernel = kernel
        self._python = None if self.compiled else python_run(kernel, self.layout)
        self.set_params(self.params)

    def _fill_block(self) -> None:
        self._laned = [self.columns[name] for name, _ in driver.COUNTERS]
        self._laned += [self.columns[name] for name, _ in driver.columns(self.layout)]
        kept = [*self._laned, self.columns["action_low"], self.columns["action_high"]]
        words = [*self._settings.values(), self._random.ctypes.data, *(array.ctypes.data for array in kept)]
        for record in (self.params, self.start):
            for column, value in zip(self.layout.params, record, strict=True):
                array = np.ascontiguousarray(value, dtype=column.dtype)
                if np.ndim(value) != len(column.shape):
                    raise InvalidKernel(
                        f"params.{column.name} has {np.ndim(value)} axes, expected {len(column.shape)}."
                    )
                kept.append(array)
                words += [array.ctypes.data, *(array.shape if column.shape else ())]
        self.run: Callable[[int], int] = compiled_run(self.kernel, self.layout)
        self.block[:] = words
        self._kept = kept  # after the block: until now it pointed at what was kept before
        self.version += 1

    def use_generator(self, lane: int, generator: np.random.Generator) -> None:
        """Seed a lane: it draws what this generator would draw."""
        self.generators[lane] = generator
        if self.compiled:
            self._random[lane] = words_of(generator, self._random[lane].ctypes.data)
        else:
            self._rngs[lane] = LaneRng(generator)

    def generator(self, lane: int) -> np.random.Generator:
        """A lane's random stream as it is now. In compiled lanes it is a copy: the words are the truth."""
        held = self.generators[lane]
        assert held is not None, "lanes are seeded before they begin"
        if self.compiled:
            held.bit_generator.state = state_of(self._random[lane])
        return held

    def step(self, address: int = 0) -> int:
        """Validate and step every lane: how many episodes ended, or negative, as ``call``."""
        if self.compiled:
            return self.run(self.address)
        return self.call(driver.VALIDATE_AND_STEP)

    def call(self, op: int) -> int:
        """Run the loop; negative: a lane that was refused, and nothing changed."""
        if self.compiled:
            self.block[0] = op
            try:
                return self.run(self.address)
            finally:
                self.block[0] = driver.VALIDATE_AND_STEP  # what step() expects
        settings = {**self._settings, "op": op}
        arrays = [self._flat(name) for name, _ in driver.COUNTERS]
        arrays += [self._flat(name) for name, _ in driver.columns(self.layout) if not name.startswith("state_")]
        bounds = self.columns["action_low"], self.columns["action_high"]
        assert self._python is not None
        return self._python(*settings.values(), self._rngs, *arrays, *bounds, self.params, self.start, self._states)

    def block_of(self, first: int, last: int) -> Array:
        """A block like the lanes' own for a range of them: the same arrays from lane ``first`` on."""
        block: Array = self.block.copy()
        block[:2] = driver.STEP, last - first
        block[_RNGS] += first * STRIDE
        slot = len(driver.SCALARS)
        for array in self._laned:
            block[slot] += first * array.strides[0]
            slot += 1
        return block

    def _flat(self, name: str) -> Array:
        array = self.columns[name]
        flat: Array = array.reshape(self.count, -1) if array.ndim > 2 else array
        return flat

    def get_state(self, lane: int) -> Any:
        """A lane's state as the author's NamedTuple."""
        if not self.compiled:
            return self._states[lane]
        values = (self.columns[f"state_{c.name}"][lane] for c in self.layout.state)
        return self.kernel.state_type(*(value.copy() if value.ndim else value.item() for value in values))

    def set_state(self, lane: int, state: Any) -> None:
        """Continue a lane from a state, which the kernel must accept."""
        self.kernel.check_state(state, self.params)
        self._states[lane] = state
        for column, value in zip(self.layout.state, state, strict=True):
            self.columns[f"state_{column.name}"][lane] = value


def _action_bounds(space: Space[Any]) -> tuple[Array, Array]:
    if isinstance(space, Discrete):
        low = int(space.start)
        return np.array([low], np.int64), np.array([low + int(space.n) - 1], np.int64)
    assert isinstance(space, Box)
    return space.low.astype(np.float64), space.high.astype(np.float64)
