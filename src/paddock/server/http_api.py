"""HttpApi: requests to responses. First the gate, then the token, then the route; only then anything is done."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from paddock import __version__
from paddock.errors import (
    CapacityReached,
    Draining,
    NotPermitted,
    PaddockError,
    RateLimited,
    SessionGone,
    StorageFull,
    Unauthenticated,
    Unreachable,
)
from paddock.hosting.openenv.http_bodies import TASK_METHODS, unknown_environment
from paddock.hosting.remote_address import SUBPROTOCOL, WAITING
from paddock.server.gate import Gate
from paddock.server.handover import Handover
from paddock.server.http import Bodies, Request, Response
from paddock.server.link import incident
from paddock.server.logs import begin_trace
from paddock.server.native_socket import POLICY_VIOLATION, NativeSocket, Out
from paddock.server.openapi import openapi
from paddock.server.openenv_http import OpenEnvHttp
from paddock.server.openenv_socket import OpenEnvSocket
from paddock.server.passes import Passes
from paddock.server.principals import Principal, Tokens
from paddock.server.rates import AddressRates, network_of
from paddock.server.routes import Route, routes_named
from paddock.server.served import Served
from paddock.server.service import Service

_OPEN_PER_S, _LATE_S = 100.0, 0.05
_WEBSOCKETS_MORE = 32  # of one token, than its sessions may need
_ADDRESSES_A_SECOND, _ELSEWHERE = 100, "other addresses"  # that have lines of their own in the audit log
_STATUS: dict[type[PaddockError], int] = {
    SessionGone: 404,
    NotPermitted: 403,
    RateLimited: 429,
    CapacityReached: 503,
    Draining: 503,
    StorageFull: 503,
    Unreachable: 503,
}
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
        self.metrics = service.metrics
        self.bodies = Bodies()
        self._openenv = OpenEnvHttp(service)
        self._passes = Passes()
        self._handover = Handover(self._openenv.sessions, self._passes)
        per_s = service.settings.failures_per_s
        self._failures = AddressRates(per_s, max(1, int(10 * per_s)))
        open_per_s = max(_OPEN_PER_S, per_s)
        self._open_asks = AddressRates(open_per_s, int(open_per_s))  # beyond that the answer is late, or a 429
        self._refusals: Counter[tuple[str, str]] = Counter()  # of this second, by reason and address
        self._open: WeakKeyDictionary[Out, Principal] = WeakKeyDictionary()
        self._valid: set[str] = set()  # whose tokens were, at the last look
        service.each_second += [self._look_at_tokens, self._sum_up_refusals]

    def knows(self, request: Request) -> bool:
        """Whether it has a valid token. It may be refused all the same."""
        return self._principal(request) is not None

    async def handle(self, request: Request) -> Response:
        """The response to any request; what goes wrong in here is a 500 with a number, and in the log."""
        began_s = time.monotonic()
        begin_trace(request.headers.get("traceparent"))
        try:
            found = self._admitted(request, request.method)
            stranger = isinstance(found, Admitted) and found.principal is None
            if stranger and self._open_asks.wait_s(request.peer, began_s):
                await asyncio.sleep(_LATE_S)
            response = found if isinstance(found, Response) else await self._carry_out(found, request)
        except Exception:
            response = _failed(request)
        self._service.metrics.count("paddock_requests_total", f'status="{response.status}"')
        logger.info("%s %d %.1f ms", request, response.status, _ms_since(began_s))
        return response

    def socket(self, request: Request, out: Out) -> tuple[NativeSocket | OpenEnvSocket | Response, str | None]:
        """What serves a websocket, and the subprotocol that was chosen; or the response that refuses it."""
        try:
            found = self._admitted(request, "WS")
            opened = (found, None) if isinstance(found, Response) else self._opened(found, request, out)
        except Exception:
            opened = _failed(request), None
        else:
            if isinstance(found, Admitted) and found.principal is not None and not isinstance(opened[0], Response):
                self._open[out] = found.principal
        status = opened[0].status if isinstance(opened[0], Response) else 101
        self._service.metrics.count("paddock_requests_total", f'status="{status}"')
        return opened

    def forget(self, out: Out) -> None:
        """A websocket has ended."""
        self._open.pop(out, None)

    def _look_at_tokens(self) -> None:
        """End what a token holds that has ended or was withdrawn: its sessions, their passes and its websockets."""
        if self._tokens is None:
            return
        now = self._tokens.names()
        # Twice in a row: a file that is being rewritten may lack them for a moment.
        valid, self._valid = now | self._valid, now
        for live in self._service.sessions_of_others(valid):
            audit.warning("ended session: the token of its owner is not valid any more", extra=live.named)
            live.close(Unauthenticated.code, "Its token is not valid any more.")
        for out, principal in list(self._open.items()):
            if not (principal.name in valid if principal.session is None else self._passes.hold(principal)):
                audit.warning("closed token of %s", principal.name)
                self._open.pop(out, None)
                out.close(POLICY_VIOLATION, Unauthenticated.code)

    def _opened(
        self, found: Admitted, request: Request, out: Out
    ) -> tuple[NativeSocket | OpenEnvSocket | Response, str | None]:
        assert found.principal is not None
        assert found.served is not None
        # Two for each session: one that is lost may not be known to be when its session is resumed on another.
        most = 2 * self._service.settings.quota(found.principal.role)[1] + _WEBSOCKETS_MORE
        if sum(one.name == found.principal.name for one in self._open.values()) >= most:
            detail = f"You already have {most} websockets, the most that one token may have. Close one."
            return Response.of({"detail": detail, "code": CapacityReached.code}, 503, _later(1.0)), None
        offered = [one.strip() for one in request.headers.get("sec-websocket-protocol", "").split(",")]
        if found.route.name == "ws" and SUBPROTOCOL in offered:
            waits = WAITING in offered
            return NativeSocket(self._service, found.served, found.principal, out, waits=waits), SUBPROTOCOL
        rpc, id = found.route.name == "mcp", request.query_value("session_id")
        id = found.principal.session or (None if rpc else id)
        join = None if id is None else (self._openenv.sessions, id)
        return OpenEnvSocket(self._service, found.served, found.principal, out, rpc=rpc, join=join), None

    def _admitted(self, request: Request, method: str) -> Admitted | Response:
        refusal = self._gate.refusal(request.headers)
        if refusal is not None:
            return self.too_often(request) or self._refused(request, 403, "gate", refusal)
        routes, served = self._routes(request.segments)
        if method != "WS" and any(route.roles is None for route in routes):  # /health, and what is below it
            found = self._with_method(routes, method, None, served)
            return found if isinstance(found, Admitted) else self.too_often(request) or found
        principal = self._principal(request)
        if principal is None:
            return self._unknown(request)
        wait_s = self._service.wait_s(principal.name)
        if wait_s:
            return self._refused(request, 429, "rate", "Too many requests.", _later(wait_s))
        if not routes and len(request.segments) == 2 and request.segments[1] in TASK_METHODS:
            missing = unknown_environment(request.segments[0])
            return Response(missing.status, missing.body)
        found = self._with_method(routes, method, principal, served)
        if isinstance(found, Admitted) and found.route.roles is not None and principal.role not in found.route.roles:
            return self._refused(request, 403, "role", f"The role {principal.role!r} may not do this.")
        return found

    def _principal(self, request: Request) -> Principal | None:
        shown = request.headers.get("authorization")
        handed = self._passes.principal(shown)
        if handed is not None or self._tokens is not None:
            return handed or self._tokens.principal(shown)  # type: ignore[union-attr]
        return Principal("anyone", "operator")

    def too_often(self, request: Request) -> Response | None:
        """The 429 in place of a refusal before any token, if the address has had too many; this one counts."""
        wait_s = self._open_asks.wait_s(request.peer, time.monotonic())
        return self._refused(request, 429, "rate", "Too many requests.", _later(wait_s)) if wait_s else None

    def _unknown(self, request: Request) -> Response:
        """Refuse an unknown caller: 401, or 429 after too many tries.

        Known callers at the same address are not affected.
        """
        wait_s = self._failures.wait_s(request.peer, time.monotonic())
        if wait_s:
            return self._refused(request, 429, "tries", "Too many requests without a valid token.", _later(wait_s))
        return self._refused(request, 401, "token", "A token is needed.", _UNAUTHORIZED)

    def _routes(self, segments: tuple[str, ...]) -> tuple[list[Route], Served | None]:
        """The routes at a path, whatever their methods, and the environment that it names."""
        environments = self._service.served
        if len(segments) == 2 and segments[0] in environments:
            return routes_named(segments[1], "env"), environments[segments[0]]
        if len(segments) == 2 and len(environments) == 1:  # the Task API calls it by any case of its name
            (only,) = environments.values()
            if segments[0].lower() == only.name.lower():
                return routes_named(segments[1], "env"), only
        if len(segments) == 2:
            path = "sessions/{session}" if segments[0] == "sessions" else "/".join(segments)
            if at_root := routes_named(path, "root"):
                return at_root, None
        if len(segments) > 1:  # an id with a slash, written as it is read: /ALE/Pong-v5/ws
            named = environments.get("/".join(segments[:-1]))
            return ([], None) if named is None else (routes_named(segments[-1], "env"), named)
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
        allowed: list[str] = [route.method for route in routes if route.method != "WS"]
        allowed += ["HEAD"] if "GET" in allowed else []
        if allowed and method != "WS":
            return Response.of({"detail": "Method Not Allowed"}, 405, {"allow": ", ".join(allowed)})
        if routes and method != "WS":
            return Response.of({"detail": "This is a websocket."}, 426, {"upgrade": "websocket"})
        # Who asks for a websocket is a client that looks for an environment; it may list them by GET / just as well.
        known = {"environments": list(self._service.served)} if method == "WS" else {}
        return Response.of({"detail": "Not Found", **known}, 404)

    def _refused(
        self, request: Request, status: int, why: str, text: str, headers: dict[str, str] | None = None
    ) -> Response:
        address = network_of(request.peer)
        if (why, address) not in self._refusals and len(self._refusals) >= _ADDRESSES_A_SECOND:
            address = _ELSEWHERE
        self._refusals[why, address] += 1
        if self._refusals[why, address] == 1:
            audit.warning("refused %s %s from %s", why, request, request.peer)
        return Response.of({"detail": text}, status, headers)

    def _sum_up_refusals(self) -> None:
        """One line for those of a second beyond the first, so that nobody fills the disk with them."""
        for (why, address), count in self._refusals.items():
            if count > 1:
                audit.warning("refused %s %d times more from %s", why, count - 1, address)
        self._refusals.clear()

    async def _carry_out(self, found: Admitted, request: Request) -> Response:
        try:
            if found.route.scope == "root":
                return self._root(found, request)
            assert found.principal is not None
            assert found.served is not None
            if found.route.name == "handover":
                return self._handover.answer(found.served, found.principal, request)
            return await self._openenv.answer(found.route.name, found.served, found.principal, request)
        except tuple(_STATUS) as error:  # those alone have words for a peer; any other is an incident
            status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
            headers = _later(1.0) if error.retryable else None
            return Response.of({"detail": str(error), "code": error.code}, status, headers)

    def _root(self, found: Admitted, request: Request) -> Response:
        service, name = self._service, found.route.name
        if name == "health":
            return Response.of(service.health())
        if name == "health/live":
            return Response.of({"live": True, **self._counts(request)})
        if name == "health/ready":
            ready = service.ready
            return Response.of({"ready": ready, **self._counts(request)}, 200 if ready else 503)
        if name == "sessions/{session}":
            return self._kill(found, request)
        if name == "metrics":
            text = service.metrics.text(**service.gauges())
            return Response(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
        if name == "sessions":
            return Response.of({"sessions": service.listing()})
        if name == "openapi.json":
            return Response.of(openapi(service.served, production=service.settings.mode == "production"))
        names: list[Any] = list(service.served)
        return Response.of(names if name == "list_environments" else {"environments": names})

    def _counts(self, request: Request) -> dict[str, Any]:
        """Extra fields of a health answer, for operators."""
        principal = self._principal(request)
        if principal is None or principal.role != "operator":
            return {}
        return {"version": __version__, "sessions": self._service.active, "workers": self._service.workers}

    def _kill(self, found: Admitted, request: Request) -> Response:
        assert found.principal is not None
        live = self._service.kill(request.segments[1])
        audit.warning("ended session: killed by %s", found.principal.name, extra=live.named)
        return Response.of(live.named)


def _failed(request: Request) -> Response:
    number = incident()
    logger.exception("incident %s in %s", number, request)
    return Response.of({"detail": f"Internal error (incident {number})."}, 500)


def _later(wait_s: float) -> dict[str, str]:
    return {"retry-after": str(math.ceil(wait_s))}


def _ms_since(began_s: float) -> float:
    return (time.monotonic() - began_s) * 1e3
