"""FromDmEnv: an environment of dm_env as an Env; dm_control's and bsuite's are such ones.

A reader would take every LAST for the end of the task. It is so where the discount is 0; with another discount the
episode was only cut off, and is ``truncated``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.warning import warn_user
from paddock.errors import SnapshotUnsupported, UnsupportedMode, WrongClass
from paddock.sources.dm_env_spaces import as_arrays, needs_arrays, space_of
from paddock.sources.families import installed_family, library_family
from paddock.sources.given_function import fitting, given_function, seed_argument
from paddock.sources.their_errors import importing
from paddock.wrappers.guard import Guard

_SEED_BITS = 32  # of NumPy's RandomState, which these libraries draw from
_STREAMS = ("random_state", "_rng")  # where an environment keeps its own


class FromDmEnv(Env[Any, Any]):
    """Steps ``dm_env``. Each info has the step's ``discount``.

    ``remake`` makes such an environment for a seed, where its random stream can't be seeded anew in place.
    ``render_kwargs`` go to ``physics.render``, as ``height``, ``width`` and ``camera_id``.
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
        self.metadata = _metadata(env)
        self.render_mode = render_mode
        self._render_kwargs = dict(render_kwargs or {})
        self._remake = remake
        self._needs_arrays = needs_arrays(self.observation_space)
        self._closed = False
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            env.close()
            raise UnsupportedMode(
                f"render_mode={render_mode!r}: {type(env).__name__} can't be drawn so. Those of dm_control have "
                f"'rgb_array', others of dm_env nothing."
            )

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Callable[..., FromDmEnv]:
        """What makes the environment that this spec's id names."""
        return ByFunction(spec.id)

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
            self._seed(fitting(seed, _SEED_BITS))
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
        from paddock.sources.dm_control_snapshot import saved

        return saved(self.dm_env)

    def restore(self, snapshot: bytes) -> None:
        from paddock.sources.dm_control_snapshot import restore

        restore(self.dm_env, snapshot)

    def __deepcopy__(self, memo: dict[int, Any]) -> FromDmEnv:
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        try:
            vars(other).update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        except Exception as error:  # of code inside, which says so in its own way
            raise SnapshotUnsupported(
                f"{type(self.dm_env).__name__} can't be copied: {type(error).__name__}: {error}. Make another and "
                f"repeat the actions."
            ) from error
        return other


def from_dm_env(env: Any, *, render_mode: str | None = None, validate: bool = True) -> Env[Any, Any]:
    """A ``dm_env.Environment`` as an Env in its guard; actions are checked unless ``validate`` is False.

    ``reset(seed=)`` seeds the stream of dm_control's tasks and of bsuite's environments; where there is none, it warns.
    To have lanes, a wall or a server, name a function that makes it: ``paddock.make("dm_env:module:function")``.
    """
    return Guard(FromDmEnv(checked(env), render_mode=render_mode), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """For ``module:function``; the function is called with the arguments of ``make``."""
    installed_family("dm_env", id)
    given_function(id, "dm_env")
    return EnvSpec(id, entry_point="paddock.sources.dm_env:FromDmEnv")


@dataclass(frozen=True)
class ByFunction:
    """Makes what ``module:function`` returns. Where that has an argument for a seed, a seed makes it anew."""

    id: str

    metadata = {"render_modes": ["rgb_array"]}  # what it may be asked for; if it can is known when it is made

    def __call__(
        self, *, render_mode: str | None = None, render_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> FromDmEnv:
        function = partial(given_function(self.id, "dm_env"), **kwargs)
        seed = seed_argument(function)
        remake = None if seed is None or seed in kwargs else (lambda value: checked(function(**{seed: value})))
        return FromDmEnv(checked(function()), remake=remake, render_mode=render_mode, render_kwargs=render_kwargs)


def random_stream(env: Any) -> np.random.RandomState | None:
    """The stream that an environment draws from: the task's (dm_control's suite), or its own (composer, bsuite)."""
    found = [getattr(getattr(env, "task", None), "random", None), *(getattr(env, name, None) for name in _STREAMS)]
    return next((one for one in found if isinstance(one, np.random.RandomState)), None)


def _metadata(env: Any) -> dict[str, Any]:
    if not hasattr(env, "physics"):
        return {"render_modes": []}
    return {"render_modes": ["rgb_array"], "render_fps": max(1, round(1 / env.control_timestep()))}


def checked(env: Any) -> Any:
    """``env`` if it is an environment of dm_env."""
    family = library_family("dm_env", "module:function")
    family.check_installed_for("from_dm_env")
    with importing(family, "dm_env"):
        import dm_env
    if not isinstance(env, dm_env.Environment):
        raise WrongClass(f"Expected a dm_env.Environment, got {type(env).__name__}.")
    return env
