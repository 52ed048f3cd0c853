"""McpHttp: MCP's Streamable HTTP, with answers as plain JSON. An MCP session uses an HTTP session of this server.

A request that comes twice, because its answer was lost, is carried out once: MCP never reuses an id, so the same id
with the same bytes gets the same answer. No SDK is used: it would keep its own sessions and streams beside those that
are here already, with their limits, owners and roles.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from paddock import __version__
from paddock.errors import CapacityReached, EnvFailed, NotPermitted, PaddockError
from paddock.hosting import mcp as form
from paddock.hosting import messages as m
from paddock.hosting.openenv import json_rpc
from paddock.hosting.openenv.http_bodies import openenv_metadata
from paddock.hosting.openenv.tool_form import ToolObservation
from paddock.hosting.openenv.wire import at_capacity, dump
from paddock.server.auth import Principal
from paddock.server.http import Request, Response
from paddock.server.http_sessions import HttpSessions, LocalClient
from paddock.server.journal import digest
from paddock.server.served_env import ServedEnv
from paddock.server.service import Service


class McpHttp:
    """MCP sessions by id. Whoever has a pass for a session has one of these at a time."""

    def __init__(self, service: Service, sessions: HttpSessions) -> None:
        self._service, self._http_sessions = service, sessions
        self._sessions: dict[str, _Session] = {}
        sessions.on_end.append(self._forget)

    def _forget(self, http_session: str, principal: Principal | None = None) -> None:
        """Forget the MCP sessions that use this HTTP session: those of the principal, or all."""
        for id, one in list(self._sessions.items()):
            if one.client.live.session.id == http_session and principal in (None, one.principal):
                del self._sessions[id]

    async def post(self, data: Any, served: ServedEnv, principal: Principal, request: Request) -> Response:
        """Answer one message; ``data`` is its parsed body."""
        refused = form.refusal(request.headers)
        if refused is not None:
            return _response(refused[1], refused[0])
        id = request.headers.get(form.SESSION_HEADER)
        session = None if id is None else self._find(id, served, principal)
        if id is not None and session is None:
            return _response(form.failure(None, json_rpc.INVALID_REQUEST, "Not Found: no such session."), 404)
        message = form.read_message(data)
        if not isinstance(message, form.Message):
            return _response(message, 400)
        if message.method == form.INITIALIZE and message.id is not None and session is None:
            return await self._initialize(message, served, principal)
        if session is None:
            text = "Bad Request: Mcp-Session-Id is needed; initialize begins a session."
            return _response(form.failure(message.id, json_rpc.INVALID_REQUEST, text), 400)
        if message.id is None:  # a step can't be undone, so a cancellation has no effect
            return Response(202)
        found = session.requests.answer(message.id, request.body, lambda: self._answer(session.client, message, served))
        if isinstance(found, str):
            text = f"Invalid Request: the id {message.id!r:.100} came before: {found}."
            return _response(form.failure(message.id, json_rpc.INVALID_REQUEST, text))
        return Response(200, await asyncio.shield(found))  # shielded: it goes on even if the peer leaves

    def delete(self, served: ServedEnv, principal: Principal, request: Request) -> Response:
        """End a session and its environment. An agent with a pass can't."""
        id = request.headers.get(form.SESSION_HEADER)
        if id is None:
            return Response.of({"detail": "Mcp-Session-Id is needed."}, 400)
        session = self._find(id, served, principal)
        if session is None:
            return Response.of({"detail": "There is no such session."}, 404)
        if principal.session is not None:
            return Response.of({"detail": "This session is not yours to end."}, 405, {"allow": "POST"})
        del self._sessions[id]
        self._http_sessions.close(session.client.live.session.id, served, principal)
        return Response.of({})

    def _find(self, id: str, served: ServedEnv, principal: Principal) -> _Session | None:
        session = self._sessions.get(id)
        if session is None or session.principal != principal or session.client.live.served is not served:
            return None
        return session

    async def _initialize(self, message: form.Message, served: ServedEnv, principal: Principal) -> Response:
        version = form.negotiate_version(message)
        if not isinstance(version, str):
            return _response(version)
        try:
            client = await self._begin(served, principal)
        except CapacityReached as error:
            return _response(json_rpc.refusal(message.id, at_capacity(*self._service.capacity, str(error))))
        except PaddockError as error:
            text = str(error) if isinstance(error, NotPermitted) else "The environment could not be started."
            return _response(form.failure(message.id, json_rpc.SERVER_ERROR, text, {"code": error.code}))
        if principal.session is not None:
            self._forget(principal.session, principal)  # an agent's newest connection counts
        id = self._service.processes.new_id()
        self._sessions[id] = _Session(client, principal)
        answer = form.initialize_answer(message, version, (served.name, __version__), instructions(client, served))
        return Response(200, dump(answer), headers={form.SESSION_HEADER: id})

    async def _begin(self, served: ServedEnv, principal: Principal) -> LocalClient:
        """Return a session whose episode has begun: that of the pass, or a new one."""
        own = None if principal.session is None else self._http_sessions.find(principal.session, served, principal)
        client = await self._http_sessions.open(served, principal) if own is None else own
        try:
            await begin(self._http_sessions, client)
        except BaseException:
            if own is None:
                client.leave()
            raise
        return client

    async def _answer(self, client: LocalClient, message: form.Message, served: ServedEnv) -> bytes:
        tools = served.described.tools
        assert tools is not None, "asked only of environments with tools"
        found = form.request_of(message, tools)
        if not isinstance(found, m.Step):
            return dump(found)
        try:
            reply = await self._http_sessions.ask(client, found, begins=True)
        except PaddockError as error:
            return dump(form.failure(message.id, json_rpc.SERVER_ERROR, str(error), {"code": error.code}))
        return dump(form.answer_to(message, tools, reply))


async def begin(sessions: HttpSessions, client: LocalClient, options: m.Reset | None = None) -> None:
    """Begin an episode if none has begun, or with these options. Raises if it fails."""
    if client.episode.begun and options is None:
        return
    reply = await sessions.ask(client, options or m.Reset(0))
    if isinstance(reply, m.Failed):
        raise EnvFailed(reply.message)


def instructions(client: LocalClient, served: ServedEnv) -> str:
    """Tell an agent what the environment is, and its task."""
    metadata = served.described.metadata
    about = (openenv_metadata(metadata) or metadata).get("description")
    first = ToolObservation.of(client.episode.first)
    parts = [about if isinstance(about, str) else "", "" if first is None else first.words]
    return "\n\n".join(filter(None, parts))


def _response(answer: json_rpc.Answer, status: int = 200) -> Response:
    return Response(status, dump(answer))


_ANSWERS = 8
_IDS = 1024

_Key: TypeAlias = "tuple[type, str | int]"  # 1 and "1" are two ids


@dataclass
class _Request:
    digest: bytes
    answer: asyncio.Future[bytes] | None  # None once dropped


class IdempotentRequests:
    """The requests of one session by id: each is carried out once, however often it comes.

    A few answers are kept, and many more ids: a request that comes back after its answer was dropped is refused.
    """

    def __init__(self) -> None:
        self._requests: OrderedDict[_Key, _Request] = OrderedDict()
        self._answered: deque[_Key] = deque()

    def answer(
        self, id: str | int, request: bytes, work: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> asyncio.Future[bytes] | str:
        """Return the answer to the request with this id, from ``work`` if it is new, or say why there is none."""
        key, mark = (type(id), id), digest(request)
        before = self._requests.get(key)
        if before is None:
            answering = asyncio.ensure_future(work())
            self._requests[key] = _Request(mark, answering)
            answering.add_done_callback(lambda _: self._mark_answered(key))
            while len(self._requests) > _IDS:
                self._requests.popitem(last=False)
            return answering
        if before.digest != mark:
            return "it was used for another request"
        return before.answer or "its answer is no longer kept"

    def _mark_answered(self, key: _Key) -> None:
        self._answered.append(key)
        if len(self._answered) > _ANSWERS:
            old = self._requests.get(self._answered.popleft())
            if old is not None:
                old.answer = None


@dataclass
class _Session:
    client: LocalClient
    principal: Principal
    requests: IdempotentRequests = field(default_factory=IdempotentRequests)
