"""McpHttp: MCP's Streamable HTTP, with answers as plain JSON. A session of MCP is a hand on a session that is held.

A request that comes twice, because its answer was lost, is carried out once: ids are not used twice in MCP, so the same
id with the same bytes has the same answer. No SDK is used: it would hold sessions and streams of its own beside those
that are here already, with their limits, owners and roles.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any

from paddock import __version__
from paddock.errors import CapacityReached, EnvFailed, NotPermitted, PaddockError
from paddock.hosting import mcp_form as form
from paddock.hosting import messages as m
from paddock.hosting.openenv import json_rpc
from paddock.hosting.openenv.about import told
from paddock.hosting.openenv.strict_json import dump
from paddock.hosting.openenv.tool_form import Seen
from paddock.server.held_sessions import HeldSessions
from paddock.server.http import Request, Response
from paddock.server.inner_client import InnerClient
from paddock.server.once import Once
from paddock.server.principals import Principal
from paddock.server.served import Served
from paddock.server.service import Service


@dataclass
class _Session:
    client: InnerClient
    principal: Principal
    once: Once = field(default_factory=Once)


class McpHttp:
    """The sessions of MCP by their ids. Who was handed a session has one of these at a time."""

    def __init__(self, service: Service, sessions: HeldSessions) -> None:
        self._service, self._held = service, sessions
        self._sessions: dict[str, _Session] = {}
        sessions.on_end.append(self._ended)

    def _ended(self, held: str, of: Principal | None = None) -> None:
        """Forget the sessions on a held one, those of this principal or all."""
        for id, one in list(self._sessions.items()):
            if one.client.live.session.id == held and of in (None, one.principal):
                del self._sessions[id]

    async def post(self, data: Any, served: Served, principal: Principal, request: Request) -> Response:
        """The answer to one message; ``data``: what its body was read as."""
        refused = form.refusal(request.headers)
        if refused is not None:
            return _response(refused[1], refused[0])
        named = request.headers.get(form.SESSION_HEADER)
        session = None if named is None else self._find(named, served, principal)
        if named is not None and session is None:
            return _response(form.failure(None, json_rpc.INVALID_REQUEST, "Not Found: no such session."), 404)
        message = form.read(data)
        if not isinstance(message, form.Message):
            return _response(message, 400)
        if message.method == form.INITIALIZE and message.id is not None and session is None:
            return await self._initialize(message, served, principal)
        if session is None:
            text = "Bad Request: Mcp-Session-Id is needed; initialize begins a session."
            return _response(form.failure(message.id, json_rpc.INVALID_REQUEST, text), 400)
        if message.id is None:  # a step can't be taken back, so a cancellation has no effect
            return Response(202)
        return Response(200, await self._once(session, message, served, request.body))

    def delete(self, served: Served, principal: Principal, request: Request) -> Response:
        """End a session, and the environment with it. One that was handed over is not for its agent to end."""
        named = request.headers.get(form.SESSION_HEADER)
        if named is None:
            return Response.of({"detail": "Mcp-Session-Id is needed."}, 400)
        session = self._find(named, served, principal)
        if session is None:
            return Response.of({"detail": "There is no such session."}, 404)
        if principal.session is not None:
            return Response.of({"detail": "This session is not yours to end."}, 405, {"allow": "POST"})
        del self._sessions[named]
        self._held.close(session.client.live.session.id, served, principal)
        return Response.of({})

    def _find(self, named: str, served: Served, principal: Principal) -> _Session | None:
        session = self._sessions.get(named)
        if session is None or session.principal != principal or session.client.live.served is not served:
            return None
        return session

    async def _initialize(self, message: form.Message, served: Served, principal: Principal) -> Response:
        version = form.negotiated(message)
        if not isinstance(version, str):
            return _response(version)
        try:
            client = await self._begin(served, principal)
        except CapacityReached as error:
            most = self._service.settings.max_sessions
            asked = json_rpc.RpcRequest(message.method, id=message.id)
            return _response(json_rpc.at_capacity(asked, self._service.active, most, str(error)))
        except PaddockError as error:
            text = str(error) if isinstance(error, NotPermitted) else "The environment could not be started."
            return _response(form.failure(message.id, json_rpc.SERVER_ERROR, text, {"code": error.code}))
        if principal.session is not None:
            self._ended(principal.session, principal)  # the newest connection of an agent counts
        id = secrets.token_hex(16)
        self._sessions[id] = _Session(client, principal)
        answer = form.initialized(message, version, (served.name, __version__), instructions(client, served))
        return Response(200, dump(answer), headers={form.SESSION_HEADER: id})

    async def _begin(self, served: Served, principal: Principal) -> InnerClient:
        """A session in an episode: the one that was handed over, or a new one."""
        own = None if principal.session is None else self._held.find(principal.session, served, principal)
        client = await self._held.open(served, principal) if own is None else own
        try:
            await begin(self._held, client)
        except BaseException:
            if own is None:
                client.leave()
            raise
        return client

    async def _once(self, session: _Session, message: form.Message, served: Served, body: bytes) -> bytes:
        """The answer's bytes, those of before if the request came before."""
        assert message.id is not None
        found = session.once.answer(message.id, body, lambda: self._answer(session.client, message, served))
        if isinstance(found, str):
            text = f"Invalid Request: the id {message.id!r:.100} came before: {found}."
            return dump(form.failure(message.id, json_rpc.INVALID_REQUEST, text))
        return await asyncio.shield(found)  # it goes on without who asked

    async def _answer(self, client: InnerClient, message: form.Message, served: Served) -> bytes:
        tools = served.described.tools
        assert tools is not None, "asked only of environments with tools"
        found = form.request_of(message, tools)
        if not isinstance(found, m.Step):
            return dump(found)
        try:
            reply = await self._held.ask(client, found, begins=True)
        except PaddockError as error:
            return dump(form.failure(message.id, json_rpc.SERVER_ERROR, str(error), {"code": error.code}))
        return dump(form.answer_to(message, tools, reply))


async def begin(sessions: HeldSessions, client: InnerClient, options: m.Reset | None = None) -> None:
    """Begin an episode where none has begun, or as asked for; what fails is raised."""
    if client.episode.begun and options is None:
        return
    reply = await sessions.ask(client, options or m.Reset(0))
    if isinstance(reply, m.Failed):
        raise EnvFailed(reply.message)


def instructions(client: InnerClient, served: Served) -> str:
    """What an agent is to know before it acts: what the environment is, and its task."""
    metadata = served.described.metadata
    about = (told(metadata) or metadata).get("description")
    first = Seen.of(client.episode.first)
    parts = [about if isinstance(about, str) else "", "" if first is None else first.words]
    return "\n\n".join(filter(None, parts))


def _response(answer: json_rpc.Answer, status: int = 200) -> Response:
    return Response(status, dump(answer))
