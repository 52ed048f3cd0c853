"""OpenEnv's wires: its HTTP routes and its websocket.

HTTP routes are stateless, as in OpenEnv; with ``X-Paddock-Session`` they continue an episode.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from paddock.errors import (
    CapacityReached,
    Draining,
    EnvFailed,
    InvalidAction,
    InvalidSeed,
    InvalidTask,
    PaddockError,
    ResetNeeded,
    SessionGone,
    table,
)
from paddock.hosting import messages as m
from paddock.hosting.failures import close_reason
from paddock.hosting.mcp import is_mcp
from paddock.hosting.openenv import http_bodies, json_rpc, space_form, tool_form, wire
from paddock.hosting.openenv.http_bodies import TASK_METHODS, HttpError, openenv_metadata
from paddock.hosting.openenv.wire import EXECUTION_ERROR, SESSION_ERROR, WireError, WireRequest, dump
from paddock.server.auth import Principal
from paddock.server.http import Request, Response
from paddock.server.http_sessions import SESSION_HEADER, HttpSessions, LocalClient
from paddock.server.mcp import McpHttp, begin, instructions
from paddock.server.native_socket import NORMAL, POLICY_VIOLATION, Out, Toll
from paddock.server.served_env import ServedEnv, no_episode_advice
from paddock.server.service import Service
from paddock.spaces import Space
from paddock.spaces.json_data import NotJson

_SEND_BACK = "Send back the X-Paddock-Session header that /reset returned."
_AHEAD = 64  # requests that a client may send ahead; further ones are refused
_MOST_WAITING = 4096  # a client that keeps sending after so many refusals reads none of them
_REFUSALS = 64  # in a row for asking too often, before it is dropped
_BY_ROLE = {
    "operator": ("reset", "step", "state", "mcp", "close"),
    "agent": ("step", "mcp", "close"),
    "observer": ("state", "close"),
}
_CLOSED_IN_PRODUCTION = ("reset", "step", "state")
_ENDINGS = (SessionGone.code, Draining.code)  # this server ended the session, not its environment


class OpenEnvHttp:
    """Answers OpenEnv's HTTP routes; ``sessions`` are those that were opened over HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sessions = HttpSessions(service)
        self._mcp = McpHttp(service, self.sessions)

    async def answer(self, route: str, served: ServedEnv, principal: Principal, request: Request) -> Response:
        try:
            return await self._answer(route, served, principal, request)
        except HttpError as error:
            return Response(error.status, error.body)

    async def _answer(self, route: str, served: ServedEnv, principal: Principal, request: Request) -> Response:
        about, form = served.described, self._service.settings.wire
        if route == "metadata":
            return Response(200, http_bodies.metadata_body(served.name, about.metadata))
        if route == "schema":
            spaces = about.action_space, about.observation_space
            return Response(200, http_bodies.schema_body(*spaces, about.metadata, form, about.tools))
        if route == "mcp":
            return await self._rpc(served, principal, request)
        if route in TASK_METHODS:
            return await self._task(route, served, principal, request)
        message, arguments = WireRequest("state"), {}
        if route == "reset":
            message = WireRequest("reset", http_bodies.reset_body(request.body))
        elif route == "step":
            arguments = http_bodies.step_body(request.body)
            message = WireRequest("step", arguments.pop("action"))
        named = request.headers.get(SESSION_HEADER, principal.session)
        if named is None:
            return await self._answer_alone(message, arguments, served, principal)
        client = self.sessions.find(named, served, principal)
        if client is None:
            raise SessionGone("There is no such session. POST /reset without the header opens one.")
        return _with_session(await self._outcome(message, arguments, served, client), client)

    async def _answer_alone(
        self, message: WireRequest, arguments: dict[str, Any], served: ServedEnv, principal: Principal
    ) -> Response:
        """Answer in a new environment, as OpenEnv does. That of a reset stays, and the answer has its session's id."""
        if principal.role == "agent" and served.described.tools is None:
            return Response.of({"detail": no_episode_advice(served), "code": ResetNeeded.code}, 409)
        client = await self.sessions.open(served, principal)
        stays = False
        try:
            response = await self._outcome(message, arguments, served, client, when_not_begun=_SEND_BACK)
            stays = message.kind == "reset" and response.status == 200
        finally:
            if not stays:
                client.leave()
        return _with_session(response, client) if stays else response

    async def _outcome(
        self,
        message: WireRequest,
        arguments: dict[str, Any],
        served: ServedEnv,
        client: LocalClient,
        *,
        when_not_begun: str = "",
    ) -> Response:
        about, form = served.described, self._service.settings.wire
        spaces = about.action_space, about.observation_space
        translator = Translator(*spaces, about.metadata, form=form, tools=about.tools)
        data = translator.request(message)
        if not isinstance(data, (WireError, dict)):
            if arguments and openenv_metadata(about.metadata) is not None:  # in order: nothing can come between them
                client.ask(m.Call(0, "pass_to_step", [arguments]), lambda _: None)
            data = translator.data(message, await self.sessions.ask(client, data, begins=about.tools is not None))
        if not isinstance(data, WireError):
            return Response(200, dump(data) if message.kind == "state" else http_bodies.outcome_body(data, form))
        if data.errors is not None:
            raise HttpError(422, data.errors)  # with their places in the action, not in the body
        advice = data.cause == ResetNeeded.code and when_not_begun
        detail = f"{data.message.rstrip('.')}. {advice}" if advice else data.message
        status = 410 if data.closes else 500 if data.cause == EnvFailed.code else 409
        return Response.of({"detail": detail, "code": data.code}, status)

    async def _rpc(self, served: ServedEnv, principal: Principal, request: Request) -> Response:
        """Answer OpenEnv's JSON-RPC, or MCP if the environment has tools and the client speaks it."""
        tools = served.described.tools
        if request.method == "DELETE":
            return self._mcp.delete(served, principal, request)
        try:
            data = wire.parse_bounded(request.body)
        except NotJson:
            wrong = json_rpc.failure(None, json_rpc.PARSE_ERROR, "Parse error")
            refused = not request.body or (tools is not None and is_mcp(None, request.headers))
            return Response(400 if refused else 200, dump(wrong))
        if tools is not None and is_mcp(data, request.headers):
            return await self._mcp.post(data, served, principal, request)
        rpc = json_rpc.read_data(data)
        answer = await self._rpc_answer(rpc, served, principal) if isinstance(rpc, json_rpc.RpcRequest) else rpc
        return Response(200, dump(answer))

    async def _rpc_answer(self, rpc: json_rpc.RpcRequest, served: ServedEnv, principal: Principal) -> dict[str, Any]:
        tools = served.described.tools
        if rpc.method == json_rpc.CREATE:
            return await self._create(rpc, served, principal)
        if rpc.method == json_rpc.CLOSE:
            return self._close(rpc, served, principal)
        named = (rpc.session or principal.session) if rpc.method in json_rpc.TOOL_METHODS else None
        client = None if named is None else self.sessions.find(named, served, principal)
        if named is not None and client is None:
            return json_rpc.session_unknown(rpc, named)
        if tools is None:
            return json_rpc.without_tools(rpc)
        step = json_rpc.request_of(rpc, tools)
        if not isinstance(step, m.Step):
            return step
        own = None
        try:
            if client is None:  # without a session it has a new environment
                client = own = await self.sessions.open(served, principal)
            return json_rpc.answer_to(rpc, tools, await self.sessions.ask(client, step, begins=True))
        except CapacityReached as error:
            return json_rpc.refusal(rpc.id, wire.at_capacity(*self._service.capacity, str(error)))
        except PaddockError as error:
            return json_rpc.failure(rpc.id, json_rpc.SERVER_ERROR, str(error))
        finally:
            if own is not None:
                own.leave()

    async def _create(self, rpc: json_rpc.RpcRequest, served: ServedEnv, principal: Principal) -> dict[str, Any]:
        """Create a session. Its episode begins with it if the peer can't reset, or says how it shall begin."""
        if principal.session is not None:  # a pass: its session in place of a new one
            own = self.sessions.find(principal.session, served, principal)
            if own is None:
                text = "This token is for a session of another environment"
                return json_rpc.failure(rpc.id, json_rpc.INVALID_REQUEST, text)
            return json_rpc.session_created(rpc, own.live.session.id, instructions(own, served))
        reset = _read_reset(rpc, principal)
        if isinstance(reset, dict):
            return reset
        client = None
        try:
            client = await self.sessions.open(served, principal)
            closed = principal.role != "operator" or self._service.settings.mode == "production"
            if served.described.tools is not None and (closed or reset is not None):
                await begin(self.sessions, client, reset)
                return json_rpc.session_created(rpc, client.live.session.id, instructions(client, served))
        except CapacityReached as error:
            return json_rpc.refusal(rpc.id, wire.at_capacity(*self._service.capacity, str(error)))
        except PaddockError:
            if client is not None:
                client.leave()
            return json_rpc.refusal(rpc.id, wire.factory_failed(served.name))
        return json_rpc.session_created(rpc, client.live.session.id)

    def _close(self, rpc: json_rpc.RpcRequest, served: ServedEnv, principal: Principal) -> dict[str, Any]:
        id = rpc.session
        if id is not None and id == principal.session:
            return json_rpc.session_own(rpc)
        done = "unknown" if id is None else self.sessions.close(id, served, principal)
        if done == "unknown":
            return json_rpc.session_unknown(rpc, id)
        later = {"closing": True} if done == "closing" else {}  # with the websocket that is attached to it
        return json_rpc.success(rpc.id, {"session_id": id, "closed": done == "closed", **later})

    async def _task(self, route: str, served: ServedEnv, principal: Principal, request: Request) -> Response:
        method, names = TASK_METHODS[route]
        found = http_bodies.split_body(request.body, *names[1:]) if names else {}
        about = served.described
        if openenv_metadata(about.metadata) is None and about.tools is None:  # neither written for OpenEnv nor agentic
            raise HttpError(501, f"{method} is not supported for this environment")
        client = await self.sessions.open(served, principal)
        try:
            reply = await self.sessions.ask(client, m.Call(0, "task", [method, *(found.get(name) for name in names)]))
        finally:
            client.leave()
        failed = Response.of({"detail": "The environment failed.", "code": EnvFailed.code}, 500)
        if isinstance(reply, m.Failed):
            if reply.code == InvalidTask.code:
                raise HttpError(400, reply.message)
            if (error := http_bodies.task_failure(route, reply.error_type)) is not None:
                raise error
            return failed
        try:
            return Response(200, http_bodies.task_answer(route, reply.value, served.name))
        except (TypeError, ValueError):  # not what the method should return
            return failed


def _read_reset(rpc: json_rpc.RpcRequest, principal: Principal) -> m.Reset | dict[str, Any] | None:
    """Read how an operator wants the episode of a new session to begin, if it says so; or return the failure."""
    options = rpc.params.get("reset")
    if options is None:
        return None
    if principal.role != "operator":
        return json_rpc.failure(rpc.id, json_rpc.INVALID_REQUEST, "Only an operator may choose how an episode begins")
    arguments = space_form.reset_arguments(options) if isinstance(options, dict) else None
    if not isinstance(arguments, tuple):
        return json_rpc.failure(rpc.id, json_rpc.INVALID_PARAMS, "Invalid params - 'reset' must be an object")
    return m.Reset(0, *arguments)


def _with_session(response: Response, client: LocalClient) -> Response:
    return replace(response, headers={SESSION_HEADER: client.live.session.id})


_Entry: TypeAlias = "WireRequest | WireError | json_rpc.RpcRequest | json_rpc.Answer"


class OpenEnvSocket:
    """A stock OpenEnv client's ``/ws``: one environment per connection, answers in the order of requests.

    A bad message is answered, and costs nothing but itself. Losing the environment does not close the connection:
    OpenEnv's client would silently reconnect and go on in a new environment.
    ``rpc``: messages are JSON-RPC only. ``join``: the HTTP sessions, and the id of the one to use.
    """

    def __init__(
        self,
        service: Service,
        served: ServedEnv,
        principal: Principal,
        out: Out,
        *,
        rpc: bool = False,
        join: tuple[HttpSessions, str] | None = None,
    ) -> None:
        self._service, self._served, self._principal, self._out = service, served, principal, out
        self.toll = Toll(service, principal, out)
        self._refusals = 0
        self._rpc = rpc
        self._http_sessions: HttpSessions | None = None
        self._waiting: deque[_Entry] = deque()
        self._client: LocalClient | None = None
        self.welcome = True  # its session is opened without a Hello
        about = served.described
        self._translator = Translator(
            about.action_space, about.observation_space, about.metadata, form=service.settings.wire, tools=about.tools
        )
        self._tools = about.tools
        self._free = self._over = self._in_next = False  # free once the environment is there
        self._opening: asyncio.Future[None] | None = None
        # An agent can't use an environment without tools that nobody resets, so none is started for it.
        self._idle = join is None and principal.role == "agent" and about.tools is None
        self._deadline: asyncio.TimerHandle | None = None
        if self._idle:
            self._free = True
            self._restart_timer()
        elif join is None:
            self._opening = asyncio.ensure_future(self._open())
        else:
            self._join(*join)

    def _restart_timer(self) -> None:
        """Restart the idle timer: without a session nothing else ends a silent connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(
            self._service.settings.idle_s, self._handle_session_end, SessionGone.code, "It was silent for too long."
        )

    async def _open(self) -> None:
        try:
            live = await self._service.open(
                self._served, self._principal, journaled=False, wanted=lambda: not self._over
            )
        except CapacityReached as error:
            self._fail(wire.at_capacity(*self._service.capacity, str(error)))
            return
        except Draining as error:
            self._fail(WireError(SESSION_ERROR, str(error)))
            return
        except PaddockError:
            self._fail(wire.factory_failed(self._served.name))
            return
        if self._over:
            live.close(SessionGone.code, "The client disconnected before the session was ready.")
            return
        number = self._service.next_connection()
        self._client = client = LocalClient(number, live, self._handle_session_end)
        live.attach(number, client)
        client.ask(m.Make(0, {}), self._handle_made)

    def _handle_made(self, reply: m.Reply) -> None:
        if isinstance(reply, m.Failed):
            self._fail(wire.factory_failed(self._served.name))
            self.closed()
            return
        self._free = True
        self._next()

    def _join(self, sessions: HttpSessions, id: str) -> None:
        found = sessions.attach(id, self._served, self._principal, self._handle_session_end)
        if isinstance(found, str):
            self._over = True  # reported once the handshake is done
            asyncio.get_running_loop().call_soon(self._fail, WireError(SESSION_ERROR, found))
            return
        self._client, self._http_sessions, self._free = found, sessions, True

    def message(self, data: bytes | str) -> None:
        """Take a message of the client. Hot: once per step."""
        if self._over:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._out.close(POLICY_VIOLATION, "Too many requests were sent ahead.")
            return
        if self._idle:
            self._restart_timer()
        self._waiting.append(self._read(data))
        self._next()

    def _read(self, data: bytes | str) -> _Entry:
        if not self.toll.pay_request():
            self._refusals += 1
            if self._refusals > _REFUSALS:
                self.toll.end()
            return _execution_error("Too many requests: wait a moment.")
        self._refusals = 0
        message = self._parse(data)
        if isinstance(message, WireError):
            self.toll.pay_extra()
        return message

    def _parse(self, data: bytes | str) -> _Entry:
        if len(self._waiting) >= _AHEAD:
            return _execution_error("Too many requests were sent ahead: wait for answers.")
        if self._rpc and not self._idle:
            return json_rpc.read(data, websocket=True)
        message = wire.parse_request(data)
        if isinstance(message, WireError):
            return message
        closed = self._service.settings.mode == "production" and message.kind in _CLOSED_IN_PRODUCTION
        if closed or message.kind not in _BY_ROLE[self._principal.role]:
            return _execution_error("This is not permitted here.")
        if self._idle and message.kind != "close":
            return _execution_error(no_episode_advice(self._served))
        return message

    def _next(self) -> None:
        if self._in_next:  # an answer came at once: the loop below continues
            return
        self._in_next = True
        try:
            while self._free and self._waiting and not self._over:
                self._carry_out(self._waiting.popleft())
        finally:
            self._in_next = False

    def _carry_out(self, entry: _Entry) -> None:
        if isinstance(entry, WireError):
            self._send_error(entry)
        elif not isinstance(entry, WireRequest):
            self._ask_rpc(entry, json_rpc.websocket_frame)
        elif entry.kind == "mcp":
            self._ask_rpc(json_rpc.read_data(entry.data), lambda answer: wire.frame("mcp", answer))
        elif entry.kind == "close":
            self._out.close(NORMAL, "")
            self.closed()
        else:
            self._ask(entry)

    def _ask(self, message: WireRequest) -> None:
        translated = self._translator.request(message)
        if isinstance(translated, (WireError, dict)):
            self._out.send(self._translator.data_frame(message, translated))
        else:
            self._send_request(translated, lambda reply: self._translator.frame(message, reply))

    def _send_request(self, request: m.Request, frame: Callable[[m.Reply], str]) -> None:
        """Send a request to the environment and its reply, as a frame, to the peer; then take the next."""
        assert self._client is not None

        def answer_with(reply: m.Reply) -> None:
            if not self._over:
                self._out.send(frame(reply))
                self._free = True
                self._next()

        self._free = False
        if self._tools is not None and isinstance(request, m.Step):
            self._client.act(request, answer_with)
        else:
            self._client.ask(request, answer_with)

    def _ask_rpc(self, rpc: json_rpc.RpcRequest | json_rpc.Answer, frame: Callable[[json_rpc.Answer], str]) -> None:
        found = self._rpc_answer(rpc)
        if isinstance(found, m.Step):
            assert isinstance(rpc, json_rpc.RpcRequest)
            tools = self._tools or tool_form.Tools()
            self._send_request(found, lambda reply: frame(json_rpc.answer_to(rpc, tools, reply)))
        else:
            self._out.send(frame(found))

    def _rpc_answer(self, rpc: json_rpc.RpcRequest | json_rpc.Answer) -> json_rpc.Answer | m.Step:
        """Return the answer, or the step that it needs."""
        assert self._client is not None
        if not isinstance(rpc, json_rpc.RpcRequest):
            return rpc  # says what is wrong with it
        own = self._client.live.session.id
        if rpc.method == json_rpc.CREATE:
            return json_rpc.session_created(rpc, own)
        if rpc.method == json_rpc.CLOSE:
            return json_rpc.session_own(rpc) if rpc.session == own else json_rpc.session_unknown(rpc, rpc.session)
        return json_rpc.without_tools(rpc) if self._tools is None else json_rpc.request_of(rpc, self._tools)

    def _send_error(self, error: WireError) -> None:
        rpc = json_rpc.refusal(None, error)
        self._out.send(json_rpc.websocket_frame(rpc) if self._rpc else wire.error_frame(error))

    def _fail(self, error: WireError) -> None:
        self._send_error(error)
        self._out.close(NORMAL, "")

    def _handle_session_end(self, code: str, reason: str) -> None:
        if code in _ENDINGS and not self._over:
            self._over = True
            self._out.close(NORMAL, close_reason(code, reason))
        elif not self._over:  # requests are answered with the reason from now on, but not forever
            idle_s = self._service.settings.idle_s
            asyncio.get_running_loop().call_later(idle_s, self._out.close, NORMAL, code)

    def closed(self, *, done: bool = False) -> None:
        """The connection is gone, and the session with it, if it was this connection's own."""
        self._over = True
        if self._deadline is not None:
            self._deadline.cancel()
        client, self._client = self._client, None
        if client is None:
            if self._opening is not None:
                self._opening.cancel()  # frees its place in the queue
            return
        if self._http_sessions is None:
            client.leave()
        else:
            self._http_sessions.detach(client)


def _execution_error(why: str) -> WireError:
    return WireError(EXECUTION_ERROR, why)


# ── OpenEnv's requests to a Host's, and the Host's replies to OpenEnv's data ──
#
# Environments written for OpenEnv validate an action themselves (their classes accept more than a schema can say), so
# their data passes unchanged; all others get a value of their space. Tools have OpenEnv's forms.

_FATAL = frozenset(code for _, code, _, alive in table() if not alive)


class Translator:
    """For one environment. ``form``: the version of OpenEnv whose bytes to write."""

    def __init__(
        self,
        action_space: Space[Any] | None,
        observation_space: Space[Any] | None,
        metadata: Mapping[str, Any],
        *,
        form: wire.Form = "0.10",
        tools: tool_form.Tools | None = None,
    ) -> None:
        self._form, self._actions, self._observations = form, action_space, observation_space
        self._typed = openenv_metadata(metadata) is not None
        self._tools = None if self._typed else tools

    def request(self, request: WireRequest) -> m.Request | dict[str, Any] | WireError:
        """The request for the Host, or the answer to one that needs no Host: the list of tools."""
        data = request.data
        if request.kind == "state":
            return m.State(0)
        if request.kind == "reset":
            arguments = (None, data or None) if self._typed else space_form.reset_arguments(data)
            return arguments if isinstance(arguments, WireError) else m.Reset(0, *arguments)
        if self._typed:
            return m.Step([0], [data])
        action = None if self._tools is None else tool_form.action_of(data)
        if self._tools is not None and tool_form.is_listing(data) and not isinstance(action, WireError):
            return tool_form.listing_data(self._tools, self._form)
        action = space_form.action_of(self._actions, data) if action is None else action
        return action if isinstance(action, WireError) else m.Step([0], [action])

    def data(self, request: WireRequest, reply: m.Reply) -> dict[str, Any] | WireError:
        """The reply as the data of a frame, or of an HTTP body."""
        value = reply.value if isinstance(reply, m.Done) else reply
        if request.kind == "step" and isinstance(value, list):
            value = value[0]
        if isinstance(value, m.Failed):
            return self._failure(request, value)
        if request.kind == "state":
            public = value[2]
            return public if self._typed and isinstance(public, dict) else space_form.state_data(*value)
        if request.kind == "reset":
            return self._outcome(value[0], value[1])
        observation, reward, terminated, truncated, info = value
        return self._outcome(observation, info, reward=reward, terminated=terminated, truncated=truncated)

    def frame(self, request: WireRequest, reply: m.Reply) -> str:
        return self.data_frame(request, self.data(request, reply))

    def data_frame(self, request: WireRequest, data: dict[str, Any] | WireError) -> str:
        if isinstance(data, WireError):
            return wire.error_frame(data)
        return wire.frame("state" if request.kind == "state" else "observation", data)

    def _outcome(self, observation: Any, info: Any, **result: Any) -> dict[str, Any]:
        if self._typed and isinstance(observation, dict):
            return wire.observation_data(observation, self._form)
        obs = None if self._tools is None else tool_form.ToolObservation.of(observation)
        if self._tools is not None and obs is not None:
            return tool_form.outcome_data(self._tools, obs, info, **result, form=self._form)
        return space_form.outcome_data(self._observations, observation, info, **result, form=self._form)

    def _failure(self, request: WireRequest, failed: m.Failed) -> WireError:
        if failed.code == InvalidAction.code and request.kind == "step":
            return wire.invalid(wire.entries_of(failed.message, request.data))
        if failed.code == InvalidSeed.code and request.kind == "reset":
            wrong = wire.entry("value_error", ("data", "seed"), request.data.get("seed"), failed.message)
            return wire.invalid([wrong])
        if failed.code in _FATAL:
            return WireError(SESSION_ERROR, failed.message, closes=True)
        return WireError(EXECUTION_ERROR, failed.message, cause=failed.code)
