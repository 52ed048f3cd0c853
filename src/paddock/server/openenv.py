"""OpenEnv's wires: its HTTP routes and its websocket.

HTTP routes are stateless, as in OpenEnv; with ``X-Paddock-Session`` they continue an episode.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from paddock.hosting.openenv import json_rpc, space_form, tool_form
from paddock.hosting.openenv.http_bodies import (
    TASK_METHODS,
    HttpError,
    action_refused,
    metadata_body,
    openenv_metadata,
    outcome_body,
    reset_body,
    schema_body,
    split_body,
    step_body,
    task_answer,
    task_failure,
)
from paddock.hosting.openenv.wire import (
    EXECUTION_ERROR,
    SESSION_ERROR,
    CloseRequest,
    Form,
    McpRequest,
    NotJson,
    ResetRequest,
    StateRequest,
    StepRequest,
    WireError,
    WireRequest,
    at_capacity,
    dump,
    entries_of,
    entry,
    error_frame,
    factory_failed,
    invalid,
    mcp_frame,
    observation_data,
    observation_frame,
    parse_bounded,
    parse_request,
    state_frame,
)
from paddock.server.auth import Principal
from paddock.server.http import Request, Response
from paddock.server.http_sessions import SESSION_HEADER, HttpSessions, LocalClient
from paddock.server.mcp import McpHttp, begin, instructions
from paddock.server.native_socket import NORMAL, POLICY_VIOLATION, Out, Toll
from paddock.server.served_env import ServedEnv, no_episode_advice
from paddock.server.service import Service
from paddock.spaces import Space

_SEND_BACK = "Send back the X-Paddock-Session header that /reset returned."
_AHEAD = 64  # requests that a client may send ahead; further ones are refused
_MOST_WAITING = 4096  # a client that keeps sending after so many refusals reads none of them
_REFUSALS = 64  # in a row for asking too often, before it is dropped
_BY_ROLE = {
    "operator": (ResetRequest, StepRequest, StateRequest, McpRequest, CloseRequest),
    "agent": (StepRequest, McpRequest, CloseRequest),
    "observer": (StateRequest, CloseRequest),
}
_CLOSED_IN_PRODUCTION = (ResetRequest, StepRequest, StateRequest)
_ENDINGS = (SessionGone.code, Draining.code)  # this server ended the session, not its environment


class OpenEnvHttp:
    """Answers OpenEnv's HTTP routes; ``sessions`` are those that were opened over HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sessions = HttpSessions(service)
        self._mcp = McpHttp(service, self.sessions)

    async def answer(self, route: str, served: ServedEnv, principal: Principal, request: Request) -> Response:
        """Answer a request to one of the environment's routes."""
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
        message: EpisodeRequest | HttpError = StateRequest()
        if route == "reset":
            arguments = reset_body(request.body)
            message = arguments if isinstance(arguments, HttpError) else ResetRequest(arguments)
        elif route == "step":
            step = step_body(request.body)
            message = step if isinstance(step, HttpError) else StepRequest(step[0])
        if isinstance(message, HttpError):
            return Response(message.status, message.body)
        named = request.headers.get(SESSION_HEADER, principal.session)
        if named is None:
            return await self._answer_alone(message, served, principal)
        client = self.sessions.find(named, served, principal)
        if client is None:
            raise SessionGone("There is no such session. POST /reset without the header opens one.")
        return _with_session(await self._outcome(message, served, client), client)

    async def _answer_alone(self, message: EpisodeRequest, served: ServedEnv, principal: Principal) -> Response:
        """Answer in a new environment, as OpenEnv does. That of a reset stays, and the answer has its session's id."""
        if principal.role == "agent" and served.described.tools is None:
            return Response.of({"detail": no_episode_advice(served), "code": ResetNeeded.code}, 409)
        client = await self.sessions.open(served, principal)
        stays = False
        try:
            response = await self._outcome(message, served, client, when_not_begun=_SEND_BACK)
            stays = isinstance(message, ResetRequest) and response.status == 200
        finally:
            if not stays:
                client.leave()
        return _with_session(response, client) if stays else response

    async def _outcome(
        self, message: EpisodeRequest, served: ServedEnv, client: LocalClient, *, when_not_begun: str = ""
    ) -> Response:
        about, form = served.described, self._service.settings.wire
        spaces = about.action_space, about.observation_space
        translator = Translator(*spaces, about.metadata, form=form, tools=about.tools)
        data = translator.answer_locally(message)
        if data is None:
            translated = translator.request(message)
            if isinstance(translated, WireError):
                return _refusal(translated)
            begins = about.tools is not None
            data = translator.data(message, await self.sessions.ask(client, translated, begins=begins))
        if isinstance(data, WireError):
            return _refusal(data, when_not_begun if data.cause == ResetNeeded.code else "")
        return Response(200, dump(data) if isinstance(message, StateRequest) else outcome_body(data, form))

    async def _rpc(self, served: ServedEnv, principal: Principal, request: Request) -> Response:
        """Answer OpenEnv's JSON-RPC, or MCP if the environment has tools and the client speaks it."""
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
        rpc = json_rpc.read_data(data)
        answer = await self._rpc_answer(rpc, served, principal) if isinstance(rpc, json_rpc.RpcRequest) else rpc
        return Response(200, json_rpc.body(answer))

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
            return json_rpc.at_capacity(rpc, self._service.active, self._service.settings.max_sessions, str(error))
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
            return json_rpc.at_capacity(rpc, self._service.active, self._service.settings.max_sessions, str(error))
        except PaddockError:
            if client is not None:
                client.leave()
            return json_rpc.factory_failed(rpc, served.name)
        return json_rpc.session_created(rpc, client.live.session.id)

    def _close(self, rpc: json_rpc.RpcRequest, served: ServedEnv, principal: Principal) -> dict[str, Any]:
        if rpc.session is None:
            return json_rpc.session_missing(rpc)
        if rpc.session == principal.session:
            return json_rpc.session_own(rpc)
        done = self.sessions.close(rpc.session, served, principal)
        if done == "unknown":
            return json_rpc.session_unknown(rpc, rpc.session)
        return json_rpc.session_closed(rpc, rpc.session, attached=done == "closing")

    async def _task(self, route: str, served: ServedEnv, principal: Principal, request: Request) -> Response:
        method, names = TASK_METHODS[route]
        found = split_body(request.body, *names[1:]) if names else {}
        if isinstance(found, HttpError):
            return Response(found.status, found.body)
        about = served.described
        if openenv_metadata(about.metadata) is None and about.tools is None:  # neither written for OpenEnv nor agentic
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
        except (TypeError, ValueError):  # not what the method should return
            return _failure(None)


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
    headers = {SESSION_HEADER: client.live.session.id}
    return Response(response.status, response.body, response.content_type, headers)


def _failure(failure: HttpError | None) -> Response:
    if failure is None:
        return Response.of({"detail": "The environment failed.", "code": EnvFailed.code}, 409)
    return Response(failure.status, failure.body)


def _refusal(error: WireError, advice: str = "") -> Response:
    if error.errors is not None:
        refused = action_refused(error.errors)
        return Response(refused.status, refused.body)
    status = 410 if error.closes else 409
    detail = f"{error.message.rstrip('.')}. {advice}" if advice else error.message
    return Response.of({"detail": detail, "code": error.code}, status)


@dataclass(frozen=True)
class _Rpc:
    """A message on the websocket ``/mcp``."""

    rpc: Any


_Entry: TypeAlias = "WireRequest | WireError | _Rpc"


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
            self._fail(at_capacity(self._service.active, self._service.settings.max_sessions, str(error)))
            return
        except Draining as error:
            self._fail(WireError(SESSION_ERROR, str(error)))
            return
        except PaddockError:
            self._fail(factory_failed(self._served.name))
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
            self._fail(factory_failed(self._served.name))
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
        if not self.toll.pay(1):
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
            return _Rpc(json_rpc.read(data, websocket=True))
        message = parse_request(data)
        if isinstance(message, WireError):
            return message
        closed = self._service.settings.mode == "production" and isinstance(message, _CLOSED_IN_PRODUCTION)
        if closed or not isinstance(message, _BY_ROLE[self._principal.role]):
            return _execution_error("This is not permitted here.")
        if self._idle and not isinstance(message, CloseRequest):
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
        if isinstance(entry, (ResetRequest, StepRequest, StateRequest)):
            self._ask(entry)
        elif isinstance(entry, WireError):
            failure = json_rpc.failure(None, json_rpc.SERVER_ERROR, entry.message)
            self._out.send(json_rpc.websocket_frame(failure) if self._rpc else error_frame(entry))
        elif isinstance(entry, _Rpc):
            self._ask_rpc(entry.rpc, json_rpc.websocket_frame)
        elif isinstance(entry, McpRequest):
            self._ask_rpc(json_rpc.read_data(entry.data), mcp_frame)
        else:
            self._out.close(NORMAL, "")
            self.closed()

    def _ask(self, message: EpisodeRequest) -> None:
        known = self._translator.answer_locally(message)
        translated = self._translator.request(message) if known is None else known
        if isinstance(translated, (WireError, dict)):
            self._out.send(self._translator.data_frame(message, translated))
            return
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
            if rpc.session is None:
                return json_rpc.session_missing(rpc)
            unknown = rpc.session != own
            return json_rpc.session_unknown(rpc, rpc.session) if unknown else json_rpc.session_own(rpc)
        return json_rpc.without_tools(rpc) if self._tools is None else json_rpc.request_of(rpc, self._tools)

    def _fail(self, error: WireError) -> None:
        self._out.send(error_frame(error))
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

EpisodeRequest: TypeAlias = "ResetRequest | StepRequest | StateRequest"

_FATAL = frozenset(code for _, code, _, alive in table() if not alive)


class Translator:
    """For one environment, number ``env`` of its Host. One per session.

    ``form``: the version of OpenEnv whose bytes to write.
    """

    def __init__(
        self,
        action_space: Space[Any] | None,
        observation_space: Space[Any] | None,
        metadata: Mapping[str, Any],
        *,
        form: Form = "0.10",
        env: int = 0,
        tools: tool_form.Tools | None = None,
    ) -> None:
        self.form: Form = form
        self._actions, self._observations, self._env = action_space, observation_space, env
        self._typed = openenv_metadata(metadata) is not None
        self._tools = None if self._typed else tools

    def answer_locally(self, request: EpisodeRequest) -> dict[str, Any] | WireError | None:
        """The answer to a request that needs no Host: the list of tools. None for any other."""
        if self._tools is None or not isinstance(request, StepRequest) or not tool_form.is_listing(request.data):
            return None
        problem = tool_form.action_of(request.data)
        return problem if isinstance(problem, WireError) else tool_form.listing_data(self._tools, self.form)

    def request(self, request: EpisodeRequest) -> m.Request | WireError:
        """The request for the Host."""
        if isinstance(request, StateRequest):
            return m.State(self._env)
        if isinstance(request, StepRequest):
            action = request.data if self._typed else self._action(request.data)
            return action if isinstance(action, WireError) else m.Step([self._env], [action])
        if self._typed:
            return m.Reset(self._env, None, request.data or None)
        arguments = space_form.reset_arguments(request.data)
        return arguments if isinstance(arguments, WireError) else m.Reset(self._env, *arguments)

    def _action(self, data: dict[str, Any]) -> Any:
        found = None if self._tools is None else tool_form.action_of(data)
        return space_form.action_of(self._actions, data) if found is None else found

    def data(self, request: EpisodeRequest, reply: m.Reply) -> dict[str, Any] | WireError:
        """The reply as the data of a frame, or of an HTTP body."""
        value = reply.value if isinstance(reply, m.Done) else reply
        if isinstance(request, StepRequest) and isinstance(value, list):
            value = value[0]
        if isinstance(value, m.Failed):
            return self._failure(request, value)
        if isinstance(request, StateRequest):
            return self._state(*value)
        if isinstance(request, ResetRequest):
            return self._outcome(value[0], value[1])
        observation, reward, terminated, truncated, info = value
        return self._outcome(observation, info, reward=reward, terminated=terminated, truncated=truncated)

    def frame(self, request: EpisodeRequest, reply: m.Reply) -> str:
        """The reply as a message on ``/ws``."""
        return self.data_frame(request, self.data(request, reply))

    def data_frame(self, request: EpisodeRequest, data: dict[str, Any] | WireError) -> str:
        """Data of either kind as a message on ``/ws``."""
        if isinstance(data, WireError):
            return error_frame(data)
        return state_frame(data) if isinstance(request, StateRequest) else observation_frame(data)

    def _outcome(self, observation: Any, info: Any, **result: Any) -> dict[str, Any]:
        if self._typed and isinstance(observation, dict):
            return observation_data(observation, self.form)
        obs = None if self._tools is None else tool_form.ToolObservation.of(observation)
        if self._tools is not None and obs is not None:
            return tool_form.outcome_data(self._tools, obs, info, **result, form=self.form)
        return space_form.outcome_data(self._observations, observation, info, **result, form=self.form)

    def _state(self, episode_id: str | None, step_count: int | None, public: Any) -> dict[str, Any]:
        if self._typed and isinstance(public, dict):
            return public
        return space_form.state_data(episode_id, step_count, public)

    def _failure(self, request: EpisodeRequest, failed: m.Failed) -> WireError:
        if failed.code == InvalidAction.code and isinstance(request, StepRequest):
            return invalid(entries_of(failed.message, request.data))
        if failed.code == InvalidSeed.code and isinstance(request, ResetRequest):
            return invalid([entry("value_error", ("data", "seed"), request.data.get("seed"), failed.message)])
        if failed.code in _FATAL:
            return WireError(SESSION_ERROR, failed.message, closes=True)
        return WireError(EXECUTION_ERROR, failed.message, cause=failed.code)
