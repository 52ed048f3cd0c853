"""Wrapper: changes what passes between agent and environment. Attributes are not forwarded; ask get_wrapper_attr."""

from __future__ import annotations

from copy import deepcopy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, SupportsFloat, cast

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType, deep_copy
from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text
from paddock.core.state import State, state

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    WrapperObsType = TypeVar("WrapperObsType", default=Any)
    WrapperActType = TypeVar("WrapperActType", default=Any)
else:
    from typing import TypeVar

    WrapperObsType = TypeVar("WrapperObsType")
    WrapperActType = TypeVar("WrapperActType")


def assigned_here(name: str) -> property:
    """A property that is the wrapped environment's until the wrapper assigns its own."""
    own = f"_{name}"

    def read(self: Any) -> Any:
        value = getattr(self, own)
        return getattr(self.env, name) if value is None else value

    return property(read, lambda self, value: setattr(self, own, value))


def forwarded(place: str, name: str) -> Any:
    """A property that lives in something the wrapper holds: it is read and assigned there.

    Any: the annotation of the class attribute has the type.
    """
    return property(attrgetter(f"{place}.{name}"), lambda self, value: setattr(getattr(self, place), name, value))


class Wrapper(Env[WrapperObsType, WrapperActType], Generic[WrapperObsType, WrapperActType, ObsType, ActType]):
    """Passes everything through; subclasses override what they change.

    Spaces and metadata are the wrapped environment's until a wrapper assigns its own.
    """

    # What the constructor was given, if the class records it: the wrapper's entry in `spec.additional_wrappers`.
    _saved_kwargs: dict[str, Any] | None = None

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        if not isinstance(env, Env):
            hint = ""
            if hasattr(env, "num_envs"):
                hint = ". Lanes take a wrapper of paddock.wrappers.vector"
            elif any(base.__module__.partition(".")[0] == "gymnasium" for base in type(env).__mro__):
                hint = ". paddock's wrappers take paddock's Env: paddock.sources.from_gymnasium(env) makes one of this"
            raise TypeError(f"Expected env to be a `gymnasium.Env` but got {type(env)}{hint}")
        self.env = env
        self._action_space = self._observation_space = self._metadata = None
        self._cached_spec: EnvSpec | None = None

    def step(self, action: WrapperActType) -> tuple[WrapperObsType, SupportsFloat, bool, bool, Info]:
        return self.env.step(action)  # type: ignore[arg-type,return-value]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[WrapperObsType, Info]:
        return self.env.reset(seed=seed, options=options)  # type: ignore[return-value]

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def state(self) -> State:
        """The episode's id and length and what the environment publishes. See :func:`paddock.state`."""
        return state(self)

    def snapshot(self) -> bytes:
        """The wrapped environment's; a wrapper with a memory of its own adds it with :func:`seal_snapshot`."""
        return self.env.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.env.restore(snapshot)

    def fork(self) -> Self:
        """A copy of this wrapper around a fork of what it wraps."""
        inner = self.env.fork()
        memo, own, layer = dict[int, Any](), cast(Any, self.env), cast(Any, inner)
        while own is not None:  # a wrapper may refer to what is further inside
            memo[id(own)] = layer
            own, layer = getattr(own, "env", None), getattr(layer, "env", None)
        try:
            return deep_copy(self, memo)  # type: ignore[no-any-return]
        except BaseException:
            inner.close()
            raise

    @property
    def _np_random(self) -> np.random.Generator:  # type: ignore[override]
        raise AttributeError("Can't access `_np_random` of a wrapper, use `.unwrapped._np_random` or `.np_random`.")

    if not TYPE_CHECKING:  # their types are those of Env
        unwrapped = property(attrgetter("env.unwrapped"))
        render_mode = property(attrgetter("env.render_mode"))
        np_random = forwarded("env", "np_random")
        np_random_seed = property(attrgetter("env.np_random_seed"))
        action_space = assigned_here("action_space")
        observation_space = assigned_here("observation_space")
        metadata = assigned_here("metadata")

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The wrapped environment's spec with this wrapper appended; computed once."""
        if self._cached_spec is None and self.env.spec is not None:
            self._cached_spec = self._append_to_spec(deepcopy(self.env.spec))
        return self._cached_spec

    def _record_arguments(self, **arguments: Any) -> None:
        """Record what the constructor was given, unless a subclass has recorded its own arguments."""
        if self._saved_kwargs is None:
            self._saved_kwargs = arguments

    def _append_to_spec(self, spec: EnvSpec) -> EnvSpec:
        # Without recorded arguments the entry has kwargs=None, and make(spec) says which wrapper can't be rebuilt.
        kwargs = None if self._saved_kwargs is None else {k: v for k, v in self._saved_kwargs.items() if k != "env"}
        entry = WrapperSpec(self.class_name(), entry_point_text(type(self)), kwargs)
        spec.additional_wrappers += (entry,)
        return spec

    @classmethod
    def wrapper_spec(cls, **kwargs: Any) -> WrapperSpec:
        """The data that makes this wrapper with these arguments."""
        return WrapperSpec(cls.class_name(), entry_point_text(cls), kwargs)

    @classmethod
    def class_name(cls) -> str:
        """The class's name."""
        return cls.__name__

    def _has_own(self, name: str) -> bool:
        # `state` is a method of every wrapper, but by that name callers mean what the environment assigned.
        if name == "state" and "state" not in self.__dict__ and type(self).state is Wrapper.state:
            return False
        return hasattr(self, name)

    def has_wrapper_attr(self, name: str) -> bool:
        return self._has_own(name) or self.env.has_wrapper_attr(name)

    def get_wrapper_attr(self, name: str) -> Any:
        if self._has_own(name):
            return getattr(self, name)
        try:
            return self.env.get_wrapper_attr(name)
        except AttributeError as error:
            raise AttributeError(f"wrapper {self.class_name()} has no attribute {name!r}") from error

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        if self._has_own(name):
            setattr(self, name, value)
            return True
        if self.env.set_wrapper_attr(name, value, force=False):
            return True
        # A new attribute lands on the outermost wrapper, but a wrapper's `state` is a method: that one is the env's.
        if force and name == "state":
            return self.env.set_wrapper_attr(name, value, force=True)
        if force:
            setattr(self, name, value)
        return force

    def __str__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"

    def __repr__(self) -> str:
        return str(self)


class ObservationWrapper(Wrapper[WrapperObsType, ActType, ObsType, ActType]):
    """Changes observations: write ``observation``."""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[WrapperObsType, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observation(observation), info

    def step(self, action: ActType) -> tuple[WrapperObsType, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.observation(observation), reward, terminated, truncated, info

    def observation(self, observation: ObsType) -> WrapperObsType:
        """The observation that the agent sees in place of ``observation``."""
        raise NotImplementedError


class ActionWrapper(Wrapper[ObsType, WrapperActType, ObsType, ActType]):
    """Changes actions: write ``action``."""

    def step(self, action: WrapperActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        return self.env.step(self.action(action))

    def action(self, action: WrapperActType) -> ActType:
        """The action that the environment gets in place of ``action``."""
        raise NotImplementedError


class RewardWrapper(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Changes rewards: write ``reward``."""

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self.reward(reward), terminated, truncated, info

    def reward(self, reward: SupportsFloat) -> SupportsFloat:
        """The reward that the agent sees in place of ``reward``."""
        raise NotImplementedError
