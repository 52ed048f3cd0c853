"""GymnasiumEnv and GymnasiumVectorEnv: Gymnasium's classes over paddock's. Imported only where Gymnasium is installed.

They are not wrappers in Gymnasium's sense: ``unwrapped`` is this object, and ``env`` is on paddock's side.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import gymnasium.spaces as theirs
import numpy as np
from gymnasium.envs.registration import EnvSpec as TheirSpec
from gymnasium.vector import VectorEnv as TheirVectorEnv

import paddock.spaces as ours
from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import VectorEnv
from paddock.errors import InvalidSpec, WrongClass
from paddock.sources.gymnasium_spaces import convert_graphs, has_graphs, to_theirs

StepResult = tuple[Any, SupportsFloat, bool, bool, Info]
Results = tuple[Any, Any, Any, Any, Info]


def adapt(env: Any) -> gymnasium.Env[Any, Any]:
    """Return ``env`` as a ``gymnasium.Env``."""
    if not isinstance(env, Env):
        if isinstance(env, gymnasium.Env):
            return env
        raise WrongClass(
            f"to_gymnasium() takes one paddock.Env, got {type(env).__name__}. Lanes go to "
            f"paddock.adapters.gymnasium.to_gymnasium_vector()."
        )
    graphs = has_graphs(env.observation_space) or has_graphs(env.action_space)
    return GymnasiumGraphEnv(env) if graphs else GymnasiumEnv(env)


class GymnasiumEnv(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # Gymnasium has no types for mypy
    """Steps ``self.env``; observations and infos are the very objects that it returned."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self.env = env
        self.observation_space = to_theirs(env.observation_space)
        self.action_space = to_theirs(env.action_space)
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self.spec = None if env.spec is None else their_spec(env.spec)

    @property
    def paddock_env(self) -> Env[Any, Any]:
        """What ``from_gymnasium`` unpacks."""
        return self.env

    def step(self, action: Any) -> StepResult:
        return self.env.step(action)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        return self.env.reset(seed=seed, options=options)

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    @property
    def np_random(self) -> np.random.Generator:
        return self.env.np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.env.np_random = value

    @property
    def np_random_seed(self) -> int:
        return self.env.np_random_seed

    @property
    def _np_random(self) -> np.random.Generator | None:  # Gymnasium's checker reads it
        return self.env.unwrapped._np_random

    def has_wrapper_attr(self, name: str) -> bool:
        return hasattr(self, name) or self.env.has_wrapper_attr(name)

    def get_wrapper_attr(self, name: str) -> Any:
        return getattr(self, name) if hasattr(self, name) else self.env.get_wrapper_attr(name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists; a new one goes to the environment."""
        if hasattr(self, name):
            setattr(self, name, value)
            return True
        return self.env.set_wrapper_attr(name, value, force=force)


class _WithGraphs:
    """For spaces with graphs: each library knows only its own class of them."""

    env: Any

    def step(self, action: Any) -> tuple[Any, ...]:
        observation, *rest = self.env.step(convert_graphs(ours.GraphInstance, action))
        return (convert_graphs(theirs.GraphInstance, observation), *rest)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return convert_graphs(theirs.GraphInstance, observation), info


class GymnasiumGraphEnv(_WithGraphs, GymnasiumEnv):
    """GymnasiumEnv for spaces with graphs."""


def their_spec(spec: EnvSpec) -> TheirSpec:
    """Return a spec that ``gymnasium.make`` makes through ``paddock.make``, wrappers included."""
    try:
        carried: str | EnvSpec = spec.to_json()
    except (InvalidSpec, TypeError, ValueError):
        carried = spec  # a class as entry point, say: it can be made again in this process, and has no JSON
    return TheirSpec(
        spec.id,
        entry_point="paddock.adapters.gymnasium:remake",
        vector_entry_point="paddock.adapters.gymnasium:remake_lanes",
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
        max_episode_steps=spec.max_episode_steps,
        order_enforce=spec.order_enforce,
        disable_env_checker=spec.disable_env_checker,
        kwargs={"paddock_spec": carried},
    )


def adapt_lanes(env: Any) -> TheirVectorEnv[Any, Any, Any]:
    """Return ``env`` as a ``gymnasium.vector.VectorEnv``."""
    if isinstance(env, TheirVectorEnv):
        return env
    if not isinstance(env, VectorEnv):
        raise WrongClass(
            f"to_gymnasium_vector() takes lanes, a paddock.VectorEnv, got {type(env).__name__}. Make them with "
            f"paddock.make(id, num_envs=n); one environment goes to to_gymnasium()."
        )
    graphs = has_graphs(env.single_observation_space) or has_graphs(env.single_action_space)
    return GymnasiumGraphVectorEnv(env) if graphs else GymnasiumVectorEnv(env)


class GymnasiumVectorEnv(TheirVectorEnv[Any, Any, Any]):  # type: ignore[misc]  # Gymnasium has no types for mypy
    """Steps ``self.env``; arrays and infos are the very objects that it returned. Compiled lanes stay compiled."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.single_observation_space = to_theirs(env.single_observation_space)
        self.single_action_space = to_theirs(env.single_action_space)
        self.observation_space = to_theirs(env.observation_space)
        self.action_space = to_theirs(env.action_space)
        self.render_mode = env.render_mode
        # Gymnasium's own enum, from 1.1 on; before that it knew only the next step.
        modes, mode = getattr(gymnasium.vector, "AutoresetMode", None), env.metadata.get("autoreset_mode")
        self.metadata = env.metadata
        if modes is not None and mode is not None:
            self.metadata = {**env.metadata, "autoreset_mode": modes(mode.value)}
        self.spec = None if env.spec is None else their_spec(env.spec)
        self._step = env.step

    def step(self, actions: Any) -> Results:
        return self._step(actions)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        return self.env.reset(seed=seed, options=options)

    def render(self) -> Any:
        return self.env.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.env.close(**kwargs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return self.env.call(name, *args, **kwargs)  # type: ignore[attr-defined,no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        return self.env.get_attr(name)  # type: ignore[attr-defined,no-any-return]

    def set_attr(self, name: str, values: Any) -> None:
        self.env.set_attr(name, values)  # type: ignore[attr-defined]

    @property
    def np_random(self) -> np.random.Generator | tuple[np.random.Generator, ...]:
        return self.env.np_random

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self.env.np_random = value

    @property
    def np_random_seed(self) -> Any:
        return self.env.np_random_seed


class GymnasiumGraphVectorEnv(_WithGraphs, GymnasiumVectorEnv):
    """GymnasiumVectorEnv for spaces with graphs."""
