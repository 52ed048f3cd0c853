"""OpenEnv's HTTP routes: stateless without a session, as there; with ``X-Paddock-Session`` they are an episode."""

from __future__ import annotations

from typing import Any

from paddock.errors import CapacityReached, EnvFailed, InvalidTask, PaddockError, ResetNeeded, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.mcp_form import is_mcp
from paddock.hosting.openenv import json_rpc, tool_rpc
from paddock.hosting.openenv.about import metadata_body, schema_body, told
from paddock.hosting.openenv.gym_form import reset_arguments
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
from paddock.hosting.openenv.strict_json import NotJson, dump, parse_bounded
from paddock.hosting.openenv.translate import Asked, Translator
from paddock.server.held_sessions import HeldSessions
from paddock.server.http import Request, Response
from paddock.server.inner_client import InnerClient
from paddock.server.mcp_http import McpHttp, begin, instructions
from paddock.server.permitted import no_episode
from paddock.server.principals import Principal
from paddock.server.served import Served
from paddock.server.service import Service

SESSION_HEADER = "x-paddock-session"
_SEND_BACK = " Send back the X-Paddock-Session header that /reset gave."


class OpenEnvHttp:
    """The answers of one server; ``sessions`` are those that were opened over HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sessions = HeldSessions(service)
        self._mcp = McpHttp(service, self.sessions)

    async def answer(self, route: str, served: Served, principal: Principal, request: Request) -> Response:
        """The response of one of the environment's routes."""
        about, form = served.described, self._service.settings.wire
        if route == "metadata":
            return Response(200, metadata_body(served.name, about.metadata))
        if route == "schema":
            spaces = about.action_space, about.observation_space
            return Response(200, schema_body(*spaces, about.metadata, form, about.tools))
        if route == "mcp":
            return await self._rpc(served, principal, request)
        if route in TASK_METHODS:
            return await self._task(route, served, principal, request)
        asked = _asked(route, request)
        if isinstance(asked, HttpError):
            return Response(asked.status, asked.body)
        named = request.headers.get(SESSION_HEADER, principal.session)
        if named is None:
            return await self._alone(asked, served, principal)
        client = self.sessions.find(named, served, principal)
        if client is None:
            raise SessionGone("There is no such session. POST /reset without the header begins one.")
        return _of_session(await self._outcome(asked, served, client), client)

    async def _alone(self, asked: Asked, served: Served, principal: Principal) -> Response:
        """In an environment of its own, as OpenEnv does it; that of a reset stays, and the answer tells its id."""
        if principal.role == "agent" and served.described.tools is None:
            return Response.of({"detail": no_episode(served), "code": ResetNeeded.code}, 409)
        client = await self.sessions.open(served, principal)
        stays = False
        try:
            response = await self._outcome(asked, served, client, when_not_begun=_SEND_BACK)
            stays = isinstance(asked, ResetRequest) and response.status == 200
        finally:
            if not stays:
                client.leave()
        return _of_session(response, client) if stays else response

    async def _outcome(
        self, asked: Asked, served: Served, client: InnerClient, *, when_not_begun: str = ""
    ) -> Response:
        about, form = served.described, self._service.settings.wire
        spaces = about.action_space, about.observation_space
        translator = Translator(*spaces, about.metadata, form=form, tools=about.tools)
        data = translator.known(asked)
        if data is None:
            translated = translator.request(asked)
            if isinstance(translated, WireError):
                return _refusal(translated)
            begins = about.tools is not None
            data = translator.data(asked, await self.sessions.ask(client, translated, begins=begins))
        if isinstance(data, WireError):
            return _refusal(data, when_not_begun if data.cause == ResetNeeded.code else "")
        return Response(200, dump(data) if isinstance(asked, StateRequest) else outcome_body(data, form))

    async def _rpc(self, served: Served, principal: Principal, request: Request) -> Response:
        """OpenEnv's JSON-RPC, or MCP itself for an environment with tools and a client that speaks it."""
        tools = served.described.tools
        if request.method == "DELETE":
            return self._mcp.delete(served, principal, request)
        try:
            data = parse_bounded(request.body)
        except NotJson:
            wrong = json_rpc.failure(None, json_rpc.PARSE_ERROR, "Parse error")
            refused = not request.body or (tools is not None and is_mcp(None, request.headers))
            return Response(400 if refused else 200, json_rpc.body(wrong))
        if tools is not None and is_mcp(data, request.headers):
            return await self._mcp.post(data, served, principal, request)
        asked = json_rpc.read_data(data)
        if isinstance(asked, json_rpc.RpcRequest):
            asked = await self._rpc_answer(asked, served, principal)
        return Response(200, json_rpc.body(asked))

    async def _rpc_answer(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        tools = served.described.tools
        if asked.method == json_rpc.CREATE:
            return await self._create(asked, served, principal)
        if asked.method == json_rpc.CLOSE:
            return self._close(asked, served, principal)
        named = (asked.session or principal.session) if asked.method in json_rpc.TOOL_METHODS else None
        client = None if named is None else self.sessions.find(named, served, principal)
        if named is not None and client is None:
            return json_rpc.session_unknown(asked, named)
        if tools is None:
            return json_rpc.without_tools(asked)
        step = tool_rpc.request_of(asked, tools)
        if not isinstance(step, m.Step):
            return step
        try:
            return tool_rpc.answer_to(asked, tools, await self._stepped(step, served, principal, client))
        except CapacityReached as error:
            return json_rpc.at_capacity(asked, self._service.active, self._service.settings.max_sessions, str(error))
        except PaddockError as error:
            return json_rpc.failure(asked.id, json_rpc.SERVER_ERROR, str(error))

    async def _stepped(self, step: m.Step, served: Served, principal: Principal, client: InnerClient | None) -> m.Reply:
        """A tool call in a session, or in an environment of its own."""
        if client is not None:
            return await self.sessions.ask(client, step, begins=True)
        own = await self.sessions.open(served, principal)
        try:
            return await self.sessions.ask(own, step, begins=True)
        finally:
            own.leave()

    async def _create(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        """A session. Where a peer can't begin its episode, or says how it is to begin, it begins with it."""
        if principal.session is not None:
            return self._handed(asked, served, principal)
        reset = _reset_of(asked, principal)
        if isinstance(reset, dict):
            return reset
        client = None
        try:
            client = await self.sessions.open(served, principal)
            closed = principal.role != "operator" or self._service.settings.mode == "production"
            if served.described.tools is not None and (closed or reset is not None):
                await begin(self.sessions, client, reset)
                return json_rpc.session_created(asked, client.live.session.id, instructions(client, served))
        except CapacityReached as error:
            return json_rpc.at_capacity(asked, self._service.active, self._service.settings.max_sessions, str(error))
        except PaddockError:
            if client is not None:
                client.leave()
            return json_rpc.factory_failed(asked, served.name)
        return json_rpc.session_created(asked, client.live.session.id)

    def _handed(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        """The one session that was handed over, in place of a new one."""
        client = self.sessions.find(principal.session or "", served, principal)
        if client is None:
            text = "This token is for a session of another environment"
            return json_rpc.failure(asked.id, json_rpc.INVALID_REQUEST, text)
        return json_rpc.session_created(asked, client.live.session.id, instructions(client, served))

    def _close(self, asked: json_rpc.RpcRequest, served: Served, principal: Principal) -> dict[str, Any]:
        if asked.session is None:
            return json_rpc.session_missing(asked)
        if asked.session == principal.session:
            return json_rpc.session_own(asked)
        done = self.sessions.close(asked.session, served, principal)
        if done == "unknown":
            return json_rpc.session_unknown(asked, asked.session)
        return json_rpc.session_closed(asked, asked.session, attached=done == "closing")

    async def _task(self, route: str, served: Served, principal: Principal, request: Request) -> Response:
        method, names = TASK_METHODS[route]
        found = split_body(request.body, *names[1:]) if names else {}
        if isinstance(found, HttpError):
            return Response(found.status, found.body)
        about = served.described
        if told(about.metadata) is None and about.tools is None:  # neither written for OpenEnv nor agentic
            return _failure(task_failure(route, "NotImplementedError"))
        client = await self.sessions.open(served, principal)
        try:
            reply = await self.sessions.ask(client, m.Call(0, "task", [method, *(found.get(name) for name in names)]))
        finally:
            client.leave()
        if isinstance(reply, m.Failed):
            unknown = HttpError(400, reply.message) if reply.code == InvalidTask.code else None
            return _failure(unknown or task_failure(route, reply.error_type))
        try:
            return Response(200, task_answer(route, reply.value, served.name))
        except (TypeError, ValueError):  # not what the method is to return
            return _failure(None)


def _reset_of(asked: json_rpc.RpcRequest, principal: Principal) -> m.Reset | dict[str, Any] | None:
    """How an operator wants the episode of a new session to begin, if it says; or why that can't be."""
    given = asked.params.get("reset")
    if given is None:
        return None
    if principal.role != "operator":
        return json_rpc.failure(asked.id, json_rpc.INVALID_REQUEST, "Only an operator chooses how an episode begins")
    arguments = reset_arguments(given) if isinstance(given, dict) else None
    if not isinstance(arguments, tuple):
        return json_rpc.failure(asked.id, json_rpc.INVALID_PARAMS, "Invalid params - 'reset' is an object of arguments")
    return m.Reset(0, *arguments)


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


def _refusal(error: WireError, advice: str = "") -> Response:
    if error.errors is not None:
        refused = action_refused(error.errors)
        return Response(refused.status, refused.body)
    status = 410 if error.closes else 409
    return Response.of({"detail": error.message + advice, "code": error.code}, status)
