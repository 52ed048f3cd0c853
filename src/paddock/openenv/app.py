"""create_app: an environment written for OpenEnv as an ASGI application, each session in a process of its own.

The environment reaches its workers by its import path, so it must be a class or function of a module, not a lambda.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from paddock.core.spec import EnvSpec
from paddock.errors import PlanError
from paddock.openenv.exceptions import ConcurrencyConfigurationError
from paddock.openenv.types import ConcurrencyConfig, ServerMode, State


@dataclass(frozen=True)
class RecordedServer:
    """What a server was asked to serve."""

    env: Callable[..., Any]
    action_cls: Any
    observation_cls: Any
    env_name: str | None = None
    state_cls: Any = None
    reset_observation_cls: Any = None
    max_concurrent_envs: int | None = None


_recorders: list[list[RecordedServer]] = []


@contextmanager
def recording() -> Iterator[list[RecordedServer]]:
    """Inside, ``create_app`` serves nothing: it adds what it was given to the list, and needs no FastAPI."""
    _recorders.append([])
    try:
        yield _recorders[-1]
    finally:
        _recorders.pop()


class _NotServed:
    """Stands for the application while recording: it takes routes and middleware, and forgets them."""

    routes: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., Callable[[Any], Any]]:
        return lambda *_args, **_kwargs: lambda function: function


def create_app(
    env: Callable[..., Any],
    action_cls: type[Any],
    observation_cls: type[Any],
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    gradio_builder: Any = None,
    custom_tab_name: str = "Custom",
    custom_tab_primary: bool = False,
    show_default_tab: bool = True,
    title_override: str | None = None,
    state_cls: type[Any] = State,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: type[Any] | None = None,
) -> Any:
    """Return the application; arguments as in OpenEnv. ``gradio_builder`` to ``title_override`` have no effect.

    Environment variables configure it: ``PADDOCK_TOKEN`` is the token to require (none if unset),
    ``PADDOCK_ALLOW_HOSTS`` the host names to accept besides localhost, separated by commas, and ``PADDOCK_ISOLATION``
    the wall around each session: sandbox (the default), landlock or auto.
    """
    if _recorders:
        given = env, action_cls, observation_cls, env_name, state_cls, reset_observation_cls, max_concurrent_envs
        _recorders[-1].append(RecordedServer(*given))
        return _NotServed()
    chosen = mode if mode is not None else os.environ.get("OPENENV_MODE") or ServerMode.SIMULATION
    chosen = chosen if isinstance(chosen, ServerMode) else ServerMode(chosen.lower())
    if max_concurrent_envs is not None and concurrency_config is not None:
        raise ValueError("Give max_concurrent_envs or concurrency_config, not both.")
    most = 1 if max_concurrent_envs is None else max_concurrent_envs
    if concurrency_config is not None:
        most = concurrency_config.max_concurrent_envs
    if most > 1 and inspect.isclass(env) and not getattr(env, "SUPPORTS_CONCURRENT_SESSIONS", False):
        raise ConcurrencyConfigurationError(env.__name__, most)
    spec = served_spec(env, action_cls, observation_cls, state_cls, reset_observation_cls, env_name)
    settings: dict[str, Any] = {"max_sessions": most, "sessions_each": most, "mode": chosen.value}
    if concurrency_config is not None and concurrency_config.session_timeout is not None:
        settings["idle_s"] = concurrency_config.session_timeout
    # By name: the server is loaded only when something is to be served.
    server: Any = import_module("paddock.server.asgi")
    served = server.ServedEnv(spec, os.environ.get("PADDOCK_ISOLATION") or None)
    return server.asgi_app(served, server.Settings(**settings))


def create_fastapi_app(
    env: Callable[..., Any],
    action_cls: type[Any],
    observation_cls: type[Any],
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    env_name: str | None = None,
    state_cls: type[Any] = State,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: type[Any] | None = None,
) -> Any:
    """Return the same as ``create_app``: not a FastAPI application either, but served the same way."""
    return create_app(
        env,
        action_cls,
        observation_cls,
        env_name,
        max_concurrent_envs,
        concurrency_config,
        state_cls=state_cls,
        mode=mode,
        reset_observation_cls=reset_observation_cls,
    )


def served_spec(
    env: Callable[..., Any],
    action_cls: type[Any],
    observation_cls: type[Any],
    state_cls: type[Any] | None = None,
    reset_observation_cls: type[Any] | None = None,
    env_name: str | None = None,
) -> EnvSpec:
    """Return a spec that makes the environment anywhere: it names everything by import path."""
    if not callable(env):
        raise TypeError(f"env must be a callable that makes an environment, got an instance of {type(env).__name__}.")
    classes = {
        "action_cls": action_cls,
        "observation_cls": observation_cls,
        "state_cls": state_cls,
        "reset_observation_cls": reset_observation_cls,
    }
    named = {name: import_path(cls) for name, cls in classes.items() if cls is not None}
    return EnvSpec(
        id=env_name or str(getattr(env, "__name__", type(env).__name__)),
        entry_point=import_path(env),
        kwargs=named,
        order_enforce=False,
        disable_env_checker=True,
    )


def import_path(found: Any) -> str:
    """Return ``module:Name``; PlanError for what has no such name."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        raise PlanError(
            f"{found!r:.120} can't be named in another process. Put it into a module of its own, as a class or a "
            "function without a closure."
        )
    return f"{module}:{name}"
