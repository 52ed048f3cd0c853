"""OpenEnv's names around its web page. The page itself is not there; what describes an environment is.

An environment is served in a worker of its own, so nothing here holds one in the server's process.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.errors import UnsupportedMode
from paddock.hosting.openenv.http_bodies import NO_WEB
from paddock.openenv.app import create_app
from paddock.openenv.environment import Environment
from paddock.openenv.types import BaseMessage, BaseModel, EnvironmentMetadata, Field


def load_environment_metadata(env: Any, env_name: str | None = None) -> EnvironmentMetadata:
    """Describe an environment, or a class or factory of one, which is not called. A README file is read if found."""
    if isinstance(env, Environment):
        return env.get_metadata()
    env = env.func if isinstance(env, functools.partial) else env
    name = env.__name__ if isinstance(env, type) else env_name or env.__name__
    found = EnvironmentMetadata(name=env_name or name, description=f"{name} environment", version="1.0.0")
    places = [os.environ.get("ENV_README_PATH"), f"envs/{env_name}/README.md" if env_name else None]
    for place in (*filter(None, places), "/app/env/README.md", "/app/README.md"):
        try:
            found.readme_content = Path(place).read_text(encoding="utf-8") or None
        except (OSError, UnicodeDecodeError):
            continue
        break
    return found


class ActionLog(BaseMessage):
    """A step, as OpenEnv's page lists it."""

    timestamp: str
    action: dict[str, Any]
    observation: dict[str, Any]
    reward: float | None = None
    done: bool
    step_count: int


class EpisodeState(BaseMessage):
    """An episode, as OpenEnv's page shows it."""

    episode_id: str | None = None
    step_count: int
    current_observation: dict[str, Any] | None = None
    action_logs: list[ActionLog] = Field(default_factory=list)
    is_reset: bool = True


class WebInterfaceManager:
    """Refused: it would hold the environment in the server's process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedMode(f"WebInterfaceManager: {NO_WEB}")


def create_web_interface_app(
    env: Any, action_cls: Any, observation_cls: Any, env_name: str | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Return what ``create_app`` returns, and warn: there is no page."""
    warnings.warn(f"{NO_WEB} create_web_interface_app is create_app.", stacklevel=2)
    return create_app(env, action_cls, observation_cls, env_name, *args, **kwargs)


@dataclass
class GetEndpointConfig:
    """A GET route, as data."""

    path: str
    handler: Callable[[], BaseModel | dict[str, Any]]
    response_model: type[BaseModel] | type[dict[str, Any]]
    tag: str
    summary: str
    description: str


def register_get_endpoints(app: Any, configs: list[GetEndpointConfig]) -> None:
    """Add the routes to a FastAPI application."""
    for one in configs:
        words = {"tags": [one.tag], "summary": one.summary, "description": one.description}
        app.get(one.path, response_model=one.response_model, **words)(_to_async(one.handler))


def _to_async(handler: Callable[[], Any]) -> Callable[[], Any]:
    async def answer() -> Any:  # without parameters: FastAPI would make them part of the request
        return handler()

    return answer
