"""Lanes: the arrays of n lanes and the loop over them, compiled or in Python, in one thread or several.

Nothing here knows Env or infos: arrays in, arrays out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any

import numpy as np

from paddock.errors import InvalidKernel
from paddock.kernels import driver, numba_installed
from paddock.kernels.compile import compiled_run, python_run
from paddock.kernels.kernel import Kernel
from paddock.kernels.layout import Layout
from paddock.kernels.rng import STRIDE, WORDS, LaneRng, state_of, words_of
from paddock.spaces import Box, Discrete, Space

Array = np.ndarray[Any, Any]
RNGS = driver.SCALARS.index("rngs")

_PARTS = 32  # of the lanes; a thread that is done with its own takes over those of a late one
_WEIGHT_OF_PAST = 0.9  # in the running mean of a step by one thread
_CREDIT, _OVERDRAFT = 8, 4  # in steps by one thread: what good steps may save up, and what bad ones may cost
_REST = 30  # steps of rest for each step's time that was lost


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
        space = kernel.spaces(params)[1] if action_space is None else action_space
        if isinstance(space, Discrete):
            low, high = np.array([space.start], np.int64), np.array([space.start + space.n - 1], np.int64)
        else:
            assert isinstance(space, Box)
            low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        self.columns["action_low"], self.columns["action_high"] = low, high
        self.columns["mask"][:] = True
        self._settings = {"op": driver.VALIDATE_AND_STEP, "lanes": count, "mode": mode, "limit": limit}
        self._settings |= {"strict": int(strict), "statistics": int(statistics)}
        self.generators: list[np.random.Generator | None] = [None] * count
        self._random = np.zeros((count, WORDS), np.uint64)
        self._states: list[Any] = [None] * count
        self._rngs: list[Any] = [None] * count
        self._python = None if self.compiled else python_run(kernel, self.layout)
        self._arrays: list[Any] = []  # arrays whose addresses are in the block
        # Made once and written in place: its address stays right for everyone who holds it.
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
        """Set the parameters of every lane; ``start``, unless None, are those of first states."""
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
        arrays = [*self._laned, self.columns["action_low"], self.columns["action_high"]]
        words = [*self._settings.values(), self._random.ctypes.data, *(array.ctypes.data for array in arrays)]
        for record in (self.params, self.start):
            for column, value in zip(self.layout.params, record, strict=True):
                array = np.ascontiguousarray(value, dtype=column.dtype)
                if np.ndim(value) != len(column.shape):
                    raise InvalidKernel(
                        f"params.{column.name} has {np.ndim(value)} axes, expected {len(column.shape)}."
                    )
                arrays.append(array)
                words += [array.ctypes.data, *(array.shape if column.shape else ())]
        self.run: Callable[[int], int] = compiled_run(self.kernel, self.layout)
        self.block[:] = words
        self._arrays = arrays  # after the block: until now it pointed into the arrays of before
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
        generator = self.generators[lane]
        assert generator is not None, "lanes are seeded before they begin"
        if self.compiled:
            generator.bit_generator.state = state_of(self._random[lane])
        return generator

    def step(self, address: int = 0) -> int:
        """Validate and step every lane; returns how many episodes ended, or a negative number as ``call`` does."""
        if self.compiled:
            return self.run(self.address)
        return self.call(driver.VALIDATE_AND_STEP)

    def call(self, op: int) -> int:
        """Run the loop. A negative result names a lane that was refused, and nothing has changed."""
        if self.compiled:
            try:
                self.block[0] = op
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
        block[RNGS] += first * STRIDE
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


class LaneThreads:
    """Step lanes with ``threads`` threads, this one included. They wait on queues, never spin.

    A helper that the system takes off its core in the middle of its part holds up the whole step. So what sharing costs
    or saves against one thread is booked step by step. When the account is overdrawn the helpers rest, thirty times as
    long as the time that was lost, and are then tried again. docs/benchmarks.md has what it costs and gains.

    Ctrl-C may come between any two lines of the stepping thread. So steps have numbers: a helper that gets one twice
    ignores the second, and waiting for a step that is over returns at once.
    """

    def __init__(self, lanes: Lanes, threads: int) -> None:
        self._lanes = lanes
        self._kernel: Kernel | None = None  # whose machine code `_run` is
        self.follow_kernel()
        self._parts_of = -1  # the version of the lanes' block that the parts were made from
        self._pid = os.getpid()
        self._work: list[SimpleQueue[int | None]] = [SimpleQueue() for _ in range(1, threads)]  # None: the end
        self._done: SimpleQueue[None] = SimpleQueue()
        self._number = 0  # of the newest shared step
        self._served = [0] * len(self._work)  # the newest step that each helper has finished
        self._counts = [0] * len(self._work)
        self._errors: list[BaseException] = []
        self._unfinished = False
        self._threads = [threading.Thread(target=self._serve, args=(at,), daemon=True) for at in range(len(self._work))]
        for thread in self._threads:
            thread.start()
        self._alone_ns = 0.0
        self._balance_ns = 0.0  # below zero: sharing has cost more than it saved
        self._resting = 4  # the first steps are taken alone, to know what sharing must beat

    def follow_kernel(self) -> None:
        """Compile for the kernel that the lanes have now: a step never waits for the compiler."""
        if self._kernel is not self._lanes.kernel:
            self._run, self._kernel = _shared_run(self._lanes.run), self._lanes.kernel

    def step(self, address: int = 0) -> int:
        """Step every lane; as ``Lanes.step``."""
        if os.getpid() != self._pid:  # a forked child has no helpers
            return self._lanes.step()
        self._end_interrupted()
        began = perf_counter_ns()
        if self._resting > 0:
            self._resting -= 1
            count = self._lanes.step()
            took_ns = perf_counter_ns() - began
            past = self._alone_ns or took_ns
            self._alone_ns = _WEIGHT_OF_PAST * past + (1.0 - _WEIGHT_OF_PAST) * took_ns
            return count
        refused = self._lanes.call(driver.VALIDATE)
        if refused < 0:
            return refused
        count = self._share()
        alone_ns = max(self._alone_ns, 1.0)
        self._balance_ns += alone_ns - (perf_counter_ns() - began)
        self._balance_ns = min(self._balance_ns, _CREDIT * alone_ns)
        if self._balance_ns < -_OVERDRAFT * alone_ns:
            self._resting = int(_REST * -self._balance_ns / alone_ns)
            self._balance_ns = 0.0
        return count

    def _share(self) -> int:
        lanes, threads = self._lanes, len(self._work) + 1
        if self._parts_of != lanes.version:  # params were set since
            # A block for each range of lanes, and for each thread the four words of `_shared_run`.
            bounds = [lanes.count * at // _PARTS for at in range(_PARTS + 1)]
            self._blocks = [lanes.block_of(first, last) for first, last in pairwise(bounds)]
            self._claimed = np.zeros(_PARTS, dtype=np.int64)
            self._block_list = np.array([block.ctypes.data for block in self._blocks], dtype=np.int64)
            shared = _PARTS, self._claimed.ctypes.data, self._block_list.ctypes.data
            self._words = np.array([(_PARTS * at // threads, *shared) for at in range(threads)], dtype=np.int64)
            self._addresses = [int(words.ctypes.data) for words in self._words]
            self._parts_of = lanes.version
        self._claimed[:] = 0
        self._errors.clear()
        self._unfinished = True
        self._number += 1
        try:
            count = self._run_with_helpers()
        except BaseException:  # Ctrl-C: the step is taken whole, so that no lane is a step ahead of another
            self._run_with_helpers()
            raise
        if self._errors:
            raise self._errors[0]
        return count

    def _run_with_helpers(self) -> int:
        for work in self._work:
            work.put(self._number)
        count = self._run(self._addresses[0])
        while min(self._served) < self._number:
            self._done.get()
        while not self._done.empty():  # of helpers that nobody had to wait for
            self._done.get()
        self._unfinished = False
        return count + sum(self._counts)

    def _end_interrupted(self) -> None:
        """Drop the rest of a step that was interrupted twice: its actions may be overwritten by now."""
        if self._unfinished:
            self._claimed[:] = 1
            self._run_with_helpers()

    def _serve(self, at: int) -> None:
        while (number := self._work[at].get()) is not None:
            if number > self._served[at]:
                try:
                    self._counts[at] = self._run(self._addresses[at + 1])
                except BaseException as error:  # the author's, with bounds checks: it belongs to the stepping thread
                    self._errors.append(error)
                self._served[at] = number
                self._done.put(None)

    def close(self) -> None:
        """End the helper threads."""
        if os.getpid() == self._pid:
            self._end_interrupted()
            for work in self._work:
                work.put(None)
            for thread in self._threads:
                thread.join()


def _shared_run(run: Callable[[int], int]) -> Callable[[int], int]:
    """``run`` for one of several threads that share lanes, without the interpreter's lock.

    The address is of four words: the part to begin with, the number of parts, and where a flag and the address of the
    block of each part are. Beginning at a place of its own, a thread finds its lanes in its own cache, step after step.
    """
    import numba

    from paddock.kernels.machine import claim, pointer

    def run_parts(address):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Numba stumbles over annotations
        words = numba.carray(pointer(address), (4,), np.int64)
        home, parts, flags = words[0], words[1], words[2]
        blocks = numba.carray(pointer(words[3]), (parts,), np.int64)
        count = 0
        for offset in range(parts):
            part = (home + offset) % parts
            if claim(flags + 8 * part) == 0:
                count += run(blocks[part])
        return count

    return numba.njit(numba.int64(numba.int64), nogil=True)(run_parts)  # type: ignore[no-any-return]
