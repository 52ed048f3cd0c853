"""HttpApi: requests to responses. First the gate, then the token, then the route; only then anything is done."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

from paddock.errors import PaddockError
from paddock.server.gate import Gate
from paddock.server.http import Request, Response
from paddock.server.link import incident
from paddock.server.native_socket import NativeSocket, Out
from paddock.server.openapi import openapi
from paddock.server.openenv_http import OpenEnvHttp
from paddock.server.openenv_socket import OpenEnvSocket
from paddock.server.principals import Principal, Tokens
from paddock.server.routes import Route, routes_named
from paddock.server.served import Served
from paddock.server.service import Service

SUBPROTOCOL = "paddock.v1"
_UNAUTHORIZED = {"www-authenticate": 'Bearer realm="paddock", Basic realm="paddock"'}

logger = logging.getLogger("paddock.server")
audit = logging.getLogger("paddock.audit")


@dataclass(frozen=True)
class Admitted:
    """A request that may go on."""

    route: Route
    principal: Principal | None
    served: Served | None


class HttpApi:
    """``tokens`` None: no token is asked for, for a server that its owner put behind another door."""

    def __init__(self, service: Service, gate: Gate, tokens: Tokens | None) -> None:
        self._service, self._gate, self._tokens = service, gate, tokens
        self._openenv = OpenEnvHttp(service)

    async def handle(self, request: Request) -> Response:
        """The response to any request; what goes wrong in here is a 500 with a number, and in the log."""
        began_s = time.monotonic()
        try:
            found = self._admitted(request, request.method)
            response = found if isinstance(found, Response) else await self._carry_out(found, request)
        except Exception:
            number = incident()
            logger.exception("incident %s in %s %s", number, request.method, request.path[:200])
            response = Response.of({"detail": f"Internal error (incident {number})."}, 500)
        self._service.metrics.count("paddock_requests_total", f'status="{response.status}"')
        logger.info("%s %s %d %.1f ms", request.method, request.path[:200], response.status, _ms_since(began_s))
        return response

    def socket(self, request: Request, out: Out) -> tuple[NativeSocket | OpenEnvSocket | Response, str | None]:
        """What serves a websocket, and the subprotocol that was chosen; or the response that refuses it."""
        found = self._admitted(request, "WS")
        if isinstance(found, Response):
            return found, None
        assert found.principal is not None
        assert found.served is not None
        offered = [one.strip() for one in request.headers.get("sec-websocket-protocol", "").split(",")]
        if found.route.name == "ws" and SUBPROTOCOL in offered:
            return NativeSocket(self._service, found.served, found.principal, out), SUBPROTOCOL
        return OpenEnvSocket(self._service, found.served, found.principal, out, rpc=found.route.name == "mcp"), None

    def _admitted(self, request: Request, method: str) -> Admitted | Response:
        refusal = self._gate.refusal(request.headers)
        if refusal is not None:
            return self._refused(request, 403, "gate", refusal)
        routes, served = self._routes(request.segments)
        if method != "WS" and any(route.roles is None for route in routes):  # /health alone
            return self._with_method(routes, method, None, served)
        principal = self._principal(request)
        if principal is None:
            return self._refused(request, 401, "token", "A token is needed.", _UNAUTHORIZED)
        found = self._with_method(routes, method, principal, served)
        if isinstance(found, Admitted) and found.route.roles is not None and principal.role not in found.route.roles:
            return self._refused(request, 403, "role", f"The role {principal.role!r} may not do this.")
        return found

    def _principal(self, request: Request) -> Principal | None:
        if self._tokens is None:
            return Principal("anyone", "operator")
        return self._tokens.principal(request.headers.get("authorization"))

    def _routes(self, segments: tuple[str, ...]) -> tuple[list[Route], Served | None]:
        """The routes at a path, whatever their methods, and the environment that it names."""
        environments = self._service.served
        if len(segments) == 2 and segments[0] in environments:
            return routes_named(segments[1], "env"), environments[segments[0]]
        if len(segments) == 2 and len(environments) == 1:  # the Task API calls it by any case of its name
            (only,) = environments.values()
            if segments[0].lower() == only.name.lower():
                return routes_named(segments[1], "env"), only
        if len(segments) > 1:
            return [], None
        name = segments[0] if segments else ""
        only_one = next(iter(environments.values())) if len(environments) == 1 else None
        return routes_named(name, "root") + (routes_named(name, "env") if only_one else []), only_one

    def _with_method(
        self, routes: list[Route], method: str, principal: Principal | None, served: Served | None
    ) -> Admitted | Response:
        production = self._service.settings.mode == "production"
        routes = [route for route in routes if route.in_production or not production]
        for route in routes:
            if route.method == method or (method == "HEAD" and route.method == "GET"):
                return Admitted(route, principal, served)
        allowed = [route.method for route in routes if route.method != "WS"]
        if allowed and method != "WS":
            return Response.of({"detail": "Method Not Allowed"}, 405, {"allow": ", ".join(allowed)})
        if routes and method != "WS":
            return Response.of({"detail": "This is a websocket."}, 426, {"upgrade": "websocket"})
        return Response.of({"detail": "Not Found"}, 404)

    def _refused(
        self, request: Request, status: int, why: str, text: str, headers: dict[str, str] | None = None
    ) -> Response:
        audit.warning("refused %s %s %s from %s", why, request.method, request.path[:200], request.peer)
        return Response.of({"detail": text}, status, headers)

    async def _carry_out(self, found: Admitted, request: Request) -> Response:
        if found.route.scope == "root":
            return self._root(found.route.name)
        assert found.principal is not None
        assert found.served is not None
        if self._service.wait_s(found.principal.name):
            return Response.of({"detail": "Too many requests."}, 429, {"retry-after": "1"})
        try:
            return await self._openenv.answer(found.route.name, found.served, found.principal, request)
        except PaddockError as error:
            status = 503 if error.retryable else 409
            return Response.of({"detail": str(error), "code": error.code}, status)

    def _root(self, name: str) -> Response:
        service = self._service
        if name == "health":
            return Response.of(service.health())
        if name == "metrics":
            text = service.metrics.text(
                paddock_sessions=service.active, paddock_uptime_seconds=time.monotonic() - service.began_s
            )
            return Response(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
        if name == "sessions":
            return Response.of({"sessions": service.listing()})
        if name == "openapi.json":
            return Response.of(openapi(service.settings.mode == "production"))
        names: list[Any] = list(service.served)
        return Response.of(names if name == "list_environments" else {"environments": names})


def _ms_since(began_s: float) -> float:
    return (time.monotonic() - began_s) * 1e3
