"""OpenEnvSocket: a stock OpenEnv client's ``/ws``. One environment a connection, answers in the order of requests.

An environment that is lost does not close the connection: OpenEnv's client would connect again by itself and go on in
a new environment, without a word.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from paddock.errors import CapacityReached, Draining, PaddockError, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.close_reason import close_reason
from paddock.hosting.openenv import json_rpc, tool_rpc
from paddock.hosting.openenv.frames import at_capacity, error_frame, factory_failed, mcp_frame
from paddock.hosting.openenv.requests import (
    EXECUTION_ERROR,
    SESSION_ERROR,
    CloseRequest,
    McpRequest,
    ResetRequest,
    StateRequest,
    StepRequest,
    WireError,
    WireRequest,
    parse_request,
)
from paddock.hosting.openenv.tool_form import Tools
from paddock.hosting.openenv.translate import Asked, Translator
from paddock.server.held_sessions import HeldSessions
from paddock.server.inner_client import InnerClient
from paddock.server.native_socket import NORMAL, POLICY_VIOLATION, Out, Toll
from paddock.server.permitted import no_episode
from paddock.server.principals import Principal
from paddock.server.served import Served

if TYPE_CHECKING:
    from paddock.server.service import Service

_CARRIED = 64  # requests that a client may send ahead; those after them are refused
_MOST_WAITING = 4096  # a client that sends on after so many refusals reads none of them
_REFUSALS = 64  # in a row, because it asks too often: then it is let go
_BY_ROLE = {
    "operator": (ResetRequest, StepRequest, StateRequest, McpRequest, CloseRequest),
    "agent": (StepRequest, McpRequest, CloseRequest),
    "observer": (StateRequest, CloseRequest),
}
_CLOSED_IN_PRODUCTION = (ResetRequest, StepRequest, StateRequest)
_ENDINGS = (SessionGone.code, Draining.code)  # of a session by this server, not by its environment


@dataclass(frozen=True)
class _Rpc:
    """A message on the websocket ``/mcp``."""

    asked: Any


_Entry: TypeAlias = "WireRequest | WireError | _Rpc"


class OpenEnvSocket:
    """One connection. A bad message is answered, and costs nothing but itself.

    ``rpc``: messages are JSON-RPC alone. ``join``: the sessions over HTTP, and the id of the one to use.
    """

    def __init__(
        self,
        service: Service,
        served: Served,
        principal: Principal,
        out: Out,
        *,
        rpc: bool = False,
        join: tuple[HeldSessions, str] | None = None,
    ) -> None:
        self._service, self._served, self._principal, self._out = service, served, principal, out
        self.toll = Toll(service, principal, out)
        self._refusals = 0
        self._rpc = rpc
        self._held: HeldSessions | None = None
        self._waiting: deque[_Entry] = deque()
        self._client: InnerClient | None = None
        self.welcome = True  # its session is opened without a Hello
        told = served.described
        self._translator = Translator(
            told.action_space, told.observation_space, told.metadata, form=service.settings.wire, tools=told.tools
        )
        self._tools = told.tools
        self._free = self._over = self._in_next = False  # free once the environment is there
        self._opening: asyncio.Future[None] | None = None
        # An agent can do nothing in an environment without tools that nobody resets, so it gets none.
        self._idle = join is None and principal.role == "agent" and told.tools is None
        self._deadline: asyncio.TimerHandle | None = None
        if self._idle:
            self._free = True
            self._wait()
        elif join is None:
            self._opening = asyncio.ensure_future(self._open())
        else:
            self._join(*join)

    def _wait(self) -> None:
        """Without a session nothing else ends a connection that is silent."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(
            self._service.settings.idle_s, self._ended, SessionGone.code, "It was silent for too long."
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
            live.close(SessionGone.code, "The client has gone.")
            return
        number = self._service.next_connection()
        self._client = client = InnerClient(number, live, self._ended)
        live.attach(number, client)
        client.ask(m.Make(0, {}), self._made)

    def _made(self, reply: m.Reply) -> None:
        if isinstance(reply, m.Failed):
            self._fail(factory_failed(self._served.name))
            self.closed()
            return
        self._free = True
        self._next()

    def _join(self, sessions: HeldSessions, id: str) -> None:
        found = sessions.attach(id, self._served, self._principal, self._ended)
        if isinstance(found, str):
            self._over = True  # told once the handshake is done
            asyncio.get_running_loop().call_soon(self._fail, WireError(SESSION_ERROR, found))
            return
        self._client, self._held, self._free = found, sessions, True

    def message(self, data: bytes | str) -> None:
        """A message of the client's. Hot: once a step."""
        if self._over:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._out.close(POLICY_VIOLATION, "Too many requests were sent ahead.")
            return
        if self._idle:
            self._wait()
        self._waiting.append(self._read(data))
        self._next()

    def _read(self, data: bytes | str) -> _Entry:
        if not self.toll.pay(1):
            self._refusals += 1
            if self._refusals > _REFUSALS:
                self.toll.end()
            return _refused("Too many requests: wait a moment.")
        self._refusals = 0
        asked = self._understood(data)
        if isinstance(asked, WireError):
            self.toll.pay_extra()
        return asked

    def _understood(self, data: bytes | str) -> _Entry:
        if len(self._waiting) >= _CARRIED:
            return _refused("More was sent ahead than is kept: wait for answers.")
        if self._rpc and not self._idle:
            return _Rpc(json_rpc.read(data, websocket=True))
        asked = parse_request(data)
        if isinstance(asked, WireError):
            return asked
        if not isinstance(asked, _BY_ROLE[self._principal.role]) or self._closed_to(asked):
            return _refused("This is not permitted here.")
        return _refused(no_episode(self._served)) if self._idle and not isinstance(asked, CloseRequest) else asked

    def _closed_to(self, asked: WireRequest) -> bool:
        return self._service.settings.mode == "production" and isinstance(asked, _CLOSED_IN_PRODUCTION)

    def _next(self) -> None:
        if self._in_next:  # an answer that came at once: the loop below goes on with it
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
            self._ask_rpc(entry.asked, json_rpc.websocket_frame)
        elif isinstance(entry, McpRequest):
            self._ask_rpc(json_rpc.read_data(entry.data), mcp_frame)
        else:
            self._out.close(NORMAL, "")
            self.closed()

    def _ask(self, asked: Asked) -> None:
        known = self._translator.known(asked)
        translated = self._translator.request(asked) if known is None else known
        if isinstance(translated, (WireError, dict)):
            self._out.send(self._translator.framed(asked, translated))
            return
        self._put(translated, lambda reply: self._translator.frame(asked, reply))

    def _put(self, request: m.Request, frame: Callable[[m.Reply], str]) -> None:
        """Ask the environment, and send the frame that its reply makes; then comes the next."""
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

    def _ask_rpc(self, asked: json_rpc.RpcRequest | json_rpc.Answer, frame: Callable[[json_rpc.Answer], str]) -> None:
        found = self._rpc_answer(asked)
        if isinstance(found, m.Step):
            assert isinstance(asked, json_rpc.RpcRequest)
            tools = self._tools or Tools()
            self._put(found, lambda reply: frame(tool_rpc.answer_to(asked, tools, reply)))
        else:
            self._out.send(frame(found))

    def _rpc_answer(self, asked: json_rpc.RpcRequest | json_rpc.Answer) -> json_rpc.Answer | m.Step:
        """The answer, or the step that it needs."""
        assert self._client is not None
        if not isinstance(asked, json_rpc.RpcRequest):
            return asked  # what is wrong with it
        own = self._client.live.session.id
        if asked.method == json_rpc.CREATE:
            return json_rpc.session_created(asked, own)
        if asked.method == json_rpc.CLOSE:
            return self._close_answer(asked, own)
        return json_rpc.without_tools(asked) if self._tools is None else tool_rpc.request_of(asked, self._tools)

    def _close_answer(self, asked: json_rpc.RpcRequest, own: str) -> dict[str, Any]:
        if asked.session is None:
            return json_rpc.session_missing(asked)
        return json_rpc.session_own(asked) if asked.session == own else json_rpc.session_unknown(asked, asked.session)

    def _fail(self, error: WireError) -> None:
        self._out.send(error_frame(error))
        self._out.close(NORMAL, "")

    def _ended(self, code: str, reason: str) -> None:
        if code in _ENDINGS and not self._over:
            self._over = True
            self._out.close(NORMAL, close_reason(code, reason))
        elif not self._over:  # what is asked from now on is answered with why; but not for ever
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
                self._opening.cancel()  # its place in line is another's
            return
        if self._held is None:
            client.leave()
        else:
            self._held.detach(client)


def _refused(why: str) -> WireError:
    return WireError(EXECUTION_ERROR, why)
