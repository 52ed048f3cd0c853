"""make, make_vec, make_async and OpenEnv: every environment, at every distance, through one function."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import VectorEnv
from paddock.errors import PlanError
from paddock.making.build import build, resolve
from paddock.making.options import LaneOptions, RemoteOptions
from paddock.making.plan import Isolation, WrapperLike, plan, redirect_to_envpool
from paddock.making.target import locate, write_down

if TYPE_CHECKING:
    from paddock.hosting.client import AsyncHostedEnv
    from paddock.making.walls import WarmPool
    from paddock.sandbox.policy import Policy


@overload
def make(target: str | os.PathLike[str] | EnvSpec, *, num_envs: None = None, **kwargs: Any) -> Env[Any, Any]: ...
@overload
def make(target: str | os.PathLike[str] | EnvSpec, *, num_envs: int, **kwargs: Any) -> VectorEnv[Any, Any, Any]: ...
def make(
    target: str | os.PathLike[str] | EnvSpec,
    *,
    num_envs: int | None = None,
    isolation: Isolation = None,
    backend: str = "auto",
    wrappers: Sequence[WrapperLike] = (),
    validate: bool | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    lanes: LaneOptions | None = None,
    remote: RemoteOptions | None = None,
    install: bool = False,
    env_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Make an environment, or with ``num_envs`` a batch of lanes.

    Other keywords go to the environment; if it has an argument with one of these names, pass it through
    ``env_kwargs``. ``wrappers``, innermost first, go around the environment, or around each lane: data such as
    ``ClipReward.wrapper_spec(min_reward=0)``, classes or callables. ``validate=False`` passes any action to the
    environment; ``max_episode_steps=-1`` removes the time limit. A URL (``https://host:8000/CartPole-v1``, or
    ``http+unix://%2Frun%2Fpaddock.sock``) names an environment on a server; ``remote`` says how to reach it.
    ``install=True`` first installs what a folder asks for, into a folder of its own, and says what on stderr.
    See ``paddock explain TARGET`` for what a call would build.

    >>> import paddock
    >>> env = paddock.make("CartPole-v1")
    >>> observation, info = env.reset(seed=42)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    """
    if kwargs:
        _refuse_misspelt_safety(kwargs)
    if install:
        _install(target)
    named = locate(target)
    write_down(named)
    located, backend = redirect_to_envpool(named, backend, num_envs=num_envs, isolation=isolation, wrappers=wrappers)
    return build(
        plan(
            resolve(located, isolation),
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


def _install(target: str | os.PathLike[str] | EnvSpec) -> None:
    from paddock.package.dependencies import find_wanted, install

    located = locate(target)
    if located.folder is None:
        raise PlanError(f"install=True is for folders with a manifest, and {located.text!r} isn't one. Drop it.")
    wanted = find_wanted(located.folder)
    if wanted.lines and not wanted.place.is_dir():
        print(*wanted.sentences(), sep="\n", file=sys.stderr)
        install(wanted)


def _refuse_misspelt_safety(kwargs: dict[str, Any]) -> None:
    """An environment that takes any keyword would swallow ``isolaton="sandbox"`` and run here."""
    from difflib import get_close_matches

    for name in kwargs:
        for meant in get_close_matches(name, ["isolation", "validate"], n=1, cutoff=0.8):
            raise PlanError(
                f"{name}= would go to the environment. Did you mean {meant}=? If the environment has an argument "
                f"{name!r}, pass it through env_kwargs={{{name!r}: ...}}."
            )


def make_vec(target: str | os.PathLike[str] | EnvSpec, num_envs: int = 1, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Call ``make`` with ``num_envs`` lanes."""
    return make(target, num_envs=num_envs, **kwargs)


def OpenEnv(target: str | os.PathLike[str] | EnvSpec, **kwargs: Any) -> Any:  # noqa: N802 - spelled as OpenEnv's users know it
    """Call ``make``, under the name that OpenEnv's users look for."""
    return make(target, **kwargs)


async def make_async(
    target: str,
    *,
    render_mode: str | None = None,
    remote: RemoteOptions | None = None,
    env_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> AsyncHostedEnv:
    """Make an environment on a server for asyncio: ``await env.reset()``, ``await env.step(action)``.

    Other keywords go to the environment. ``async with await paddock.make_async(url) as env`` closes it.
    """
    from paddock.making.remote import build_async

    located = locate(target)
    if located.url is None:
        raise PlanError(
            f"make_async is for environments on a server, and {located.text!r} isn't one: its step would block the "
            f"loop. Use make(), in a thread if it is slow (asyncio.to_thread)."
        )
    arguments = {**kwargs, **(env_kwargs or {})}
    return await build_async(plan(located, render_mode=render_mode, remote=remote, env_kwargs=arguments))


def permissions(target: str | os.PathLike[str] | EnvSpec) -> Policy:
    """Return the permissions that ``target`` asks for: a folder's by its manifest, anything else's are the default.

    Reading it imports nothing. To grant it: ``make(target, isolation=permissions(target))``.
    """
    from paddock.sandbox.policy import DEFAULT

    return locate(target).asked or DEFAULT


def warm(
    target: str | os.PathLike[str] | EnvSpec, *, spares: int = 2, isolation: Isolation = "sandbox", **kwargs: Any
) -> WarmPool:
    """Keep ``spares`` workers ready behind the wall that ``make(target, isolation=...)`` would put up.

    While the pool is open, ``make`` takes them and is ready in milliseconds. ``pool.wait()`` waits for the spares::

        with paddock.warm("maze:Maze-v0", spares=4):
            env = paddock.make("maze:Maze-v0", isolation="sandbox")
    """
    from paddock.making.payload import pack
    from paddock.making.walls import warm_pool

    planned = plan(locate(target), isolation=isolation, env_kwargs=kwargs)
    if planned.wall is None:
        raise PlanError(f"isolation={isolation!r} has no wall, so there is nothing to keep warm. Use 'sandbox'.")
    return warm_pool(pack(planned), planned.wall, spares)
