"""make, make_vec and OpenEnv: the doors to every environment, at every distance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import VectorEnv
from paddock.making.build import build, resolve
from paddock.making.lane_options import LaneOptions
from paddock.making.plan import RemoteOptions, plan
from paddock.making.target import locate
from paddock.making.wrapper_stack import WrapperLike


@overload
def make(target: str | os.PathLike[str] | EnvSpec, *, num_envs: None = None, **kwargs: Any) -> Env[Any, Any]: ...
@overload
def make(target: str | os.PathLike[str] | EnvSpec, *, num_envs: int, **kwargs: Any) -> VectorEnv[Any, Any, Any]: ...
def make(
    target: str | os.PathLike[str] | EnvSpec,
    *,
    num_envs: int | None = None,
    isolation: str | None = None,
    backend: str = "auto",
    wrappers: Sequence[WrapperLike] = (),
    validate: bool | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    lanes: LaneOptions | None = None,
    remote: RemoteOptions | None = None,
    env_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Make an environment, or with ``num_envs`` a batch of lanes.

    Other keywords go to the environment; one that has an argument with a name from this list takes it through
    ``env_kwargs``. ``wrappers``, innermost first, go around the environment, or around each lane: data such as
    ``ClipReward.wrapper_spec(min_reward=0)``, classes or callables. ``validate=False`` lets any action through to the
    environment; ``max_episode_steps=-1`` lifts the time limit. See ``paddock explain TARGET`` for what a call would
    build.

    >>> import paddock
    >>> env = paddock.make("CartPole-v1")
    >>> observation, info = env.reset(seed=42)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    """
    return build(
        plan(
            resolve(locate(target)),
            num_envs=num_envs,
            isolation=isolation,
            backend=backend,
            validate=validate,
            max_episode_steps=max_episode_steps,
            render_mode=render_mode,
            wrappers=wrappers,
            env_kwargs={**kwargs, **(env_kwargs or {})},
            lanes=lanes,
            remote=remote,
        )
    )


def make_vec(target: str | os.PathLike[str] | EnvSpec, num_envs: int = 1, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """``make`` with lanes."""
    return make(target, num_envs=num_envs, **kwargs)


def OpenEnv(target: str | os.PathLike[str] | EnvSpec, **kwargs: Any) -> Any:  # noqa: N802 - the mission's spelling
    """``make`` under the name that OpenEnv's users look for, nothing more."""
    return make(target, **kwargs)
