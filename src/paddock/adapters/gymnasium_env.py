"""GymnasiumEnv: a ``gymnasium.Env`` whose every call goes to a paddock environment. Imported only where Gymnasium is.

It is no wrapper in Gymnasium's sense: ``unwrapped`` is this object, and ``env`` is on paddock's side.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import gymnasium.spaces as theirs
import numpy as np
from gymnasium.envs.registration import EnvSpec as TheirSpec

import paddock.spaces as ours
from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidSpec, WrongClass
from paddock.sources.gymnasium_spaces import has_graphs, to_theirs, with_graphs_of

StepResult = tuple[Any, SupportsFloat, bool, bool, Info]


def adapted(env: Any) -> gymnasium.Env[Any, Any]:
    """``env`` for Gymnasium's world."""
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
        """What ``from_gymnasium`` takes out again."""
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
        """The environment's own stream."""
        return self.env.np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.env.np_random = value

    @property
    def np_random_seed(self) -> int:
        """The seed of that stream."""
        return self.env.np_random_seed

    @property
    def _np_random(self) -> np.random.Generator | None:  # Gymnasium's checker reads it
        return self.env.unwrapped._np_random

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this object, or an environment inside, has the attribute."""
        return hasattr(self, name) or self.env.has_wrapper_attr(name)

    def get_wrapper_attr(self, name: str) -> Any:
        """The attribute of this object, else of the environment inside."""
        return getattr(self, name) if hasattr(self, name) else self.env.get_wrapper_attr(name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists; a new one is the environment's."""
        if hasattr(self, name):
            setattr(self, name, value)
            return True
        return self.env.set_wrapper_attr(name, value, force=force)


class GymnasiumGraphEnv(GymnasiumEnv):
    """As GymnasiumEnv where graphs pass: each library knows only its own class of them."""

    def step(self, action: Any) -> StepResult:
        seen, *rest = self.env.step(with_graphs_of(ours.GraphInstance, action))
        return (with_graphs_of(theirs.GraphInstance, seen), *rest)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seen, info = self.env.reset(seed=seed, options=options)
        return with_graphs_of(theirs.GraphInstance, seen), info


def their_spec(spec: EnvSpec) -> TheirSpec:
    """A spec that ``gymnasium.make`` can make: by way of ``paddock.make``, wrappers included."""
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
