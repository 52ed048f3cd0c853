"""OpenEnv's HTTP routes: stateless without a session, as there; with ``X-Paddock-Session`` they are an episode."""

from __future__ import annotations

from typing import Any

from paddock.errors import CapacityReached, EnvFailed, PaddockError, RateLimited, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.openenv import json_rpc
from paddock.hosting.openenv.about import metadata_body, schema_body, told
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
from paddock.server.held_sessions import HeldSessions
from paddock.server.http import Request, Response
from paddock.server.inner_client import InnerClient
from paddock.server.principals import Principal
from paddock.server.served import Served
from paddock.server.service import Service

SESSION_HEADER = "x-paddock-session"
_MOST_WAITING = 64  # requests of one session


class OpenEnvHttp:
    """The answers of one server; ``sessions`` are those that were opened over HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sessions = HeldSessions(service)

    async def answer(self, route: str, served: Served, principal: Principal, request: Request) -> Response:
        """The response of one of the environment's routes."""
        about, form = served.described, self._service.settings.wire
        if route == "metadata":
            return Response(200, metadata_body(served.name, about.metadata))
        if route == "schema":
            return Response(200, schema_body(about.action_space, about.observation_space, about.metadata, form))
        if route == "mcp":
            return Response(200, json_rpc.body(await self._mcp(served, principal, request)))
        if route in TASK_METHODS:
            return await self._task(route, served, principal, request)
        asked = _asked(route, request)
        if isinstance(asked, HttpError):
            return Response(asked.status, asked.body)
        named = request.headers.get(SESSION_HEADER)
        if named is None:
            return await self._alone(asked, served, principal)
        client = self.sessions.find(named, served, principal)
        if client is None:
            raise SessionGone("There is no such session. POST /reset without the header begins one.")
        return _of_session(await self._outcome(asked, served, client), client)

    async def _alone(self, asked: Asked, served: Served, principal: Principal) -> Response:
        """In an environment of its own, as OpenEnv does it; that of a reset stays, and the answer tells its id."""
        client = await self.sessions.open(served, principal)
        stays = False
        try:
            response = await self._outcome(asked, served, client)
            stays = isinstance(asked, ResetRequest) and response.status == 200
        finally:
            if not stays:
                client.leave()
        return _of_session(response, client) if stays else response

    async def _outcome(self, asked: Asked, served: Served, client: InnerClient) -> Response:
        if client.waiting >= _MOST_WAITING:
            raise RateLimited("Too many requests of this session wait already.")
        about, form = served.described, self._service.settings.wire
        translator = Translator(about.action_space, about.observation_space, about.metadata, form=form)
        translated = translator.request(asked)
        data: Any = translated
        if not isinstance(translated, WireError):
            data = translator.data(asked, await self.sessions.ask(client, translated))
        if isinstance(data, WireError):
            return _refusal(data)
        return Response(200, dump(data) if isinstance(asked, StateRequest) else outcome_body(data, form))

    async def _mcp(self, served: Served, principal: Principal, request: Request) -> dict[str, Any]:
        asked = json_rpc.read(request.body)
        if not isinstance(asked, json_rpc.RpcRequest):
            return asked
        if asked.method == json_rpc.CREATE:
            return await self._create(asked, served, principal)
        if asked.method == json_rpc.CLOSE:
            return self._close(asked, served, principal)
        named = asked.session if asked.method in json_rpc.TOOL_METHODS else None
        if named is not None and self.sessions.find(named, served, principal) is None:
            return json_rpc.session_unknown(asked, named)
        return json_rpc.without_tools(asked)

    async def _create(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        try:
            client = await self.sessions.open(served, principal)
        except CapacityReached:
            return json_rpc.at_capacity(asked, self._service.active, self._service.settings.max_sessions)
        except PaddockError:
            return json_rpc.factory_failed(asked, served.name)
        return json_rpc.session_created(asked, client.live.session.id)

    def _close(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        if asked.session is None:
            return json_rpc.session_missing(asked)
        done = self.sessions.close(asked.session, served, principal)
        if done == "unknown":
            return json_rpc.session_unknown(asked, asked.session)
        return json_rpc.session_closed(asked, asked.session, attached=done == "closing")

    async def _task(self, route: str, served: Served, principal: Principal, request: Request) -> Response:
        method, names = TASK_METHODS[route]
        found = split_body(request.body, *names[1:]) if names else {}
        if isinstance(found, HttpError):
            return Response(found.status, found.body)
        if told(served.described.metadata) is None:  # it was not written for OpenEnv
            return _failure(task_failure(route, "NotImplementedError"))
        client = await self.sessions.open(served, principal)
        try:
            reply = await self.sessions.ask(client, m.Call(0, "task", [method, *(found.get(name) for name in names)]))
        finally:
            client.leave()
        if isinstance(reply, m.Failed):
            return _failure(task_failure(route, reply.error_type))
        try:
            return Response(200, task_answer(route, reply.value, served.name))
        except (TypeError, ValueError):  # not what the method is to return
            return _failure(None)


def _of_session(response: Response, client: InnerClient) -> Response:
    headers = {SESSION_HEADER: client.live.session.id}
    return Response(response.status, response.body, response.content_type, headers)


def _failure(failure: HttpError | None) -> Response:
    if failure is None:
        return Response.of({"detail": "The environment failed.", "code": EnvFailed.code}, 409)
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
