"""HttpApi: requests to responses. It checks the origin, then the token, then the route, before it does anything."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import quote
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
from paddock.hosting.mcp import SESSION_HEADER as MCP_SESSION_HEADER
from paddock.hosting.openenv import json_rpc
from paddock.hosting.openenv.http_bodies import NO_WEB, TASK_METHODS, schema_body
from paddock.hosting.remote_address import SUBPROTOCOLS, WAITING
from paddock.server.auth import (
    AddressRates,
    OriginCheck,
    Passes,
    Principal,
    Role,
    Tokens,
    network_of,
    token_digest,
    token_from,
)
from paddock.server.http import BODIES_BYTES, BodyBudget, Request, Response
from paddock.server.http_sessions import SESSION_HEADER, Handover
from paddock.server.native_socket import POLICY_VIOLATION, NativeSocket, Out
from paddock.server.openenv import OpenEnvHttp, OpenEnvSocket
from paddock.server.processes import SIBLING
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service
from paddock.server.telemetry import Metrics, begin_trace

_OPEN_PER_S, _LATE_S = 100.0, 0.05
_STATUS_S = 1.0  # how old the status of all processes may be
_WEBSOCKETS_MORE = 32  # per token, beyond what its sessions may need
_ADDRESSES_A_SECOND, _ELSEWHERE = 100, "other addresses"  # with their own lines in the audit log
_STATUS: dict[type[PaddockError], int] = {
    SessionGone: 404,
    NotPermitted: 403,
    RateLimited: 429,
    CapacityReached: 503,
    Draining: 503,
    StorageFull: 503,
    Unreachable: 503,
}
MARK_HEADER = "x-paddock-mark"  # with /health: what the ids of this server's sessions end with
_UNAUTHORIZED = {"www-authenticate": 'Bearer realm="paddock", Basic realm="paddock"'}

logger = logging.getLogger("paddock.server")
audit = logging.getLogger("paddock.audit")


@dataclass(frozen=True)
class Admission:
    """What an admitted request asks for, and who asks."""

    route: Route
    principal: Principal | None
    served: ServedEnv | None


class HttpApi:
    """``tokens`` None: no token is needed, for a server whose owner protects it otherwise.

    ``document`` returns the OpenAPI document, if it has more than the service's own routes.
    """

    def __init__(
        self,
        service: Service,
        origin_check: OriginCheck,
        tokens: Tokens | None,
        document: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._service, self._origin_check, self._tokens = service, origin_check, tokens
        production = service.settings.mode == "production"
        self._document = document or partial(openapi, service.served, production=production)
        self.metrics = service.metrics
        processes = self.processes = service.processes
        self.bodies = BodyBudget(max(service.settings.max_body, BODIES_BYTES // processes.count))
        self._openenv = OpenEnvHttp(service)
        self._passes = Passes(processes.new_pass, partial(processes.publish, "passes"))
        self._handover = Handover(self._openenv.sessions, self._passes)
        per_s = service.settings.failures_per_s
        self._failures = AddressRates(per_s, max(1, int(10 * per_s)), processes.buckets("failures"))
        open_per_s = max(_OPEN_PER_S, per_s)
        # Beyond that the answer is delayed, or a 429.
        self._open_asks = AddressRates(open_per_s, int(open_per_s), processes.buckets("open"))
        self._refusals: Counter[tuple[str, str]] = Counter()  # of this second, by reason and address
        self._most_refusals = processes.share(_ADDRESSES_A_SECOND)
        self._open: WeakKeyDictionary[Out, Principal] = WeakKeyDictionary()
        self._valid: set[str] = set()  # principals whose tokens were valid at the last check
        self._together: tuple[float, dict[str, Any]] | None = None
        self.relays = 0  # that are not answered yet
        service.each_second += [self._end_withdrawn, self._sum_up_refusals]

    def knows(self, request: Request) -> bool:
        """Whether the request has a valid token. It may still be refused."""
        return self._principal(request) is not None or self._holder_of_pass(request) is not None

    def holder(self, request: Request) -> int | None:
        """Return which other process has the session that a known peer's request is for, if another has it."""
        if self.processes.count == 1 or request.relayed:
            return None
        if (by_pass := self._holder_of_pass(request)) is not None:
            return by_pass
        principal = self._principal(request)
        if principal is None or principal.session is not None:  # a pass of this process is for a session of its own
            return None
        id = session_of(request)
        return None if id is None else self.processes.elsewhere(id)

    def _holder_of_pass(self, request: Request) -> int | None:
        token = token_from(request.headers.get("authorization")) or ""
        holder = self.processes.holder_of_pass(token)
        # The signature alone says only that it was valid once.
        valid = holder is not None and token_digest(token).hex() in self.processes.of_others("passes")
        return holder if valid else None

    async def handle(self, request: Request) -> Response:
        """Return the response to any request. A bug in here is a 500 with an incident number, and in the log."""
        began_s = time.monotonic()
        begin_trace(request.headers.get("traceparent"))
        if request.peer == SIBLING:
            return Response.of(self._answer_sibling(request))
        try:
            elsewhere = self.holder(request)
            if elsewhere is not None:  # which checks, counts and logs the request
                return await self._relay(elsewhere, request)
            found = self._admit(request, request.method)
            stranger = isinstance(found, Admission) and found.principal is None
            if stranger and self._open_asks.wait_s(request.peer, began_s):
                await asyncio.sleep(_LATE_S)
            response = found if isinstance(found, Response) else await self._carry_out(found, request)
        except Exception:
            response = report_incident(request)
        self._service.metrics.count("paddock_requests_total", f'status="{response.status}"')
        logger.info("%s %d %.1f ms", request, response.status, (time.monotonic() - began_s) * 1e3)
        return response

    def socket(self, request: Request, out: Out) -> tuple[NativeSocket | OpenEnvSocket | Response, str | None]:
        """Return what serves a websocket and the chosen subprotocol, or the response that refuses it."""
        return copy_context().run(self._socket, request, out)  # which has the trace of this request

    def _socket(self, request: Request, out: Out) -> tuple[NativeSocket | OpenEnvSocket | Response, str | None]:
        begin_trace(request.headers.get("traceparent"))
        try:
            found = self._admit(request, "WS")
            opened = (found, None) if isinstance(found, Response) else self._open_socket(found, request, out)
        except Exception:
            opened = report_incident(request), None
        else:
            if isinstance(found, Admission) and found.principal is not None and not isinstance(opened[0], Response):
                self._open[out] = found.principal
                self._publish()
        status = opened[0].status if isinstance(opened[0], Response) else 101
        self._service.metrics.count("paddock_requests_total", f'status="{status}"')
        return opened

    def forget(self, out: Out) -> None:
        """Stop counting a websocket that has ended."""
        self._open.pop(out, None)
        self._publish()

    def _publish(self) -> None:
        self.processes.publish("websockets", Counter(principal.name for principal in self._open.values()))

    def _end_withdrawn(self) -> None:
        """End the sessions, passes and websockets of tokens that expired or were withdrawn."""
        if self._tokens is None:
            return
        now = self._tokens.names()
        # Only those missing twice in a row: a file that is being rewritten may lack them for a moment.
        valid, self._valid = now | self._valid, now
        for live in self._service.sessions_of_others(valid):
            audit.warning("ended session: the token of its owner is no longer valid", extra=live.labels)
            live.close(Unauthenticated.code, "Its token is no longer valid.")
        for out, principal in list(self._open.items()):
            if not (principal.name in valid if principal.session is None else self._passes.is_valid(principal)):
                audit.warning("closed token of %s", principal.name)
                self._open.pop(out, None)
                out.close(POLICY_VIOLATION, Unauthenticated.code)

    def _open_socket(
        self, found: Admission, request: Request, out: Out
    ) -> tuple[NativeSocket | OpenEnvSocket | Response, str | None]:
        assert found.principal is not None
        assert found.served is not None
        # Two per session: a lost one may not be noticed yet when its session is resumed on another.
        most = 2 * self._service.settings.quota(found.principal.role)[1] + _WEBSOCKETS_MORE
        own = sum(one.name == found.principal.name for one in self._open.values())
        if own + self.processes.of_others("websockets")[found.principal.name] >= most:
            detail = f"You already have {most} websockets, the most that one token may have. Close one."
            return Response.of({"detail": detail, "code": CapacityReached.code}, 503, _later(1.0)), None
        offered = [one.strip() for one in request.headers.get("sec-websocket-protocol", "").split(",")]
        native = next((one for one in SUBPROTOCOLS if one in offered), None)
        if found.route.name == "ws" and native is not None:
            waits = WAITING in offered
            return NativeSocket(self._service, found.served, found.principal, out, waits=waits), native
        rpc, id = found.route.name == "mcp", request.query_value("session_id")
        id = found.principal.session or (None if rpc else id)
        join = None if id is None else (self._openenv.sessions, id)
        return OpenEnvSocket(self._service, found.served, found.principal, out, rpc=rpc, join=join), None

    def _admit(self, request: Request, method: str) -> Admission | Response:
        refusal = self._origin_check.refusal(request.headers)
        if refusal is not None:
            return self.too_often(request) or self._refuse(request, 403, "gate", refusal)
        routes, served = self._routes(request.segments)
        if method != "WS" and any(route.roles is None for route in routes):  # /health, and what is below it
            found = self._with_method(routes, method, None, served)
            return found if isinstance(found, Admission) else self.too_often(request) or found
        principal = self._principal(request)
        if principal is None:
            return self._refuse_unknown(request)
        wait_s = self._service.quotas.wait_s(principal.name, time.monotonic())
        if wait_s:
            return self._refuse(request, 429, "rate", "Too many requests.", _later(wait_s))
        if not routes and len(request.segments) == 2 and request.segments[1] in TASK_METHODS:
            return Response.of({"detail": f"unknown environment {request.segments[0]!r}"}, 404)
        if not routes and method != "WS" and request.segments[:1] == ("web",):  # where OpenEnv has its page
            return Response.of({"detail": NO_WEB}, 501)
        found = self._with_method(routes, method, principal, served)
        if isinstance(found, Admission) and found.route.roles is not None and principal.role not in found.route.roles:
            return self._refuse(request, 403, "role", f"The role {principal.role!r} may not do this.")
        return found

    def _principal(self, request: Request) -> Principal | None:
        authorization = request.headers.get("authorization")
        by_pass = self._passes.principal(authorization)
        if by_pass is not None:
            return by_pass
        return Principal("anyone", "operator") if self._tokens is None else self._tokens.principal(authorization)

    def too_often(self, request: Request) -> Response | None:
        """Count a refusal before any token; return the 429 to send instead if the address has had too many."""
        wait_s = self._open_asks.wait_s(request.peer, time.monotonic())
        return self._refuse(request, 429, "rate", "Too many requests.", _later(wait_s)) if wait_s else None

    def _refuse_unknown(self, request: Request) -> Response:
        """Refuse an unknown caller: 401, or 429 after too many tries.

        Known callers at the same address are not affected.
        """
        wait_s = self._failures.wait_s(request.peer, time.monotonic())
        if wait_s:
            return self._refuse(request, 429, "tries", "Too many requests without a valid token.", _later(wait_s))
        given = token_from(request.headers.get("authorization")) is not None
        text = "This token is not valid: it is not known here, or it has expired." if given else "A token is needed."
        return self._refuse(request, 401, "token", text, _UNAUTHORIZED)

    def _routes(self, segments: tuple[str, ...]) -> tuple[list[Route], ServedEnv | None]:
        """Return the routes at a path, whatever their methods, and the environment that it names."""
        environments = self._service.served
        if len(segments) == 2 and segments[0] in environments:
            return routes_named(segments[1], "env"), environments[segments[0]]
        if len(segments) == 2 and len(environments) == 1:  # the Task API ignores the case of its name
            (only,) = environments.values()
            if segments[0].lower() == only.name.lower():
                return routes_named(segments[1], "env"), only
        if len(segments) == 2:
            path = "sessions/{session}" if segments[0] == "sessions" else "/".join(segments)
            if at_root := routes_named(path, "root"):
                return at_root, None
        if len(segments) > 1:  # an id with a plain slash: /ALE/Pong-v5/ws
            named = environments.get("/".join(segments[:-1]))
            return ([], None) if named is None else (routes_named(segments[-1], "env"), named)
        name = segments[0] if segments else ""
        only_one = next(iter(environments.values())) if len(environments) == 1 else None
        return routes_named(name, "root") + (routes_named(name, "env") if only_one else []), only_one

    def _with_method(
        self, routes: list[Route], method: str, principal: Principal | None, served: ServedEnv | None
    ) -> Admission | Response:
        production = self._service.settings.mode == "production"
        routes = [route for route in routes if route.in_production or not production]
        for route in routes:
            if route.method == method or (method == "HEAD" and route.method == "GET"):
                return Admission(route, principal, served)
        allowed: list[str] = [route.method for route in routes if route.method != "WS"]
        allowed += ["HEAD"] if "GET" in allowed else []
        if allowed and method != "WS":
            return Response.of({"detail": "Method Not Allowed"}, 405, {"allow": ", ".join(allowed)})
        if routes and method != "WS":
            return Response.of({"detail": "This is a websocket."}, 426, {"upgrade": "websocket"})
        # For callers that are looking for an environment; their token would list them by GET / too.
        by_token = served is None and principal is not None and principal.session is None
        known = {"environments": list(self._service.served)} if method == "WS" or by_token else {}
        return Response.of({"detail": "Not Found", **known}, 404)

    def _refuse(
        self, request: Request, status: int, why: str, text: str, headers: dict[str, str] | None = None
    ) -> Response:
        address = network_of(request.peer)
        if (why, address) not in self._refusals and len(self._refusals) >= self._most_refusals:
            address = _ELSEWHERE
        self._refusals[why, address] += 1
        if self._refusals[why, address] == 1:
            audit.warning("refused %s %s from %s", why, request, request.peer)
        return Response.of({"detail": text}, status, headers)

    def _sum_up_refusals(self) -> None:
        """Log one line for all but the first refusal of a second, so that a flood does not fill the disk."""
        for (why, address), count in self._refusals.items():
            if count > 1:
                audit.warning("refused %s %d times more from %s", why, count - 1, address)
        self._refusals.clear()

    async def _carry_out(self, found: Admission, request: Request) -> Response:
        try:
            if found.route.scope == "root":
                return await self._root(found, request)
            assert found.principal is not None
            assert found.served is not None
            if found.route.name == "handover":
                return self._handover.answer(found.served, found.principal, request)
            return await self._openenv.answer(found.route.name, found.served, found.principal, request)
        except tuple(_STATUS) as error:  # only these have a text for peers; any other is an incident
            return _failed(error)

    async def _relay(self, index: int, request: Request) -> Response:
        self.relays += 1
        try:
            return await self.processes.ask(index, request)
        except Unreachable as error:
            return _failed(error)
        finally:
            self.relays -= 1

    def _answer_sibling(self, request: Request) -> Any:
        """Tell another process of this server what it needs to answer for all."""
        service, what = self._service, request.path.strip("/")
        owner = request.query_value("owner") or ""
        if what == "idle_since":
            return service.idle_since(owner)
        if what == "end_idle":
            return service.end_idle(owner)
        if what == "metrics":
            return {"gauges": service.gauges(), **service.metrics.dump()}
        return service.listing() if what == "sessions" else service.status()

    async def _gather(self, what: str) -> list[Any]:
        """Return what the other processes say; those that don't answer are None."""
        return await asyncio.gather(*(self.processes.ask_for(what, index) for index in self.processes.others))

    async def _status(self, request: Request) -> dict[str, Any]:
        """Return how all processes are together. For strangers, who may ask often, it may be a second old."""
        now_s, alone = time.monotonic(), self.processes.count == 1
        if alone or self._together is None or now_s - self._together[0] > _STATUS_S or self.knows(request):
            found = [self._service.status(), *(await self._gather("status"))]
            here = [one for one in found if one is not None]
            counts = ("workers", "workers_starting", "sessions_waiting")
            sums = {name: sum(one[name] for one in here) for name in counts}
            facts = {name: len(here) == len(found) and all(one[name] for one in here) for name in ("healthy", "ready")}
            self._together = now_s, {**facts, **sums}
        return self._together[1]

    async def _metrics(self) -> str:
        total, gauges = Metrics(), Counter[str]()
        own = {"gauges": self._service.gauges(), **self._service.metrics.dump()}
        others = await self._gather("metrics")
        if None in others:  # a counter that falls would be taken for one that began again
            raise Unreachable("A process of this server does not answer. Try again.")
        for one in [own, *others]:
            total.add(one)
            gauges.update(one["gauges"])
        return total.text(**gauges, paddock_uptime_seconds=time.monotonic() - self.processes.began_s)

    async def _root(self, found: Admission, request: Request) -> Response:
        service, name = self._service, found.route.name
        if name.startswith("health"):
            status, mark = await self._status(request), {MARK_HEADER: self.processes.mark}
            if name == "health":
                queue = {one: status[one] for one in ("workers_starting", "sessions_waiting")}
                word = "healthy" if status["healthy"] else "degraded"
                return Response.of({"status": word, **(queue if status["sessions_waiting"] else {})}, 200, mark)
            facts = {"live": True} if name == "health/live" else {"ready": status["ready"]}
            principal = self._principal(request)
            if principal is not None and principal.role == "operator":
                facts |= {"version": __version__, "sessions": service.active, "workers": status["workers"]}
            return Response.of(facts, 200 if facts.get("ready", True) else 503, mark)
        if name == "sessions/{session}":
            assert found.principal is not None
            live = service.kill(request.segments[1])
            audit.warning("ended session: killed by %s", found.principal.name, extra=live.labels)
            return Response.of(live.labels)
        if name == "metrics":
            return Response(
                200, (await self._metrics()).encode(errors="replace"), "text/plain; version=0.0.4; charset=utf-8"
            )
        if name == "sessions":
            rows = [row for rows in (service.listing(), *await self._gather("sessions")) for row in rows or ()]
            return Response.of({"sessions": sorted(rows, key=lambda row: -row["age_s"])})
        if name == "openapi.json":
            return Response.of(self._document())
        names: list[Any] = list(service.served)
        return Response.of(names if name == "list_environments" else {"environments": names})


def session_of(request: Request) -> str | None:
    """Return the id of the session that a request is for, from where its route looks for it."""
    segments = request.segments
    if len(segments) == 2 and segments[0] == "sessions":
        return segments[1]
    if segments[-1:] == ("ws",):
        return request.query_value("session_id")
    if segments[-1:] != ("mcp",):
        return request.headers.get(SESSION_HEADER)
    if MCP_SESSION_HEADER not in request.headers and b"session_id" in request.body:  # OpenEnv's JSON-RPC
        rpc = json_rpc.read(request.body)
        return rpc.session if isinstance(rpc, json_rpc.RpcRequest) else None
    return request.headers.get(MCP_SESSION_HEADER)


def _failed(error: PaddockError) -> Response:
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    after_s = getattr(error, "retry_after_s", None) or 1.0
    return Response.of({"detail": str(error), "code": error.code}, status, _later(after_s) if error.retryable else None)


def report_incident(request: Request) -> Response:
    """Log the exception that is being handled; return the 500 with its number, which is all that a peer learns."""
    number = secrets.token_hex(6)
    logger.exception("incident %s in %s", number, request)
    return Response.of({"detail": f"Internal error (incident {number})."}, 500)


def _later(wait_s: float) -> dict[str, str]:
    return {"retry-after": str(math.ceil(wait_s))}


# ── The routes as data, with who may use each, and the OpenAPI document made from them ──
#
# Both are tested against. The access tests are made from the table. A generator makes requests from the document, and
# each answer must be one it declares, so it also declares what OpenEnv's servers are lenient about (a seed as a string
# of digits).

EVERYONE: frozenset[Role] = frozenset(("operator", "agent", "observer"))
OPERATOR: frozenset[Role] = frozenset(("operator",))
ACTING: frozenset[Role] = frozenset(("operator", "agent"))
WATCHING: frozenset[Role] = frozenset(("operator", "observer"))


@dataclass(frozen=True)
class Route:
    """``roles`` None: open to anyone. "env" routes are below an environment's name, or at the root if there is one."""

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
    """Return the routes of one path, one per method."""
    return [route for route in ROUTES if route.name == name and route.scope == scope]


Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_DIGITS: Schema = {"type": "string", "pattern": r"^[ \t]*(\+?[0-9]{1,300}|-0{1,300})[ \t]*$"}
_SECONDS: Schema = {
    "type": "string",
    "pattern": r"^[ ]*\+?([0-9]*[1-9][0-9]{0,8}(\.[0-9]{0,9})?|[0-9]*\.[0-9]{0,9}[1-9])[ ]*$",
}
_SEED: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, _DIGITS, {"type": "boolean"}, _NULL]}
_TIMEOUT: Schema = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _SECONDS, {"const": True}, _NULL]}
_NAME: Schema = {"anyOf": [{"type": "string", "maxLength": 255}, _NULL]}
_ERROR: Schema = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
        "code": {"type": "string"},
    },
}
_RESULT: Schema = {
    "type": "object",
    "required": ["observation", "reward", "done"],
    "properties": {
        "observation": {"type": "object"},
        "reward": {"anyOf": [{"type": "number"}, _NULL]},
        "done": {"type": "boolean"},
        "metadata": {"anyOf": [{"type": "object"}, _NULL]},
    },
}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_ANSWERS: dict[str, Schema] = {
    "health": {"type": "object", "required": ["status"], "properties": {"status": {"enum": ["healthy", "degraded"]}}},
    "health/live": {"type": "object", "required": ["live"], "properties": {"live": {"const": True}}},
    "health/ready": {"type": "object", "required": ["ready"], "properties": {"ready": {"const": True}}},
    "": {"type": "object", "required": ["environments"], "properties": {"environments": _TEXTS}},
    "list_environments": _TEXTS,
    "metrics": {"type": "string"},
    "sessions": {"type": "object", "required": ["sessions"], "properties": {"sessions": {"type": "array"}}},
    "sessions/{session}": {"type": "object", "required": ["session", "environment", "principal"]},
    "openapi.json": {"type": "object", "required": ["openapi", "info", "paths"]},
    "reset": _RESULT,
    "step": _RESULT,
    "state": {"type": "object", "required": ["episode_id", "step_count"]},
    "metadata": {"type": "object", "required": ["name", "description"]},
    "schema": {"type": "object", "required": ["action", "observation", "state"]},
    "mcp": {"type": "object", "required": ["jsonrpc", "id"], "properties": {"jsonrpc": {"const": "2.0"}}},
    "DELETE mcp": {"type": "object"},
    "POST handover": {"type": "object", "required": ["token", "mcp"], "properties": {"token": {"type": "string"}}},
    "GET handover": {"type": "object", "required": ["session", "begun", "steps", "return"]},
}
_REFUSALS = {
    "400": "The request is malformed.",
    "401": "A valid token is needed.",
    "403": "Not allowed from there, or for this role.",
    "404": "There is no such thing.",
    "405": "The path does not have this method.",
    "413": "The body is too large.",
    "414": "The URL is too long.",
    "429": "Too many requests; Retry-After says when to try again.",
    "431": "The headers are too large.",
}
_OF_EPISODES = {
    "409": "The environment can't do this now.",
    "410": "The session has ended.",
    "422": "The body is not what was expected.",
    "500": "The environment failed.",
    "503": "Not now; Retry-After says when to try again.",
}
# MCP's own refusals are JSON-RPC, with these and some of the others.
_OF_MCP = {
    "400": "The message is malformed, or of an unsupported protocol.",
    "404": "There is no such session.",
    "406": "The answer would be JSON.",
    "415": "The message is not JSON.",
}
# Further properties belong to the environment's tools.
_TOOL_ACTION: Schema = {"type": "object", "properties": {"type": {"type": "string"}}}
_EPISODES = ("reset", "step", "state")
# The Task API's routes are left out: few environments have tasks, and the others answer 501.
_TASKS = ("splits", "tasks", "num_tasks", "task", "task_range")
_SESSION, _MCP_SESSION = "X-Paddock-Session", "Mcp-Session-Id"


def openapi(served: Mapping[str, ServedEnv], *, production: bool) -> dict[str, Any]:
    """Write the document for these environments. A single one has its routes at the root, others below their names."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        if route.method == "WS" or route.name in _TASKS or (production and not route.in_production):
            continue
        owners = list(served.values()) if route.scope == "env" else [None]
        for one in owners:
            below = f"/{quote(one.name, safe='')}" if one is not None and len(owners) > 1 else ""
            operation = _operation(route, one, below.strip("/"))
            paths.setdefault(f"{below}/{route.name}", {})[route.method.lower()] = operation
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenEnv Environment HTTP API", "version": "1.0.0"},
        "paths": paths,
        "components": {"securitySchemes": schemes, "schemas": {"Error": _ERROR}},
    }


def _operation(route: Route, served: ServedEnv | None, owner: str) -> dict[str, Any]:
    kind = "text/plain" if route.name == "metrics" else "application/json"
    answer = _ANSWERS.get(f"{route.method} {route.name}") or _ANSWERS[route.name]
    done: dict[str, Any] = {"description": "Done.", "content": {kind: {"schema": answer}}}
    operation: dict[str, Any] = {"operationId": _id(route, owner), "responses": {"200": done}}
    refusals = {**_REFUSALS, **_OF_EPISODES} if route.name in _EPISODES else _REFUSALS
    refusals = {**refusals, "503": _OF_EPISODES["503"]} if route.name == "metrics" else refusals
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation["responses"].update(
        {status: {"description": words, "content": content} for status, words in refusals.items()}
    )
    if route.name == "health/ready":
        operation["responses"]["503"] = {"description": "Not ready.", "content": {kind: {"schema": {"type": "object"}}}}
    if route.name == "sessions/{session}":
        words = "The beginning of a session's id, as /sessions lists it."
        operation["parameters"] = [_parameter("session", words, required=True) | {"in": "path"}]
    operation["security"] = [] if route.roles is None else [{"bearer": []}, {"basic": []}]
    if route.name in _EPISODES:
        done["headers"] = {_SESSION: {"schema": {"type": "string"}, "description": "The session, if it stays."}}
        if route.name == "reset":  # without a session, the others leave none behind
            done["links"] = {name: _link(name, owner) for name in _EPISODES}
        words = "A session that a reset began; without it, the request has an environment of its own."
        operation["parameters"] = [_parameter(_SESSION, words)]
    if route.name == "handover":
        operation["parameters"] = [_parameter(_SESSION, "The session to hand over.", required=True)]
    if route.name == "mcp":
        ends = route.method == "DELETE"
        operation["parameters"] = [_parameter(_MCP_SESSION, "A session that initialize began.", required=ends)]
    if route.name == "mcp" and route.method == "POST":  # beside OpenEnv's JSON-RPC, which is always answered with 200
        either = {"anyOf": [_ANSWERS["mcp"], {"$ref": "#/components/schemas/Error"}]}
        refused = {"application/json": {"schema": either}}
        operation["responses"].update(
            {status: {"description": words, "content": refused} for status, words in _OF_MCP.items()}
        )
        operation["responses"]["202"] = {"description": "The notification was accepted."}
    body = None if served is None or route.method != "POST" else _body(route.name, served)
    if body is not None:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": body}},
            "required": route.name in ("step", "mcp"),
        }
    return operation


def _id(route: Route, owner: str) -> str:
    return "_".join(filter(None, (route.method.lower(), owner, re.sub(r"\W+", "_", route.name).strip("_") or "root")))


def _link(name: str, owner: str) -> dict[str, Any]:
    """Link to an operation that continues the episode with the session that the answer names."""
    (route,) = [one for one in ROUTES if one.name == name]
    parameters = {f"header.{_SESSION}": f"$response.header.{_SESSION}"}
    return {"operationId": _id(route, owner), "parameters": parameters}


def _parameter(name: str, words: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "description": words, "schema": {"type": "string"}}


def _body(route: str, served: ServedEnv) -> Schema:
    if route == "reset":
        return {"type": "object", "properties": {"seed": _SEED, "episode_id": _NAME}}
    if route == "step":
        properties = {"action": _action(served), "timeout_s": _TIMEOUT, "request_id": _NAME}
        return {"type": "object", "required": ["action"], "properties": properties}
    return {}  # JSON-RPC answers anything, even what is not a request


def _action(served: ServedEnv) -> Schema:
    about = served.described
    if about.tools is not None:
        return _TOOL_ACTION
    text = json.loads(schema_body(about.action_space, about.observation_space, about.metadata))["action"]
    # References in a schema are relative to its own root, which it does not have here.
    return {"type": "object"} if '"$ref"' in json.dumps(text) else text
