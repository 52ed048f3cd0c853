"""KernelEnv: one lane of a kernel as an Env. It runs as machine code if that is at hand when it is made.

Otherwise it stays plain Python until ``compile`` is called: no step ever waits for a compiler. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.problem import warn_user
from paddock.core.window import Window, load_pygame
from paddock.errors import InvalidAction, ResetNeeded, UnsupportedMode
from paddock.kernels import driver, numba_installed
from paddock.kernels.compile import compiled_run, load_if_cached
from paddock.kernels.kernel import Kernel
from paddock.kernels.lanes import RNGS, Lanes
from paddock.kernels.layout import Layout
from paddock.kernels.rng import LaneRng, can_share_memory
from paddock.kernels.snapshot import decode_lane, encode_lane
from paddock.spaces import Box, Discrete, Space

Frame = np.ndarray[Any, np.dtype[np.uint8]]


class KernelEnv(Env[Any, Any]):
    """An environment whose dynamics are ``kernel``. Constructor arguments are the kernel's params.

    Each param is an attribute, readable and writable; ``kernel_state`` is the state as the author's NamedTuple. Both
    take effect on the next step.
    """

    kernel: Kernel

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kernel" in cls.__dict__:
            for name in cls.kernel.params._fields:
                if not hasattr(cls, name):
                    setattr(cls, name, _param(name))

    def __init__(self, render_mode: str | None = None, **arguments: Any) -> None:
        self.render_mode = render_mode
        self._params = self.kernel.with_arguments(arguments)
        self.observation_space, self.action_space = self.kernel.spaces(self._params)
        self._layout = self.kernel.layout(self._params, (self.observation_space, self.action_space))
        self._discrete = not self._layout.action.shape
        space = self.action_space
        self._range = range(int(space.start), int(space.start + space.n)) if isinstance(space, Discrete) else None
        self._to_observation = observation_maker(self.observation_space)
        self._state: Any = None
        self._rng: LaneRng | None = None
        self._lane: CompiledLane | None = None
        self._window: Window | None = None
        self._checked = False  # whether its steps return what the kernel declares
        self._find_code()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        lane = self._lane
        if lane is not None:
            return lane.step(action)
        state = self._state
        if state is None:
            raise ResetNeeded("Call reset before using step method.")
        kernel, params = self.kernel, self._params
        if not self._discrete:
            action = np.asarray(action, self.action_space.dtype).tolist()
        else:
            if type(action) is not int and hasattr(action, "item"):
                action = action.item()  # NumPy's would make the flags NumPy's
            if self._range is not None and action not in self._range:
                raise InvalidAction(f"action {action!r} is outside {self.action_space}.", action=action)
        state, reward, terminated = kernel.python_step(state, action, self._rng, params)
        self._state = state
        if self.render_mode == "human":
            self.render()
        info = {} if kernel.info is None else self._info_of(state)
        return self._to_observation(kernel.observe(state, params)), reward, terminated, False, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self._lane is not None and seed is None and not options:
            return self._lane.begin()
        if seed is not None or self._rng is None:
            super().reset(seed=seed)
            self._follow_generator()
        if not self._checked:
            self.kernel.check_steps(self._layout, self._params, self.action_space)
            self._checked = True
        self._switch_to_compiled()
        start = self._start_params(options) if options else self._params
        if self._lane is not None:
            result = self._lane.begin() if start is self._params else self._lane.begin_with(self._params, start)
        else:
            state = self._state = self.kernel.initial(self._rng, start)
            result = self._to_observation(self.kernel.observe(state, self._params)), self._info_of(state)
            if "step" not in self.__dict__ and self._has_quick_step():
                self.step = quick_step(self)  # type: ignore[assignment,method-assign]
        if self.render_mode == "human":
            self._leave_compiled()
            self.render()
        return result

    def render(self) -> Any:
        """A new array uint8[height, width, 3], text, or None and a window, as ``render_mode`` says."""
        mode = self.render_mode
        if mode is None:
            name = type(self).__name__ if self.spec is None else self.spec.id
            warn_user(
                "You are calling render method without specifying any render mode. You can specify the render_mode at "
                f'initialization, e.g. paddock.make("{name}", render_mode="rgb_array")'
            )
            return None
        if mode not in self.metadata.get("render_modes", ()):
            raise UnsupportedMode(
                f"render_mode={mode!r}: {type(self).__name__} has {self.metadata.get('render_modes', [])}. An author "
                f"adds a mode by listing it in metadata['render_modes'] and writing paint(), or describe() for 'ansi'."
            )
        if self.kernel_state is None:
            raise ResetNeeded("Cannot call `env.render()` before calling `env.reset()`.")
        if mode == "ansi":
            return self.describe()
        if mode != "human":
            return as_array(self.paint())
        if self._window is None:
            self._window = Window(self.metadata.get("render_fps", 30))
        self._window.show(self.paint())
        return None

    def paint(self) -> Any:
        """The hook for modes ``human`` and ``rgb_array``: a pygame Surface, or an array uint8[height, width, 3]."""
        raise NotImplementedError(f"{type(self).__name__} lists a render mode for which it has no paint().")

    def describe(self) -> str:
        """The hook for mode ``ansi``: the state as text."""
        raise NotImplementedError(f"{type(self).__name__} lists 'ansi', for which it has no describe().")

    def close(self) -> None:
        if self._window is not None:
            self._window.close()

    def _start_params(self, options: Info | None) -> Any:
        """The params for one ``initial`` call; options that are not params are not for the kernel."""
        known = {name: value for name, value in (options or {}).items() if name in self._params._fields}
        return self.kernel.replace_params(self._params, known) if known else self._params

    def _info_of(self, state: Any) -> Info:
        if self.kernel.info is None:
            return {}
        record, dtypes = self.kernel.info(state, self._params), self.kernel.info_dtypes
        return {
            name: np.array(value, dtypes.get(name)) if isinstance(value, tuple) else value
            for name, value in zip(record._fields, record, strict=True)
        }

    @property
    def kernel_state(self) -> Any:
        """The state as the kernel's NamedTuple; None before the first reset."""
        return self._state if self._lane is None else self._lane.lanes.get_state(0)

    @kernel_state.setter
    def kernel_state(self, state: Any) -> None:
        self.kernel.check_state(state, self._params)
        if self._lane is None:
            self._follow_generator()
            self._state = state
        else:
            self._lane.lanes.set_state(0, state)

    def use_kernel(self, kernel: Kernel) -> None:
        """Use other dynamics over the same state and params from the next step on."""
        self._leave_compiled()
        self.kernel = kernel
        self._find_code()

    def set_params(self, params: Any) -> None:
        """Use other params from the next step on."""
        self._params = params
        if self._lane is not None:
            self._lane.set_params(params)

    def snapshot(self) -> bytes:
        """State and random stream as bytes, for ``restore`` of an environment made with the same arguments."""
        return encode_lane(self.kernel, self._params, self.kernel_state, self.np_random)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else raises InvalidSnapshot and changes nothing."""
        state, generator = decode_lane(self.kernel, self._params, snapshot)
        self.np_random = generator
        if state is not None:
            self.kernel_state = state
            self._switch_to_compiled()
            return
        self._leave_compiled()
        self._state = None  # a snapshot from before the first reset

    @property
    def np_random(self) -> np.random.Generator:
        return Env.np_random.fget(self)  # type: ignore[attr-defined,no-any-return]

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        Env.np_random.fset(self, value)  # type: ignore[attr-defined]
        self._follow_generator()

    def _follow_generator(self) -> None:
        generator = self.np_random
        if self._rng is None or self._rng.generator is not generator:
            self._rng = LaneRng(generator)
            if self._lane is not None and not self._lane.use(generator):
                self._leave_compiled()

    def compile(self) -> bool:
        """Run as machine code from now on, compiled in seconds or read from the cache. False without Numba.

        Later environments of this kernel then run compiled from the start. KernelNotCompiled says why one can't be.
        """
        if not numba_installed():
            return False
        compiled_run(self.kernel, self._layout)
        self._code_loaded = True
        if self._state is not None:
            self._switch_to_compiled()
        return True

    def _find_code(self) -> None:
        self._code_loaded = numba_installed() and load_if_cached(self.kernel, self._layout)

    def _switch_to_compiled(self) -> None:
        """Run compiled if the code is loaded and can share the generator's memory. It takes a millisecond."""
        if self._lane is not None or not self._code_loaded or self.render_mode == "human":
            return
        if not can_share_memory(self.np_random):
            return
        spaces = self.observation_space, self.action_space  # as they are, whatever was written into params since
        lane = CompiledLane(self.kernel, self._params, self.np_random, layout=self._layout, spaces=spaces)
        if self._state is not None:
            lane.lanes.set_state(0, self._state)
        self._lane = lane
        self.__dict__.pop("step", None)

    def _has_quick_step(self) -> bool:
        return self._discrete and self.kernel.info is None and type(self).step is KernelEnv.step

    def _leave_compiled(self) -> None:
        if self._lane is not None:
            self._state, self._lane = self._lane.lanes.get_state(0), None
        self.__dict__.pop("step", None)  # the quick one, which holds this kernel

    def __getstate__(self) -> dict[str, Any]:
        # Addresses of this process's memory stay here; the copy begins in Python from the same state and stream.
        here = dict.fromkeys(("_lane", "_rng", "_to_observation", "_window"))
        fields = {**self.__dict__, "_state": self.kernel_state, **here}
        fields.pop("step", None)
        return fields

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)
        self._to_observation = observation_maker(self.observation_space)
        if self._np_random is not None:
            self._rng = LaneRng(self._np_random)
        self._find_code()


def quick_step(env: KernelEnv) -> Callable[[Any], tuple[Any, float, bool, bool, Info]]:
    """``KernelEnv.step`` in plain Python with what never changes in local variables: a tenth faster."""
    kernel_step, observe, convert, allowed = env.kernel.python_step, env.kernel.observe, env._to_observation, env._range

    def step(action: Any) -> tuple[Any, float, bool, bool, Info]:
        params = env._params
        if type(action) is not int and hasattr(action, "item"):
            action = action.item()
        if allowed is not None and action not in allowed:
            raise InvalidAction(f"action {action!r} is outside {env.action_space}.", action=action)
        state, reward, terminated = kernel_step(env._state, action, env._rng, params)
        env._state = state
        return convert(observe(state, params)), reward, terminated, False, {}

    return step


def _param(name: str) -> property:
    def get(self: KernelEnv) -> Any:
        return getattr(self._params, name)

    def set_(self: KernelEnv, value: Any) -> None:
        self.set_params(self.kernel.replace_params(self._params, {name: value}))

    return property(get, set_, doc=f"The kernel's parameter {name}.")


def env_class(kernel: Kernel, name: str = "KernelEnvironment") -> type[KernelEnv]:
    """An Env class for a kernel that has none of its own."""
    return type(name, (KernelEnv,), {"kernel": kernel, "__module__": kernel.step.__module__})


def observation_maker(space: Space[Any]) -> Callable[[Any], Any]:
    """A function that turns what ``observe`` returned into a member of the space."""
    if isinstance(space, Discrete):
        return int
    if isinstance(space, Box):
        dtype, shape, array = np.dtype(space.dtype), space.shape, np.array
        if len(shape) == 1 and shape[0] > 1:
            return lambda numbers: array(numbers, dtype)  # by position: as a keyword the dtype costs 140 ns more
        return lambda numbers: array(numbers, dtype).reshape(shape)  # also for a single number
    return tuple


class CompiledLane:
    """One lane whose step is a call with one address, drawing from NumPy's own generator memory.

    ``step(action)`` and ``begin()`` are made again for each block of addresses; see ``_bind``.
    """

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
        self.lanes = Lanes(
            kernel, params, 1, mode=driver.FREE, strict=False, layout=layout, action_space=self._action_space
        )
        self._generator = generator
        self._bind()

    def use(self, generator: np.random.Generator) -> bool:
        """Draw from this generator from now on, if its memory can be shared."""
        if not can_share_memory(generator):
            return False
        self._generator = generator  # keeps the memory alive
        for block in (self.lanes.block, self._reset_block):
            block[RNGS] = generator.bit_generator.ctypes.state_address
        return True

    def begin_with(self, params: Any, start: Any) -> tuple[Any, Info]:
        """Begin an episode with ``start`` as the params of its first state."""
        self.set_params(params, start)
        try:
            return self.begin()
        finally:
            self.set_params(params)

    def set_params(self, params: Any, start: Any = None) -> None:
        """Use other params; ``start``, unless None, for the states that ``begin`` draws."""
        self.lanes.set_params(params, start)
        self._bind()

    def _bind(self) -> None:
        """Make both calls with all that they touch in local variables, read through memoryviews: 600 ns per step."""
        self._reset_block = self.lanes.block.copy()
        self._reset_block[0] = driver.RESET
        self.use(self._generator)
        columns: dict[str, Any] = self.lanes.columns
        run, address, reset_address = self.lanes.run, self.lanes.address, self._reset_block.ctypes.data
        # Bound methods of C types: `view[0] = action` as one call, without a Python frame.
        discrete = isinstance(self._action_space, Discrete)
        write_action: Any = (memoryview(columns["action"]) if discrete else columns["action"]).__setitem__
        read_observation, read_info = self._observation_reader(columns), self._info_reader(columns)
        reward: Any = memoryview(columns["reward"])
        terminated: Any = memoryview(columns["terminated"])

        def step(action: Any) -> tuple[Any, float, bool, bool, Info]:
            write_action(0, action)
            if run(address) < 0:
                raise InvalidAction(
                    f"action {action!r} is outside {self._action_space}.", action=action, space=self._action_space
                )
            info = read_info() if read_info is not None else {}
            return read_observation(), reward[0], terminated[0], False, info

        def begin() -> tuple[Any, Info]:
            run(reset_address)
            return read_observation(), read_info() if read_info is not None else {}

        self.step, self.begin = step, begin

    def _observation_reader(self, columns: dict[str, Any]) -> Callable[[], Any]:
        parts = [columns[f"obs_{at}"] for at in range(len(self.lanes.layout.observation))]
        if isinstance(self._observation_space, Box):
            return parts[0][0].copy  # type: ignore[no-any-return]
        if len(parts) == 1:
            return partial(memoryview(parts[0]).__getitem__, 0)
        numbers = [partial(memoryview(part).__getitem__, 0) for part in parts]
        return lambda: tuple([number() for number in numbers])

    def _info_reader(self, columns: dict[str, Any]) -> Callable[[], Info] | None:
        if not self.lanes.layout.info:
            return None
        rows = [(c.name, columns[f"info_{c.name}"], c.shape) for c in self.lanes.layout.info]
        reads = [(name, row[0].copy if shape else partial(memoryview(row).__getitem__, 0)) for name, row, shape in rows]
        if len(reads) == 1:
            name, read = reads[0]
            return lambda: {name: read()}
        return lambda: {name: read() for name, read in reads}


def as_array(picture: Any) -> Frame:
    """A pygame Surface, or an array of an author who draws in other ways, as a new array uint8[height, width, 3]."""
    if isinstance(picture, np.ndarray):
        return np.array(picture, np.uint8)
    width, height = picture.get_size()
    pixels = load_pygame().image.tobytes(picture, "RGB")
    return np.frombuffer(bytearray(pixels), np.uint8).reshape(height, width, 3)
