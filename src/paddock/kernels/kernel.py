"""Kernel: an environment's dynamics as a value: a few plain functions, their parameters and spaces.

A kernel never holds a state. What is derived from it, a layout or compiled code, is computed when it is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from paddock.core.registry import register
from paddock.errors import InvalidKernel
from paddock.kernels.functions import python_function
from paddock.kernels.layout import (
    Layout,
    action_column,
    check_observation,
    check_own_arrays,
    check_state,
    check_step,
    columns_of,
    observation_columns,
)
from paddock.kernels.rng import LaneRng
from paddock.spaces import Discrete, Space

# How many steps are checked before an environment is used, and for how long at most.
STEPS_CHECKED, STEPS_CHECKED_S = 32, 0.02


@dataclass(frozen=True, eq=False)
class Kernel:
    """Plain scalar Python that is an environment.

    initial(rng, params) -> state
    step(state, action, rng, params) -> (state, reward, terminated)
    observe(state, params) -> numbers, in the order of the observation space
    info(state, params) -> NamedTuple, if steps have infos

    ``params`` is a NamedTuple with defaults. ``configure(**kwargs)`` turns constructor arguments into one, by default
    by replacing fields. Spaces may be functions of params. ``valid(state, params)`` says whether a state that came
    from outside (an assignment, a snapshot) can be continued; a kernel that indexes arrays by its state needs it.
    """

    initial: Callable[..., Any]
    step: Callable[..., Any]
    observe: Callable[..., Any]
    params: Any
    observation_space: Space[Any] | Callable[[Any], Space[Any]]
    action_space: Space[Any] | Callable[[Any], Space[Any]]
    info: Callable[..., Any] | None = None
    configure: Callable[..., Any] | None = None
    valid: Callable[[Any, Any], bool] | None = None
    info_dtypes: dict[str, Any] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self  # a value: nothing in it changes

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # cached properties are computed again

    def __post_init__(self) -> None:
        if not (isinstance(self.params, tuple) and hasattr(self.params, "_fields")):
            raise InvalidKernel(f"params is {self.params!r}; expected a NamedTuple with a default for each field.")

    def with_arguments(self, arguments: dict[str, Any]) -> Any:
        """The params for these constructor arguments, each of the type of its default."""
        if self.configure is not None:
            return self.configure(**arguments)
        unknown = [name for name in arguments if name not in self.params._fields]
        if unknown:
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}; expected one of {list(self.params._fields)}")
        return self.replace_params(self.params, arguments)

    def replace_params(self, params: Any, values: dict[str, Any]) -> Any:
        """``params`` with new values, coerced: gravity=10 stays a float, so that nothing compiles a second time."""
        coerced = {}
        for name, value in values.items():
            default = getattr(params, name)
            is_array = isinstance(default, np.ndarray)
            try:
                coerced[name] = np.ascontiguousarray(value, default.dtype) if is_array else type(default)(value)
                if is_array and coerced[name].shape != default.shape:  # compiled code indexes it without looking
                    raise ValueError
            except (TypeError, ValueError):
                expected = f"an array of shape {default.shape}" if is_array else type(default).__name__
                raise ValueError(f"{name}={value!r}: expected {expected}.") from None
        return params._replace(**coerced)

    def spaces(self, params: Any) -> tuple[Space[Any], Space[Any]]:
        """Observation and action space under these params."""
        both = (self.observation_space, self.action_space)
        return tuple(space if isinstance(space, Space) else space(params) for space in both)  # type: ignore[return-value]

    def layout(self, params: Any, spaces: tuple[Space[Any], Space[Any]] | None = None) -> Layout:
        """The columns of n lanes, read from the first state of an episode; pass ``spaces`` if you have made them."""
        observation_space, action_space = self.spaces(params) if spaces is None else spaces
        state, another = self._first_state(params), self._first_state(params)
        state_columns = columns_of(state, "state")
        observation = self.observe(state, params)
        info = () if self.info is None else columns_of(self.info(state, params), "info")
        layout = Layout(
            state=state_columns,
            params=columns_of(params, "params"),
            observation=observation_columns(observation_space),
            info=tuple(replace(c, dtype=np.dtype(self.info_dtypes.get(c.name, c.dtype))) for c in info),
            action=action_column(action_space),
            scalar_observation=not isinstance(observation, tuple),
        )
        check_state(state, layout.state, self.initial)
        check_own_arrays(state, another, self.initial)
        check_observation(observation, layout.observation, self.observe)
        return layout

    @np.errstate(all="ignore")
    def check_steps(self, layout: Layout, params: Any, space: Space[Any]) -> None:
        """Take some steps in Python and refuse what compiled lanes would change; a wrong type shows within a few."""
        generator = np.random.Generator(np.random.PCG64(0))
        rng, ends_s = LaneRng(generator), time.perf_counter() + STEPS_CHECKED_S
        state = self.initial(rng, params)
        for at in range(STEPS_CHECKED):
            if isinstance(space, Discrete):
                action: Any = int(space.start) + at % int(space.n)
            else:
                action = np.clip(generator.uniform(-1.0, 1.0, space.shape), space.low, space.high).tolist()  # type: ignore[attr-defined]
            try:
                result = self.step(state, action, rng, params)
            except InvalidKernel:
                raise
            except Exception:  # what goes wrong in Python alone, such as dividing by zero, is raised by a real step
                return
            check_step(result, layout, type(state), self.step)
            state = self.initial(rng, params) if result[2] else result[0]
            if time.perf_counter() > ends_s:
                return

    def _first_state(self, params: Any) -> Any:
        return self.initial(LaneRng(np.random.Generator(np.random.PCG64(0))), params)

    @cached_property
    def python_step(self) -> Callable[..., Any]:
        """``step`` for one lane in plain Python."""
        quick: Callable[..., Any] = python_function(self.step)
        return quick

    @cached_property
    def state_type(self) -> Any:
        """The NamedTuple that ``initial`` returns."""
        return type(self._first_state(self.params))

    def check_state(self, state: Any, params: Any) -> Any:
        """``state`` if it can be continued."""
        if not isinstance(state, self.state_type):
            raise InvalidKernel(f"{state!r} is not a state of this environment; expected a {self.state_type.__name__}.")
        if self.valid is not None and not self.valid(state, params):
            raise InvalidKernel(f"{state!r} is not a state that this environment can continue from.")
        return state

    def register(self, id: str, *, max_episode_steps: int | None = None, **spec: Any) -> None:
        """Register the environment, single and compiled, under an id."""
        from paddock.kernels.vector import vector_class

        lanes = vector_class(self)
        register(id, lanes.env_type, vector_entry_point=lanes, max_episode_steps=max_episode_steps, **spec)
