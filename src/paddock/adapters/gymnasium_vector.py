"""GymnasiumVectorEnv: a ``gymnasium.vector.VectorEnv`` over paddock's lanes. Imported only where Gymnasium is.

Compiled lanes stay compiled: one call steps them all, and its arrays are the very ones that Gymnasium's side gets.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import gymnasium.spaces as theirs
import numpy as np
from gymnasium.vector import VectorEnv as TheirVectorEnv

import paddock.spaces as ours
from paddock.adapters.gymnasium_env import their_spec
from paddock.core.env import Info
from paddock.core.vector_env import VectorEnv
from paddock.errors import WrongClass
from paddock.sources.gymnasium_spaces import has_graphs, to_theirs, with_graphs_of

Results = tuple[Any, Any, Any, Any, Info]


def adapted_lanes(env: Any) -> TheirVectorEnv[Any, Any, Any]:
    """``env`` for Gymnasium's world."""
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
    """Steps ``self.env``; arrays and infos are the very objects that it returned."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.single_observation_space = to_theirs(env.single_observation_space)
        self.single_action_space = to_theirs(env.single_action_space)
        self.observation_space = to_theirs(env.observation_space)
        self.action_space = to_theirs(env.action_space)
        self.render_mode = env.render_mode
        self.metadata = _their_metadata(env.metadata)
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
        """Call a method of each lane, or read an attribute."""
        return self.env.call(name, *args, **kwargs)  # type: ignore[attr-defined,no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute of each lane."""
        return self.env.get_attr(name)  # type: ignore[attr-defined,no-any-return]

    def set_attr(self, name: str, values: Any) -> None:
        """Set the attribute of each lane: a list or tuple with one value each, or one for all."""
        self.env.set_attr(name, values)  # type: ignore[attr-defined]

    @property
    def np_random(self) -> np.random.Generator | tuple[np.random.Generator, ...]:
        """The lanes' own streams, or the one of them all."""
        return self.env.np_random

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self.env.np_random = value

    @property
    def np_random_seed(self) -> Any:
        """The seeds of those."""
        return self.env.np_random_seed


class GymnasiumGraphVectorEnv(GymnasiumVectorEnv):
    """As GymnasiumVectorEnv where graphs pass: each library knows only its own class of them."""

    def step(self, actions: Any) -> Results:
        seen, *rest = self.env.step(with_graphs_of(ours.GraphInstance, actions))
        return (with_graphs_of(theirs.GraphInstance, seen), *rest)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        seen, info = self.env.reset(seed=seed, options=options)
        return with_graphs_of(theirs.GraphInstance, seen), info


def _their_metadata(metadata: Info) -> Info:
    """With Gymnasium's own name for when a lane begins anew, from 1.1 on; before that it knew only the next step."""
    modes = getattr(gymnasium.vector, "AutoresetMode", None)
    mode = metadata.get("autoreset_mode")
    return metadata if modes is None or mode is None else {**metadata, "autoreset_mode": modes(mode.value)}
