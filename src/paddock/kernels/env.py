"""KernelEnv: one lane of a kernel as an Env. It runs as machine code where that is at hand when it is made.

Otherwise it stays plain Python until ``compile`` is called: no step ever waits for a compiler. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.warning import warn_user
from paddock.errors import InvalidAction, ResetNeeded, UnsupportedMode
from paddock.kernels.compile import compiled_run, load_if_kept
from paddock.kernels.installed import numba_installed
from paddock.kernels.kernel import Kernel
from paddock.kernels.rng import LaneRng
from paddock.kernels.screen import Screen
from paddock.kernels.single import CompiledLane, can_share_memory
from paddock.kernels.snapshot import decode_lane, encode_lane
from paddock.kernels.views import observation_maker, told
from paddock.spaces import Discrete


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
        self._see = observation_maker(self.observation_space)
        self._state: Any = None
        self._rng: LaneRng | None = None
        self._lane: CompiledLane | None = None
        self._screen: Screen | None = None
        self._checked = False  # whether its steps give what the kernel declares
        self._look_for_code()

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
        info = {} if kernel.info is None else self._told(state)
        return self._see(kernel.observe(state, params)), reward, terminated, False, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        if self._lane is not None and seed is None and not options:
            return self._lane.begin()
        if seed is not None or self._rng is None:
            super().reset(seed=seed)
            self._follow_generator()
        if not self._checked:
            self.kernel.check_steps(self._layout, self._params, self.action_space)
            self._checked = True
        self._go_on_compiled()
        start = self._start_params(options) if options else self._params
        if self._lane is not None:
            result = self._lane.begin() if start is self._params else self._lane.begin_with(self._params, start)
        else:
            state = self._state = self.kernel.initial(self._rng, start)
            result = self._see(self.kernel.observe(state, self._params)), self._told(state)
            if "step" not in self.__dict__ and self._has_quick_step():
                self.step = quick_step(self)  # type: ignore[assignment,method-assign]
        if self.render_mode == "human":
            self._leave_lane()
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
        self._check_renderable(mode)
        if mode == "ansi":
            return self.describe()
        if self._screen is None:
            self._screen = Screen(self.metadata.get("render_fps", 30))
        return self._screen.show(self.paint(), mode)

    def _check_renderable(self, mode: str) -> None:
        if mode not in self.metadata.get("render_modes", ()):
            raise UnsupportedMode(
                f"render_mode={mode!r}: {type(self).__name__} has {self.metadata.get('render_modes', [])}. An author "
                f"adds a mode by listing it in metadata['render_modes'] and writing paint(), or describe() for 'ansi'."
            )
        if self.kernel_state is None:
            raise ResetNeeded("Cannot call `env.render()` before calling `env.reset()`.")

    def paint(self) -> Any:
        """The hook for modes ``human`` and ``rgb_array``: a pygame Surface, or an array uint8[height, width, 3]."""
        raise NotImplementedError(f"{type(self).__name__} lists a render mode for which it has no paint().")

    def describe(self) -> str:
        """The hook for mode ``ansi``: the state as text."""
        raise NotImplementedError(f"{type(self).__name__} lists 'ansi', for which it has no describe().")

    def close(self) -> None:
        if self._screen is not None:
            self._screen.close()

    def _start_params(self, options: Info | None) -> Any:
        """The params for one ``initial`` call; options that are no param are for somebody else."""
        known = {name: value for name, value in (options or {}).items() if name in self._params._fields}
        return self.kernel.replaced(self._params, known) if known else self._params

    def _told(self, state: Any) -> Info:
        return {} if self.kernel.info is None else told(self.kernel.info(state, self._params), self.kernel.info_dtypes)

    @property
    def kernel_state(self) -> Any:
        """The state as the kernel's NamedTuple; None before the first reset."""
        return self._state if self._lane is None else self._lane.get_state()

    @kernel_state.setter
    def kernel_state(self, state: Any) -> None:
        self.kernel.check_state(state, self._params)
        if self._lane is None:
            self._follow_generator()
            self._state = state
        else:
            self._lane.set_state(state)

    def use_kernel(self, kernel: Kernel) -> None:
        """Other dynamics over the same state and params from the next step on."""
        self._leave_lane()
        self.kernel = kernel
        self._look_for_code()

    def set_params(self, params: Any) -> None:
        """Other params from the next step on."""
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
            self._go_on_compiled()
            return
        self._leave_lane()
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
                self._leave_lane()

    def compile(self) -> bool:
        """Run as machine code from now on: it is compiled, in seconds, or read from the cache. False without Numba.

        Later environments of this kernel are then compiled when they are made. KernelNotCompiled says why one can't be.
        """
        if not numba_installed():
            return False
        compiled_run(self.kernel, self._layout)
        self._code_is_here = True
        if self._state is not None:
            self._go_on_compiled()
        return True

    def _look_for_code(self) -> None:
        self._code_is_here = numba_installed() and load_if_kept(self.kernel, self._layout)

    def _go_on_compiled(self) -> None:
        """Where the machine code is loaded and the generator is one whose memory it can share; a millisecond."""
        if self._lane is not None or not self._code_is_here or self.render_mode == "human":
            return
        if not can_share_memory(self.np_random):
            return
        spaces = self.observation_space, self.action_space  # as they are, whatever was written into params since
        lane = CompiledLane(self.kernel, self._params, self.np_random, layout=self._layout, spaces=spaces)
        if self._state is not None:
            lane.set_state(self._state)
        self._lane = lane
        self.__dict__.pop("step", None)

    def _has_quick_step(self) -> bool:
        return self._discrete and self.kernel.info is None and type(self).step is KernelEnv.step

    def _leave_lane(self) -> None:
        if self._lane is not None:
            self._state, self._lane = self._lane.get_state(), None
        self.__dict__.pop("step", None)  # the quick one, which knows this kernel and a state

    def __getstate__(self) -> dict[str, Any]:
        # Addresses of this process's memory stay here; the copy begins in Python from the same state and stream.
        here = dict.fromkeys(("_lane", "_rng", "_see", "_screen"))
        kept = {**self.__dict__, "_state": self.kernel_state, **here}
        kept.pop("step", None)
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._see = observation_maker(self.observation_space)
        if self._np_random is not None:
            self._rng = LaneRng(self._np_random)
        self._look_for_code()


def quick_step(env: KernelEnv) -> Callable[[Any], tuple[Any, float, bool, bool, Info]]:
    """``KernelEnv.step`` in plain Python with what never changes in local variables: a tenth faster."""
    kernel_step, observe, see, known = env.kernel.python_step, env.kernel.observe, env._see, env._range

    def step(action: Any) -> tuple[Any, float, bool, bool, Info]:
        params = env._params
        if type(action) is not int and hasattr(action, "item"):
            action = action.item()
        if known is not None and action not in known:
            raise InvalidAction(f"action {action!r} is outside {env.action_space}.", action=action)
        state, reward, terminated = kernel_step(env._state, action, env._rng, params)
        env._state = state
        return see(observe(state, params)), reward, terminated, False, {}

    return step


def _param(name: str) -> property:
    def get(self: KernelEnv) -> Any:
        return getattr(self._params, name)

    def set_(self: KernelEnv, value: Any) -> None:
        self.set_params(self.kernel.replaced(self._params, {name: value}))

    return property(get, set_, doc=f"The kernel's parameter {name}.")


def env_class(kernel: Kernel, name: str = "KernelEnvironment") -> type[KernelEnv]:
    """An Env class for a kernel that nobody wrote a class for."""
    return type(name, (KernelEnv,), {"kernel": kernel, "__module__": kernel.step.__module__})
