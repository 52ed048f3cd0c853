"""create_app and HTTPEnvServer: an environment written for OpenEnv in a FastAPI application.

Each session has a worker behind a wall. What is served goes there by its import path, or, if it has none, as the code
itself; neither the class nor a factory is ever called in the program that creates the application.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import time
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from paddock.core.spec import EnvSpec, parse_id
from paddock.errors import DependencyNotInstalled, InvalidId
from paddock.hosting.factories import dumps_for_worker, is_importable
from paddock.hosting.openenv.http_bodies import NO_WEB
from paddock.openenv.exceptions import ConcurrencyConfigurationError
from paddock.openenv.types import ConcurrencyConfig, ServerCapacityStatus, ServerMode, SessionInfo, State
from paddock.sandbox.workspaces import is_walled
from paddock.sources.fastmcp import let_servers_travel

TITLE, VERSION = "OpenEnv Environment HTTP API", "1.0.0"
_recorded: list[HTTPEnvServer] | None = None


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
    """Return a FastAPI application; arguments as in OpenEnv. Those for its web interface only cause a warning.

    Environment variables configure it: ``PADDOCK_TOKEN`` is the token to require (none if unset),
    ``PADDOCK_ALLOW_HOSTS`` the host names to accept besides localhost, separated by commas, and ``PADDOCK_ISOLATION``
    the wall around each session: sandbox (the default), landlock or auto.
    """
    web = {
        "gradio_builder": gradio_builder is not None,
        "custom_tab_name": custom_tab_name != "Custom",
        "custom_tab_primary": custom_tab_primary,
        "show_default_tab": not show_default_tab,
        "title_override": title_override is not None,
        "ENABLE_WEB_INTERFACE": os.environ.get("ENABLE_WEB_INTERFACE", "").lower() in ("true", "1", "yes"),
    }
    app = create_fastapi_app(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        mode=mode,
        reset_observation_cls=reset_observation_cls,
    )
    wanted = [name for name, is_set in web.items() if is_set]
    if wanted:
        warnings.warn(f"create_app: {', '.join(wanted)} has no effect. {NO_WEB}", stacklevel=2)
    return app


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
    """Return the application of ``create_app``. Paths that no route of yours takes are paddock's own: /metrics, say."""
    server = HTTPEnvServer(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        reset_observation_cls=reset_observation_cls,
    )
    if server.is_inert:
        return InertApp()
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise DependencyNotInstalled(f"create_app({server.env_name!r}) needs FastAPI: pip install fastapi") from error
    app = FastAPI(title=TITLE, version=VERSION)
    server.register_routes(app, mode if mode is not None else os.environ.get("OPENENV_MODE") or ServerMode.SIMULATION)
    app.router.default = server.front
    return app


class HTTPEnvServer:
    """What is served, and how many sessions there are of it. ``register_routes`` adds OpenEnv's routes to an app."""

    def __init__(
        self,
        env: Callable[..., Any],
        action_cls: type[Any],
        observation_cls: type[Any],
        max_concurrent_envs: int | None = None,
        concurrency_config: ConcurrencyConfig | None = None,
        env_name: str | None = None,
        state_cls: type[Any] = State,
        *,
        reset_observation_cls: type[Any] | None = None,
    ) -> None:
        if not callable(env):
            raise TypeError(
                f"env must be a callable that makes an environment, got an instance of {type(env).__name__}. Pass the "
                "class, or a function that returns an instance."
            )
        if max_concurrent_envs is not None and concurrency_config is not None:
            raise ValueError("Cannot specify both 'max_concurrent_envs' and 'concurrency_config': give one, not both.")
        self.env, self.action_cls, self.observation_cls, self.state_cls = env, action_cls, observation_cls, state_cls
        self.reset_observation_cls = reset_observation_cls or observation_cls
        self.env_name = env_name or str(getattr(env, "__name__", "environment"))
        most = 1 if max_concurrent_envs is None else max_concurrent_envs
        self.concurrency_config = concurrency_config or ConcurrencyConfig(max_concurrent_envs=most)
        self.front: Any = None  # the ASGI application behind the routes
        if self.max_concurrent_envs > 1 and not self.is_concurrency_safe:
            raise ConcurrencyConfigurationError(self._env_cls.__name__, self.max_concurrent_envs)
        if _recorded is not None:
            _recorded.append(self)

    @property
    def is_inert(self) -> bool:
        """Whether nothing is served from here: in a worker, where an environment's code is imported."""
        return _recorded is not None or is_walled()

    @property
    def max_concurrent_envs(self) -> int:
        return self.concurrency_config.max_concurrent_envs

    @property
    def _env_cls(self) -> Any:
        """The environment's class, or None for a factory that does not declare it: calling it here is not safe."""
        found = self.env
        while isinstance(found, functools.partial):
            found = found.func
        if inspect.isclass(found):
            return found
        try:
            hints = typing.get_type_hints(found if inspect.isroutine(found) else type(found).__call__)
        except Exception:  # names that exist only for a type checker
            return None
        return hints.get("return") if inspect.isclass(hints.get("return")) else None

    @property
    def is_concurrency_safe(self) -> bool:
        """Whether the class says so. Of a factory that does not declare what it returns, it is taken for granted."""
        return self._env_cls is None or bool(getattr(self._env_cls, "SUPPORTS_CONCURRENT_SESSIONS", False))

    @property
    def active_sessions(self) -> int:
        service = None if self.front is None else self.front.service
        return 0 if service is None else int(service.active)

    def get_capacity_status(self) -> ServerCapacityStatus:
        return ServerCapacityStatus.from_counts(self.active_sessions, self.max_concurrent_envs)

    def get_session_info(self, session_id: str) -> SessionInfo | None:
        service = None if self.front is None else self.front.service
        live = None if service is None else service.find(session_id)
        if live is None:
            return None
        epoch_s = time.time() - time.monotonic()
        return SessionInfo(
            session_id=session_id,
            created_at=epoch_s + live.began_s,
            last_activity_at=epoch_s + live.used_s,
            step_count=live.steps,
            environment_type=getattr(self._env_cls, "__name__", self.env_name),
        )

    def register_routes(self, app: Any, mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add OpenEnv's routes to a FastAPI application, whose lifespan starts and stops the service."""
        chosen = mode if isinstance(mode, ServerMode) else mode.lower()
        if chosen not in list(ServerMode):
            raise ValueError(f"Invalid mode: '{mode}'. Must be one of: {[one.value for one in ServerMode]}")
        if self.is_inert:
            return
        most, timeout_s = self.max_concurrent_envs, self.concurrency_config.session_timeout
        idle = {} if timeout_s is None else {"idle_s": timeout_s}
        spec = served_spec(
            self.env, self.action_cls, self.observation_cls, self.state_cls, self.reset_observation_cls, self.env_name
        )
        # By name: the server is loaded only when something is to be served.
        server: Any = import_module("paddock.server.asgi")
        served = server.ServedEnv(spec, self._isolation(), name=self.env_name)
        settings = server.Settings(max_sessions=most, sessions_each=most, mode=ServerMode(chosen).value, **idle)
        self.front = server.asgi_app(served, settings)
        server.add_routes(app, self.front)

    def _isolation(self) -> Any:
        """Return the wall: a class with a code mode may start workspaces, where an agent's code runs."""
        tier = os.environ.get("PADDOCK_ISOLATION") or None
        if not hasattr(self._env_cls, "execute_code"):
            return tier
        from paddock.agentic.envs.coding.workspace import workspace_policy
        from paddock.sandbox.policy import Policy

        return Policy(tier=tier or "sandbox", workspaces=2, workspace=workspace_policy())  # type: ignore[arg-type]


@contextmanager
def recording() -> Iterator[list[HTTPEnvServer]]:
    """Record each HTTPEnvServer that is made, create_app's too, and serve none. For the import of an ``app.py``.

    >>> with recording() as servers:
    ...     app = create_app(dict, State, State, env_name="an app.py does this")
    >>> servers[0].env, servers[0].env_name
    (<class 'dict'>, 'an app.py does this')
    """
    global _recorded
    before, _recorded = _recorded, []
    try:
        yield _recorded
    finally:
        _recorded = before


class InertApp:
    """Stands for an application where nothing is served: anything may be done with it, and has no effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = found = InertApp()
        return found

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return a decorated function as it is."""
        return arguments[0] if len(arguments) == 1 and not options and callable(arguments[0]) else self

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def served_spec(
    env: Callable[..., Any],
    action_cls: type[Any],
    observation_cls: type[Any],
    state_cls: type[Any] | None = None,
    reset_observation_cls: type[Any] | None = None,
    env_name: str | None = None,
) -> EnvSpec:
    """Return a spec that makes the environment in a worker: it names everything by import path, or has its code."""
    classes = {
        "action_cls": action_cls,
        "observation_cls": observation_cls,
        "state_cls": state_cls,
        "reset_observation_cls": reset_observation_cls,
    }
    let_servers_travel()
    kwargs: dict[str, Any] = {name: _code_of(cls) for name, cls in classes.items() if cls is not None}
    entry_point, code = "paddock.sources.openenv:AsEnv", _code_of(env)
    if isinstance(code, str) and (inspect.isclass(env) or None not in (action_cls, observation_cls)):
        entry_point = code
    else:
        kwargs["env"] = code
    id = re.sub(r"[^\w.:-]+", "-", env_name or str(getattr(env, "__name__", "environment")), flags=re.ASCII)
    try:
        parse_id(id)
    except InvalidId:
        id = "environment"
    return EnvSpec(id=id, entry_point=entry_point, kwargs=kwargs, order_enforce=False, disable_env_checker=True)


class _Installed:
    """In a pickle: ``import openenv`` means ours where it is loaded, from then on."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module("paddock.openenv").install, ()


def _code_of(found: Any) -> str | bytes:
    """Return the import path, or the code of what has none, or whose imports of openenv mean ours."""
    if getattr(sys.modules.get("openenv"), "__name__", "").startswith("paddock."):
        return dumps_for_worker(found, _Installed())
    return import_path(found) or dumps_for_worker(found)


def import_path(found: Any) -> str | None:
    """Return ``module:Name``, or None for what has no such name in another process."""
    module, name = sys.modules.get(getattr(found, "__module__", None) or ""), getattr(found, "__qualname__", None)
    if module is None or not isinstance(name, str) or module.__name__ == "__main__" or not is_importable(module):
        return None
    named: Any = module
    for part in name.split("."):
        named = getattr(named, part, None)
    return f"{module.__name__}:{name}" if named is found else None
