"""FromDmEnv: an environment of dm_env as an Env, such as those of dm_control and bsuite.

A reader would take every LAST for the end of the task. It is one if the discount is 0; with another discount the
episode was only cut off, and is ``truncated``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.problem import warn_user
from paddock.core.spec import EnvSpec
from paddock.errors import CustomSpaceError, SnapshotUnsupported, UnsupportedMode, WrongClass
from paddock.sources.families import installed_family, library_family
from paddock.sources.foreign import Maker, find_seed_argument, fit_seed, import_function, importing
from paddock.spaces import Box, Dict, Discrete, Space, Tuple
from paddock.wrappers.guard import Guard

_SEED_BITS = 32  # of NumPy's RandomState, which these libraries draw from
_STREAMS = ("random_state", "_rng")  # where an environment keeps its own


class FromDmEnv(Env[Any, Any]):
    """Steps ``dm_env``. Each info has the step's ``discount``.

    ``remake`` makes such an environment for a seed, if its random stream can't be seeded in place.
    ``render_kwargs`` go to ``physics.render``: ``height``, ``width``, ``camera_id``.
    """

    def __init__(
        self,
        env: Any,
        *,
        remake: Callable[[int], Any] | None = None,
        render_mode: str | None = None,
        render_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.dm_env = env
        self.observation_space = space_of(env.observation_spec())
        self.action_space = space_of(env.action_spec())
        self.metadata = {"render_modes": []}
        if hasattr(env, "physics"):
            self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(1, round(1 / env.control_timestep()))}
        self.render_mode = render_mode
        self._render_kwargs = dict(render_kwargs or {})
        self._remake = remake
        self._needs_arrays = needs_arrays(self.observation_space)
        self._closed = False
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            env.close()
            raise UnsupportedMode(
                f"render_mode={render_mode!r}: {type(env).__name__} can't be drawn that way. Environments of "
                f"dm_control have 'rgb_array', others of dm_env have no pictures."
            )

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Maker:
        """Return what makes the environment that this spec's id names."""
        # Whether it can be drawn is known once it is made.
        return Maker(partial(_make, spec.id), {"render_modes": ["rgb_array"]})

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        step_type, reward, discount, observation = self.dm_env.step(action)
        if self._needs_arrays:
            observation = as_arrays(self.observation_space, observation)
        info = {"discount": discount}
        if step_type != 2:  # dm_env.StepType.LAST
            # FIRST, in answer to a step after the end, has no reward.
            return observation, 0.0 if reward is None else reward, False, False, info
        terminated = bool(np.all(discount == 0))
        return observation, reward, terminated, not terminated, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self._seed(fit_seed(seed, _SEED_BITS))
        observation = self.dm_env.reset().observation
        return as_arrays(self.observation_space, observation) if self._needs_arrays else observation, {}

    def _seed(self, seed: int) -> None:
        if self._remake is not None:
            self.dm_env.close()
            self.dm_env = self._remake(seed)
        elif (stream := random_stream(self.dm_env)) is not None:
            stream.seed(seed)
        else:
            warn_user(
                f"reset(seed={seed}) seeds nothing: {type(self.dm_env).__name__} shows no random stream. Make it by a "
                f"function with an argument seed: paddock.make('dm_env:module:function')."
            )

    def render(self) -> Any:
        if self.render_mode is None:
            raise UnsupportedMode("render() needs a mode: make the environment with render_mode='rgb_array'.")
        return self.dm_env.physics.render(**self._render_kwargs)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.dm_env.close()

    def snapshot(self) -> bytes:
        """MuJoCo's whole state, the task's fields and its random stream; for the suite of dm_control."""
        from paddock.sources.dm_control import save_snapshot

        return save_snapshot(self.dm_env)

    def restore(self, snapshot: bytes) -> None:
        from paddock.sources.dm_control import restore_snapshot

        restore_snapshot(self.dm_env, snapshot)

    def __deepcopy__(self, memo: dict[int, Any]) -> FromDmEnv:
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        try:
            vars(other).update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        except Exception as error:  # of code inside, which may raise anything
            raise SnapshotUnsupported(
                f"{type(self.dm_env).__name__} can't be copied: {type(error).__name__}: {error}. Make another and "
                f"repeat the actions."
            ) from error
        return other


def from_dm_env(env: Any, *, render_mode: str | None = None, validate: bool = True) -> Env[Any, Any]:
    """Return a ``dm_env.Environment`` as an Env in its guard; actions are checked unless ``validate`` is False.

    ``reset(seed=)`` seeds the stream of dm_control's tasks and of bsuite's environments; if there is none, it warns.
    For lanes, a wall or a server, name a function that makes it: ``paddock.make("dm_env:module:function")``.
    """
    return Guard(FromDmEnv(check_env(env), render_mode=render_mode), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Return the spec of ``module:function``; the function is called with the arguments of ``make``."""
    installed_family("dm_env", id)
    import_function(id, "dm_env")
    return EnvSpec(id, entry_point="paddock.sources.dm_env:FromDmEnv")


def _make(
    id: str, /, *, render_mode: str | None = None, render_kwargs: dict[str, Any] | None = None, **kwargs: Any
) -> FromDmEnv:
    """Make what ``module:function`` returns. If the function takes a seed, ``reset(seed=)`` calls it again."""
    function = partial(import_function(id, "dm_env"), **kwargs)
    seed = find_seed_argument(function)
    remake = None if seed is None or seed in kwargs else (lambda value: check_env(function(**{seed: value})))
    return FromDmEnv(check_env(function()), remake=remake, render_mode=render_mode, render_kwargs=render_kwargs)


def random_stream(env: Any) -> np.random.RandomState | None:
    """Return the stream that it draws from: its task's (dm_control's suite) or its own (composer, bsuite)."""
    found = [getattr(getattr(env, "task", None), "random", None), *(getattr(env, name, None) for name in _STREAMS)]
    return next((one for one in found if isinstance(one, np.random.RandomState)), None)


def check_env(env: Any) -> Any:
    """Return ``env`` if it is an environment of dm_env, else raise WrongClass."""
    family = library_family("dm_env", "module:function")
    family.check_installed_for("from_dm_env()")
    with importing(family, "dm_env"):
        import dm_env
    if not isinstance(env, dm_env.Environment):
        raise WrongClass(f"Expected a dm_env.Environment, got {type(env).__name__}.")
    return env


def space_of(spec: Any) -> Space[Any]:
    """Return the space of a spec, or of a nest of specs. They are recognised by their fields, without dm_env.

    A single number is an array without axes, as in dm_env, unless it is a choice.
    """
    if isinstance(spec, Mapping):
        return Dict({key: space_of(part) for key, part in spec.items()}, sort_keys=False)
    if isinstance(spec, (list, tuple)):
        return Tuple([space_of(part) for part in spec])
    if hasattr(spec, "num_values"):
        return Discrete(int(spec.num_values))
    kind = getattr(getattr(spec, "dtype", None), "kind", "")
    if kind not in "iufb" or not kind:
        raise CustomSpaceError(
            f"{spec!r} has no counterpart in paddock. Expected arrays of numbers, or dicts and lists of them."
        )
    low: Any
    high: Any
    if hasattr(spec, "minimum"):
        low, high = np.broadcast_to(spec.minimum, spec.shape), np.broadcast_to(spec.maximum, spec.shape)
    elif kind == "f":
        low, high = -np.inf, np.inf
    elif kind == "b":
        low, high = 0, 1
    else:
        low, high = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
    return Box(low, high, spec.shape, spec.dtype)


def needs_arrays(space: Space[Any]) -> bool:
    """Whether values may come as numbers or lists where the space has arrays without axes or tuples."""
    if isinstance(space, Dict):
        return any(map(needs_arrays, space.spaces.values()))
    return isinstance(space, (Tuple, Discrete)) or (isinstance(space, Box) and space.shape == ())


def as_arrays(space: Space[Any], value: Any) -> Any:
    """Return the value with arrays and tuples in those places."""
    match space:
        case Dict():
            return {key: as_arrays(part, value[key]) for key, part in space.spaces.items()}
        case Tuple():
            return tuple(as_arrays(part, one) for part, one in zip(space.spaces, value, strict=True))
        case Discrete():
            return np.int64(value)
        case Box(shape=()):
            return np.asarray(value, space.dtype)
    return value
