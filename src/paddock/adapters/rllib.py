"""Train with RLlib: register environments there, single ones and lanes. Importing this does not import Ray.

The name is Ray's, not Gymnasium's: ``config.environment("paddock/CartPole-v1")`` finds it in every env runner.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paddock.adapters import need, to_gymnasium, to_gymnasium_vector
from paddock.adapters.trainers import Target
from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.errors import WrongClass
from paddock.making import make

if TYPE_CHECKING:
    from typing import TypeAlias

    import gymnasium

    AnyEnv: TypeAlias = gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any]

__all__ = ["Maker", "register"]


def register(target: Target, *, name: str | None = None, **make_kwargs: Any) -> str:
    """Register what ``make(target, **make_kwargs)`` makes with Ray, and return its name: ``paddock/`` and the id.

    ``env_config`` of RLlib's configuration is further keywords of ``make``. With
    ``env_runners(num_envs_per_env_runner=n, gym_env_vectorize_mode="vector_entry_point")`` the n environments are lanes
    that one call steps, else n single ones in RLlib's loop.
    """
    need("ray.rllib")
    if not isinstance(target, (str, os.PathLike, EnvSpec)):
        raise WrongClass(
            f"register() takes an id, a path or an EnvSpec, from which each env runner makes its own; got "
            f"{type(target).__name__}. For an environment that you made: register(env.spec)."
        )
    from ray.tune import register_env

    if name is None:
        text = target.id if isinstance(target, EnvSpec) else os.fspath(target)
        name = text if text.startswith("paddock/") else f"paddock/{text}"
    register_env(name, Maker(target, make_kwargs))
    return name


@dataclass(frozen=True)
class Maker:
    """What RLlib calls with a configuration, in whichever process an env runner is."""

    target: Target
    make_kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, config: Mapping[str, Any]) -> AnyEnv:
        """One environment, or the lanes that RLlib asks for by adding ``num_envs``."""
        env = make(self.target, **{**self.make_kwargs, **config})
        if isinstance(env, Env):
            return to_gymnasium(env)
        if "num_envs" not in config:
            raise WrongClass(f"{self.target} made a {type(env).__name__}, which is not a paddock.Env.")
        return to_gymnasium_vector(env)
