"""OpenEnv's HTTP routes: stateless without a session, as there; with ``X-Paddock-Session`` they are an episode."""

from __future__ import annotations

import asyncio
from typing import Any

from paddock.errors import PaddockError, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.openenv import json_rpc
from paddock.hosting.openenv.about import metadata_body, schema_body
from paddock.hosting.openenv.http_bodies import (
    TASK_METHODS,
    HttpError,
    action_refused,
    outcome_body,
    reset_body,
    split_body,
    step_body,
    task_answer,
    task_failure,
)
from paddock.hosting.openenv.requests import ResetRequest, StateRequest, StepRequest, WireError
from paddock.hosting.openenv.strict_json import dump
from paddock.hosting.openenv.translate import Asked, Translator
from paddock.server.http import Request, Response
from paddock.server.inner_client import InnerClient
from paddock.server.principals import Principal
from paddock.server.served import Served
from paddock.server.service import Service

SESSION_HEADER = "x-paddock-session"


class OpenEnvHttp:
    """The answers of one server; sessions that were opened over HTTP live here, until they end."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._clients: dict[str, InnerClient] = {}

    async def answer(self, route: str, served: Served, principal: Principal, request: Request) -> Response:
        """The response of one of the environment's routes."""
        told, form = served.described, self._service.settings.wire
        if route == "metadata":
            return Response(200, metadata_body(served.name, told.metadata))
        if route == "schema":
            return Response(200, schema_body(told.action_space, told.observation_space, told.metadata, form))
        if route == "mcp":
            return await self._mcp(served, principal, request)
        if route in TASK_METHODS:
            return await self._task(route, served, principal, request)
        asked = _asked(route, request)
        if isinstance(asked, HttpError):
            return Response(asked.status, asked.body)
        return await self._episode(asked, served, principal, request)

    async def _episode(self, asked: Asked, served: Served, principal: Principal, request: Request) -> Response:
        named = request.headers.get(SESSION_HEADER)
        client = await self._opened(served, principal) if named is None else self._owned(named, served, principal)
        stays = named is not None or isinstance(asked, ResetRequest)
        try:
            response = await self._outcome(asked, served, client)
        finally:
            if not stays:
                client.leave()
        headers = {SESSION_HEADER: client.live.session.id} if stays else {}
        return Response(response.status, response.body, response.content_type, headers)

    async def _outcome(self, asked: Asked, served: Served, client: InnerClient) -> Response:
        told, form = served.described, self._service.settings.wire
        translator = Translator(told.action_space, told.observation_space, told.metadata, form=form)
        translated = translator.request(asked)
        data: Any = translated
        if not isinstance(translated, WireError):
            data = translator.data(asked, await _ask(client, translated))
        if isinstance(data, WireError):
            return _refusal(data)
        return Response(200, dump(data) if isinstance(asked, StateRequest) else outcome_body(data, form))

    async def _opened(self, served: Served, principal: Principal) -> InnerClient:
        live = await self._service.open(served, principal, journaled=False)
        number, id = self._service.next_connection(), live.session.id
        client = InnerClient(number, live, lambda code, reason: self._clients.pop(id, None))
        live.attach(number, client)
        live.evictable = True
        reply = await _ask(client, m.Make(0, {}))
        if isinstance(reply, m.Failed):
            client.leave()
            raise PaddockError("The environment could not be made.")
        self._clients[id] = client
        return client

    def _owned(self, id: str, served: Served, principal: Principal) -> InnerClient:
        client = self._clients.get(id)
        if client is None or self._service.session(id, principal, served) is None:
            raise SessionGone("There is no such session. POST /reset without the header begins one.")
        return client

    async def _mcp(self, served: Served, principal: Principal, request: Request) -> Response:
        asked = json_rpc.read(request.body)
        if not isinstance(asked, json_rpc.RpcRequest):
            return Response(200, json_rpc.body(asked))
        if asked.method == json_rpc.CREATE:
            client = await self._opened(served, principal)
            return Response(200, json_rpc.body(json_rpc.session_created(asked, client.live.session.id)))
        if asked.method == json_rpc.CLOSE:
            return Response(200, json_rpc.body(self._close(asked, served, principal)))
        return Response(200, json_rpc.body(json_rpc.without_tools(asked)))

    def _close(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        if asked.session is None:
            return json_rpc.session_missing(asked)
        try:
            client = self._owned(asked.session, served, principal)
        except SessionGone:
            return json_rpc.session_unknown(asked, asked.session)
        client.leave()
        return json_rpc.session_closed(asked, asked.session)

    async def _task(self, route: str, served: Served, principal: Principal, request: Request) -> Response:
        method, names = TASK_METHODS[route]
        found = {} if route == "splits" else split_body(request.body, *names[1:])
        if isinstance(found, HttpError):
            return Response(found.status, found.body)
        client = await self._opened(served, principal)
        try:
            reply = await _ask(client, m.Call(0, method, [found[name] for name in names if name in found]))
        finally:
            client.leave()
        if isinstance(reply, m.Done):
            return Response(200, task_answer(route, reply.value, served.name))
        failure = task_failure(route, reply.error_type) or HttpError(500, "The environment failed.")
        return Response(failure.status, failure.body)


def _asked(route: str, request: Request) -> Asked | HttpError:
    if route == "state":
        return StateRequest()
    if route == "reset":
        arguments = reset_body(request.body)
        return arguments if isinstance(arguments, HttpError) else ResetRequest(arguments)
    found = step_body(request.body)
    return found if isinstance(found, HttpError) else StepRequest(found[0])


def _refusal(error: WireError) -> Response:
    if error.errors is not None:
        refused = action_refused(error.errors)
        return Response(refused.status, refused.body)
    status = 410 if error.closes else 409
    return Response.of({"detail": error.message, "code": error.code}, status)


async def _ask(client: InnerClient, request: m.Request) -> m.Reply:
    answered: asyncio.Future[m.Reply] = asyncio.get_running_loop().create_future()
    client.ask(request, lambda reply: None if answered.done() else answered.set_result(reply))
    return await answered
