"""The routes of a server, as data: who may take which. The tests of who gets in are made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paddock.server.principals import Role

EVERYONE: frozenset[Role] = frozenset(("operator", "agent", "observer"))
OPERATOR: frozenset[Role] = frozenset(("operator",))
ACTING: frozenset[Role] = frozenset(("operator", "agent"))
WATCHING: frozenset[Role] = frozenset(("operator", "observer"))


@dataclass(frozen=True)
class Route:
    """``roles`` None: open to anyone. "env" routes lie below an environment's name, and at the root if there is one."""

    name: str
    method: Literal["GET", "POST", "DELETE", "WS"]
    roles: frozenset[Role] | None
    scope: Literal["root", "env"] = "env"
    in_production: bool = True


ROUTES = (
    Route("health", "GET", None, "root"),
    Route("health/live", "GET", None, "root"),
    Route("health/ready", "GET", None, "root"),
    Route("", "GET", EVERYONE, "root"),
    Route("metrics", "GET", WATCHING, "root"),
    Route("sessions", "GET", WATCHING, "root"),
    Route("sessions/{session}", "DELETE", OPERATOR, "root"),
    Route("openapi.json", "GET", EVERYONE, "root"),
    Route("list_environments", "GET", EVERYONE, "root"),
    Route("reset", "POST", OPERATOR, in_production=False),
    Route("step", "POST", ACTING, in_production=False),
    Route("state", "GET", OPERATOR, in_production=False),
    Route("metadata", "GET", EVERYONE),
    Route("schema", "GET", EVERYONE),
    Route("mcp", "POST", ACTING),
    Route("mcp", "DELETE", ACTING),
    Route("handover", "POST", OPERATOR),
    Route("handover", "GET", OPERATOR),
    Route("splits", "GET", OPERATOR),
    Route("tasks", "POST", OPERATOR),
    Route("num_tasks", "POST", OPERATOR),
    Route("task", "POST", OPERATOR),
    Route("task_range", "POST", OPERATOR),
    Route("ws", "WS", EVERYONE),
    Route("mcp", "WS", ACTING),
)


def routes_named(name: str, scope: str) -> list[Route]:
    """All methods of one path."""
    return [route for route in ROUTES if route.name == name and route.scope == scope]
