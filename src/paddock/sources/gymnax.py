"""FromGymnax: an environment of pure functions over JAX, as gymnax's, as an Env that holds the state and the key.

A key is split before each reset and each step, as gymnax's own adapter does, so that the numbers are the same for the
same seed. But nothing begins anew by itself: the step that ends an episode returns its last observation.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import NameNotFound, ResetNeeded, UnsupportedMode, WrongClass
from paddock.sources.families import installed_family, library_family
from paddock.sources.given_function import fitting, given_function
from paddock.sources.gymnax_spaces import plain, space_of, to_numpy
from paddock.sources.their_errors import importing
from paddock.spaces import Discrete
from paddock.wrappers.guard import Guard

_SEED_BITS = 32  # of a key, without JAX's 64-bit mode
# How an environment counts and limits its steps, where it does not tell a cut-off from an end: gymnax before 1.0, and
# Craftax.
_COUNTS = (("time", "max_steps_in_episode"), ("timestep", "max_timesteps"))
_NO_PICTURES = "Environments of gymnax are not drawn: drop render_mode, or draw env.unwrapped.env_state yourself."


class FromGymnax(Env[Any, Any]):
    """Steps the functions of ``gymnax_env`` with ``params``; ``env_state`` is where it is, None before ``reset``."""

    metadata = {"render_modes": []}

    def __init__(self, env: Any, params: Any = None) -> None:
        self.gymnax_env = env
        self.params = env.default_params if params is None else params
        self._functions = functions_of(env)
        self.env_state: Any = None
        self._key: Any = None
        self.state_form, like = self._functions.forms(self.params)
        self.observation_space = space_of(env.observation_space(self.params), like)
        self.action_space = space_of(env.action_space(self.params))
        # Always of one type: JAX would compile the step again for another.
        self._as_action: Callable[[Any], Any] = int if isinstance(self.action_space, Discrete) else _as_it_is

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> ByName:
        """What makes the environment that this spec's id names."""
        return ByName(spec.id)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self.env_state is None:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        self._key, observation, self.env_state, reward, terminated, truncated, info = self._functions.step(
            self._key, self.env_state, self._as_action(action), self.params
        )
        seen = to_numpy(self.observation_space, observation)
        return seen, float(reward), bool(terminated), bool(truncated), plain(info)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self._key = self._functions.key(fitting(seed, _SEED_BITS))
        elif self._key is None:
            self._key = self._functions.key(int(self.np_random.integers(1 << _SEED_BITS)))
        self._key, observation, self.env_state = self._functions.reset(self._key, self.params)
        return to_numpy(self.observation_space, observation), {}

    def render(self) -> Any:
        raise UnsupportedMode(_NO_PICTURES)

    def snapshot(self) -> bytes:
        """The state and the key."""
        from paddock.sources.gymnax_snapshot import saved

        return saved(self)

    def restore(self, snapshot: bytes) -> None:
        from paddock.sources.gymnax_snapshot import restored

        self.env_state, self._key = restored(self, snapshot)

    def __deepcopy__(self, memo: dict[int, Any]) -> FromGymnax:
        other = copy(self)  # arrays of JAX never change, and neither do functions
        memo[id(self)] = other
        other.observation_space, other.action_space = deepcopy((self.observation_space, self.action_space), memo)
        other.spec, other._np_random = deepcopy((self.spec, self._np_random), memo)
        return other


class Functions:
    """The compiled functions of one environment; every Env of it shares them, so that it is compiled once."""

    def __init__(self, env: Any) -> None:
        import jax

        self.key = jax.random.PRNGKey
        # The outer functions: like gymnax's own adapter, `reset` takes half of a key and `step` half of a half.
        self.reset = jax.jit(self._reset)
        self.step = jax.jit(self._step)
        self._env, self._jax = env, jax

    def forms(self, params: Any) -> tuple[Any, Any]:
        """Shapes and dtypes of state and observation; nothing is computed."""
        _, observation, state = self._jax.eval_shape(self._reset, self.key(0), params)
        return state, observation

    def _reset(self, key: Any, params: Any) -> Any:
        key, now = self._jax.random.split(key)
        observation, state = self._env.reset_env(now, params)
        return key, observation, state

    def _step(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        key, now = self._jax.random.split(key)
        now, _ = self._jax.random.split(now)
        observation, state, reward, ended, info = self._env.step_env(now, state, action, params)
        return key, observation, state, reward, *self._how_it_ended(state, params, ended), info

    def _how_it_ended(self, state: Any, params: Any, ended: Any) -> tuple[Any, Any]:
        if hasattr(self._env, "is_truncated"):
            return ended, self._env.is_truncated(state, params)
        for count, limit in _COUNTS:
            if hasattr(state, count) and hasattr(params, limit):
                # An end in the very last step can't be told from the limit.
                late = getattr(state, count) >= getattr(params, limit)
                return ended & ~late, ended & late
        return ended, False


def functions_of(env: Any) -> Functions:
    """Those of this very object: gymnax's environments hold no state."""
    try:
        return _kept_functions(env)
    except TypeError:  # it has no hash
        return Functions(env)


_kept_functions = lru_cache(maxsize=64)(Functions)


def from_gymnax(env: Any, params: Any = None, *, validate: bool = True) -> Env[Any, Any]:
    """An environment with gymnax's functions as an Env in its guard, with ``default_params`` unless others are given.

    To have lanes, a wall or a server, name it: ``paddock.make("gymnax:CartPole-v1")``.
    """
    return Guard(FromGymnax(checked(env), params), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """For an id of gymnax, or ``module:function``, which returns such an environment."""
    maker_of(id)
    return EnvSpec(id, entry_point="paddock.sources.gymnax:FromGymnax")


@dataclass(frozen=True)
class ByName:
    """Makes the environment with this name. ``params`` are fields to change in its default parameters."""

    id: str

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __call__(
        self, *, params: dict[str, Any] | None = None, render_mode: str | None = None, **kwargs: Any
    ) -> FromGymnax:
        if render_mode is not None:
            raise UnsupportedMode(f"render_mode={render_mode!r}: {_NO_PICTURES}")
        named = tuple((name, type(value), value) for name, value in sorted(kwargs.items()))  # True is not 1
        env = _shared(self.id, named) if _hashable(named) else _made(self.id, kwargs)
        return FromGymnax(env, env.default_params.replace(**params) if params else None)


def maker_of(id: str) -> Callable[..., Any]:
    """The function that makes what the id names, once its code may be imported."""
    family = installed_family("gymnax", id)
    if family.library == "jax":
        return given_function(id, "gymnax")
    with importing(family, id):
        import gymnax
    if id not in gymnax.registered_envs:
        raise NameNotFound(f"gymnax has no {id!r}. Expected one of {', '.join(gymnax.registered_envs)}.")
    return lambda **kwargs: gymnax.make(id, **kwargs)[0]


def checked(env: Any) -> Any:
    """``env`` if it has the functions of one."""
    library_family("gymnax", "module:function").check_installed_for("from_gymnax")
    wanted = ("reset_env", "step_env", "default_params", "observation_space", "action_space")
    missing = [name for name in wanted if not hasattr(env, name)]
    if missing:
        raise WrongClass(
            f"Expected an environment with gymnax's functions, got {type(env).__name__} without {missing[0]}."
        )
    return env


@lru_cache(maxsize=64)
def _shared(id: str, arguments: tuple[tuple[str, type, Any], ...]) -> Any:
    """One object for all lanes: what JAX compiled for one is ready for the others."""
    return _made(id, {name: value for name, _, value in arguments})


def _made(id: str, kwargs: dict[str, Any]) -> Any:
    return checked(maker_of(id)(**kwargs))


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _as_it_is(action: Any) -> Any:
    return np.asarray(action) if isinstance(action, (list, float)) else action
