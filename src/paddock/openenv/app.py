"""create_app: an environment written for OpenEnv as an ASGI application, each session in a process of its own.

The environment reaches its workers by its import path, so it must be a class or function of a module, not a lambda.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from paddock.core.spec import EnvSpec
from paddock.errors import PlanError
from paddock.openenv.exceptions import ConcurrencyConfigurationError
from paddock.openenv.types import ConcurrencyConfig, ServerMode, State
from paddock.sources.openenv_classes import ADAPTER


def create_app(
    env: Callable[..., Any],
    action_cls: type[Any],
    observation_cls: type[Any],
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    *_ignored: Any,
    state_cls: type[Any] = State,
    mode: ServerMode | str | None = None,
    reset_observation_cls: type[Any] | None = None,
    **options: Any,
) -> Any:
    """The application; arguments as in OpenEnv, those for its web page (``gradio_builder`` and on) are ignored."""
    unknown = options.keys() - _WEB_PAGE
    if unknown:
        raise TypeError(f"create_app() has no argument {sorted(unknown)[0]!r}.")
    served = served_spec(env, action_cls, observation_cls, state_cls, reset_observation_cls, env_name)
    settings = {
        "max_sessions": _capacity(env, max_concurrent_envs, concurrency_config),
        "idle_s": None if concurrency_config is None else concurrency_config.session_timeout,
        "production": _mode_of(mode) is ServerMode.PRODUCTION,
    }
    return import_module("paddock.server.asgi").asgi_app(served, settings)


create_fastapi_app = create_app

_WEB_PAGE = {"gradio_builder", "custom_tab_name", "custom_tab_primary", "show_default_tab", "title_override"}


def served_spec(
    env: Callable[..., Any],
    action_cls: type[Any],
    observation_cls: type[Any],
    state_cls: type[Any] | None = None,
    reset_observation_cls: type[Any] | None = None,
    env_name: str | None = None,
) -> EnvSpec:
    """A spec that makes the environment anywhere: everything in it is named by import path."""
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
        entry_point=ADAPTER,
        kwargs={"env": import_path(env), **named},
        order_enforce=False,
        disable_env_checker=True,
    )


def import_path(found: Any) -> str:
    """``module:Name``, or PlanError for what has no such name, or is something else under it."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        raise PlanError(
            f"{found!r:.120} can't be named in another process. Put it into a module of its own, as a class or a "
            "function without a closure."
        )
    return f"{module}:{name}"


def _capacity(env: Any, most: int | None, config: ConcurrencyConfig | None) -> int:
    if most is not None and config is not None:
        raise ValueError("Give max_concurrent_envs or concurrency_config, not both.")
    asked = config.max_concurrent_envs if config is not None else 1 if most is None else most
    if asked > 1 and inspect.isclass(env) and not getattr(env, "SUPPORTS_CONCURRENT_SESSIONS", False):
        raise ConcurrencyConfigurationError(env.__name__, asked)
    return asked


def _mode_of(mode: ServerMode | str | None) -> ServerMode:
    chosen = mode if mode is not None else os.environ.get("OPENENV_MODE") or ServerMode.SIMULATION
    return chosen if isinstance(chosen, ServerMode) else ServerMode(chosen.lower())
