"""FromGymnax: an environment of pure functions over JAX, such as gymnax's, as an Env that holds the state and the key.

A key is split before each reset and each step, as gymnax's own adapter does, so that the numbers are the same for the
same seed. But nothing restarts by itself: the step that ends an episode returns its last observation.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from functools import lru_cache, partial
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import CustomSpaceError, InvalidSnapshot, NameNotFound, ResetNeeded, UnsupportedMode, WrongClass
from paddock.sources.families import installed_family, library_family
from paddock.sources.foreign import (
    Maker,
    class_of,
    fit_seed,
    fits_in,
    import_function,
    importing,
    open_value,
    seal_value,
)
from paddock.spaces import Box, Dict, Discrete, Space, Tuple
from paddock.wrappers.guard import Guard

_LAYER = "gymnax"  # of a snapshot
_SEED_BITS = 32  # of a key, without JAX's 64-bit mode
# How an environment that does not tell a cut-off from an end counts and limits its steps: gymnax before 1.0, Craftax.
_COUNTS = (("time", "max_steps_in_episode"), ("timestep", "max_timesteps"))
_NO_PICTURES = "Environments of gymnax are not drawn: drop render_mode, or draw env.unwrapped.env_state yourself."


class FromGymnax(Env[Any, Any]):
    """Steps the functions of ``gymnax_env`` with ``params``; ``env_state`` is where it is, None before ``reset``."""

    metadata = {"render_modes": []}

    def __init__(self, env: Any, params: Any = None) -> None:
        self.gymnax_env = env
        self.params = env.default_params if params is None else params
        try:
            self._functions = _shared_functions(env)
        except TypeError:  # it has no hash
            self._functions = Functions(env)
        self.env_state: Any = None
        self._key: Any = None
        self.state_form, like = self._functions.forms(self.params)
        self.observation_space = space_of(env.observation_space(self.params), like)
        self.action_space = space_of(env.action_space(self.params))
        self._discrete = isinstance(self.action_space, Discrete)

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Maker:
        """Return what makes the environment that this spec's id names."""
        return Maker(partial(_make, spec.id), cls.metadata)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self.env_state is None:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        if self._discrete:
            action = int(action)  # always of one type: JAX would compile the step again for another
        elif isinstance(action, (list, float)):
            action = np.asarray(action)
        self._key, observation, self.env_state, reward, terminated, truncated, info = self._functions.step(
            self._key, self.env_state, action, self.params
        )
        seen = to_numpy(self.observation_space, observation)
        return seen, float(reward), bool(terminated), bool(truncated), to_plain(info)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self._key = self._functions.key(fit_seed(seed, _SEED_BITS))
        elif self._key is None:
            self._key = self._functions.key(int(self.np_random.integers(1 << _SEED_BITS)))
        self._key, observation, self.env_state = self._functions.reset(self._key, self.params)
        return to_numpy(self.observation_space, observation), {}

    def render(self) -> Any:
        raise UnsupportedMode(_NO_PICTURES)

    def snapshot(self) -> bytes:
        """The state and the key."""
        import jax

        leaves = None if self.env_state is None else [np.asarray(leaf) for leaf in jax.tree.leaves(self.env_state)]
        key = None if self._key is None else np.asarray(self._key)
        value = {"who": class_of(self.gymnax_env), "leaves": leaves, "key": key}
        return seal_value(_LAYER, value, name=type(self.gymnax_env).__name__)

    def restore(self, snapshot: bytes) -> None:
        import jax

        value = open_value(_LAYER, snapshot)
        forms, structure = jax.tree.flatten(self.state_form)
        leaves, key = (value.get("leaves"), value.get("key")) if isinstance(value, dict) else (None, None)
        fits = (
            isinstance(value, dict)
            and value.get("who") == class_of(self.gymnax_env)
            and (key is None or fits_in(key, jax.eval_shape(self._functions.key, 0)))
            and (leaves is None or (isinstance(leaves, list) and len(leaves) == len(forms) and key is not None))
            and (leaves is None or all(map(fits_in, leaves, forms)))
        )
        if not fits:
            raise InvalidSnapshot(f"This is not a snapshot of {type(self.gymnax_env).__name__}.")
        # A number whose type JAX took from Python's stays one, or the step would be compiled again.
        arrays = [
            jax.numpy.asarray(leaf.item() if form.weak_type and leaf.ndim == 0 else leaf)
            for leaf, form in zip(leaves or (), forms, strict=False)
        ]
        self.env_state = None if leaves is None else jax.tree.unflatten(structure, arrays)
        self._key = None if key is None else jax.numpy.asarray(key)

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
        terminated, truncated = ended, False
        counts = ((count, limit) for count, limit in _COUNTS if hasattr(state, count) and hasattr(params, limit))
        if hasattr(self._env, "is_truncated"):
            truncated = self._env.is_truncated(state, params)
        elif found := next(counts, None):
            # An end in the very last step can't be told from the limit.
            late = getattr(state, found[0]) >= getattr(params, found[1])
            terminated, truncated = ended & ~late, ended & late
        return key, observation, state, reward, terminated, truncated, info


_shared_functions = lru_cache(maxsize=64)(Functions)  # of this very object: gymnax's environments hold no state


def from_gymnax(env: Any, params: Any = None, *, validate: bool = True) -> Env[Any, Any]:
    """Return an environment with gymnax's functions as an Env in its guard, with ``default_params`` by default.

    For lanes, a wall or a server, name it instead: ``paddock.make("gymnax:CartPole-v1")``.
    """
    return Guard(FromGymnax(check_env(env), params), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Return the spec of an id of gymnax, or of ``module:function``, which returns such an environment."""
    maker_of(id)
    return EnvSpec(id, entry_point="paddock.sources.gymnax:FromGymnax")


def _make(
    id: str, /, *, params: dict[str, Any] | None = None, render_mode: str | None = None, **kwargs: Any
) -> FromGymnax:
    """Make the environment with this name; ``params`` are the default parameters to change."""
    if render_mode is not None:
        raise UnsupportedMode(f"render_mode={render_mode!r}: {_NO_PICTURES}")
    named = tuple((name, type(value), value) for name, value in sorted(kwargs.items()))  # True is not 1
    try:
        hash(named)
    except TypeError:
        env = check_env(maker_of(id)(**kwargs))
    else:
        env = _make_shared(id, named)
    return FromGymnax(env, env.default_params.replace(**params) if params else None)


def maker_of(id: str) -> Callable[..., Any]:
    """Return the function that makes what the id names; imports its code."""
    family = installed_family("gymnax", id)
    if family.library == "jax":
        return import_function(id, "gymnax")
    with importing(family, id):
        import gymnax
    if id not in gymnax.registered_envs:
        raise NameNotFound(f"gymnax has no {id!r}. Expected one of {', '.join(gymnax.registered_envs)}.")
    return lambda **kwargs: gymnax.make(id, **kwargs)[0]


def check_env(env: Any) -> Any:
    """Return ``env`` if it has gymnax's functions, else raise WrongClass."""
    library_family("gymnax", "module:function").check_installed_for("from_gymnax()")
    wanted = ("reset_env", "step_env", "default_params", "observation_space", "action_space")
    missing = [name for name in wanted if not hasattr(env, name)]
    if missing:
        raise WrongClass(
            f"Expected an environment with gymnax's functions, got {type(env).__name__} without {missing[0]}."
        )
    return env


@lru_cache(maxsize=64)
def _make_shared(id: str, arguments: tuple[tuple[str, type, Any], ...]) -> Any:
    """Return one object for all lanes: what JAX compiled for one is ready for the others."""
    return check_env(maker_of(id)(**{name: value for name, _, value in arguments}))


def space_of(space: Any, like: Any = None) -> Space[Any]:
    """Return our space with the same members; ``like`` is a value of it, or its shape and dtype.

    Its dtype is that of ``like``: several environments name another one in their spaces.
    """
    inner = getattr(space, "spaces", None)
    if isinstance(inner, dict):
        parts = {key: space_of(part, None if like is None else _part(like, key)) for key, part in inner.items()}
        return Dict(parts, sort_keys=False)
    if inner is not None:
        return Tuple([space_of(part, None if like is None else like[at]) for at, part in enumerate(inner)])
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    if not (hasattr(space, "low") and hasattr(space, "dtype")):
        raise CustomSpaceError(f"{type(space).__name__} has no counterpart in paddock. Build it from gymnax's spaces.")
    dtype = np.dtype(space.dtype if like is None else like.dtype)
    low, high = (np.broadcast_to(np.asarray(bound, dtype), space.shape) for bound in (space.low, space.high))
    if dtype.kind == "f":  # the largest number stands for "no bound" there
        largest = np.finfo(dtype).max
        low, high = np.where(low <= -largest, -np.inf, low), np.where(high >= largest, np.inf, high)
    return Box(low, high, space.shape, dtype)


def to_numpy(space: Space[Any], value: Any) -> Any:
    """Return an observation as NumPy arrays; on the CPU they share JAX's memory and are read-only."""
    match space:
        case Dict():
            return {key: to_numpy(part, _part(value, key)) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(to_numpy(part, one) for part, one in zip(space.spaces, value, strict=True))
        case Discrete():
            return np.int64(value)
    return np.asarray(value)


def to_plain(value: Any) -> Any:
    """Return an info's value without JAX: Python's numbers and NumPy's arrays."""
    if isinstance(value, dict):
        return {str(key): to_plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(part) for part in value]
    if not hasattr(value, "dtype"):
        return value
    array = np.asarray(value)
    return array if array.ndim else array.item()


def _part(value: Any, key: str) -> Any:
    return value[key] if isinstance(value, dict) else getattr(value, key)
