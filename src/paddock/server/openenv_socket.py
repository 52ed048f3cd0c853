"""OpenEnvSocket: a stock OpenEnv client's ``/ws``. One environment a connection, one request at a time, in JSON."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from paddock.errors import CapacityReached, PaddockError
from paddock.hosting import messages as m
from paddock.hosting.openenv import json_rpc
from paddock.hosting.openenv.frames import at_capacity, error_frame, factory_failed, mcp_frame
from paddock.hosting.openenv.requests import (
    CloseRequest,
    McpRequest,
    ResetRequest,
    StateRequest,
    StepRequest,
    WireError,
    WireRequest,
    parse_request,
)
from paddock.hosting.openenv.translate import Translator
from paddock.server.inner_client import InnerClient
from paddock.server.native_socket import NORMAL, POLICY_VIOLATION, TRY_AGAIN_LATER, Out
from paddock.server.principals import Principal
from paddock.server.served import Served

if TYPE_CHECKING:
    from paddock.server.service import Service

_MOST_WAITING = 64  # requests that a client may send ahead
_BY_ROLE = {
    "operator": (ResetRequest, StepRequest, StateRequest, McpRequest, CloseRequest),
    "agent": (StepRequest, McpRequest, CloseRequest),
    "observer": (StateRequest, CloseRequest),
}
_CLOSED_IN_PRODUCTION = (ResetRequest, StepRequest, StateRequest)


class OpenEnvSocket:
    """One connection. A bad message is answered, and costs nothing but itself. ``rpc``: messages are JSON-RPC alone."""

    def __init__(self, service: Service, served: Served, principal: Principal, out: Out, *, rpc: bool = False) -> None:
        self._rpc = rpc
        self._service, self._served, self._principal, self._out = service, served, principal, out
        self._waiting: deque[WireRequest] = deque()
        self._client: InnerClient | None = None
        self._translator: Translator | None = None
        self._busy, self._over = True, False  # until the environment is there
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        try:
            live = await self._service.open(self._served, self._principal, journaled=False)
        except CapacityReached:
            self._fail(at_capacity(self._service.active, self._service.settings.max_sessions))
            return
        except PaddockError:
            self._fail(factory_failed(self._served.name))
            return
        if self._over:
            live.close("CLOSED", "The client has gone.")
            return
        number = self._service.next_connection()
        self._client = client = InnerClient(number, live, self._ended)
        live.attach(number, client)
        client.ask(m.Make(0, {}), self._made)

    def _made(self, reply: m.Reply) -> None:
        if isinstance(reply, m.Failed):
            self._fail(factory_failed(self._served.name))
            return
        told = self._served.described
        self._translator = Translator(
            told.action_space, told.observation_space, told.metadata, form=self._service.settings.wire
        )
        self._next()

    def message(self, data: bytes | str) -> None:
        """A message of the client's."""
        if self._service.wait_s(self._principal.name):
            self._out.close(TRY_AGAIN_LATER, "RATE_LIMITED")
            return
        if self._rpc:
            self._out.send(json_rpc.websocket_frame(self._rpc_answer(json_rpc.read(data, websocket=True))))
            return
        asked = parse_request(data)
        if isinstance(asked, WireError):
            self._out.send(error_frame(asked))
            return
        if not isinstance(asked, _BY_ROLE[self._principal.role]) or self._closed_to(asked):
            self._out.send(error_frame(WireError("EXECUTION_ERROR", "This is not permitted here.")))
            return
        if isinstance(asked, CloseRequest):
            self._out.close(NORMAL, "")
            self.closed()
        elif len(self._waiting) >= _MOST_WAITING:
            self._out.close(POLICY_VIOLATION, "Too many requests were sent ahead.")
        else:
            self._waiting.append(asked)
            if not self._busy:
                self._next()

    def _closed_to(self, asked: WireRequest) -> bool:
        return self._service.settings.mode == "production" and isinstance(asked, _CLOSED_IN_PRODUCTION)

    def _next(self) -> None:
        self._busy = False
        while self._waiting and not self._busy and not self._over:
            self._carry_out(self._waiting.popleft())

    def _carry_out(self, asked: WireRequest) -> None:
        assert self._translator is not None
        assert self._client is not None
        if isinstance(asked, McpRequest):
            self._out.send(mcp_frame(self._rpc_answer(json_rpc.read_data(asked.data))))
            return
        assert isinstance(asked, (ResetRequest, StepRequest, StateRequest))
        translated, translator = self._translator.request(asked), self._translator
        if isinstance(translated, WireError):
            self._out.send(error_frame(translated))
            return

        def answer_with(reply: m.Reply) -> None:
            self._out.send(translator.frame(asked, reply))
            self._next()

        self._busy = True
        self._client.ask(translated, answer_with)

    def _rpc_answer(self, asked: Any) -> dict[str, Any]:
        if not isinstance(asked, json_rpc.RpcRequest):
            return asked  # type: ignore[no-any-return]  # what is wrong with it
        if asked.method == json_rpc.CREATE and self._client is not None:
            return json_rpc.session_created(asked, self._client.live.session.id)
        if asked.method == json_rpc.CLOSE:
            return json_rpc.session_own(asked)
        return json_rpc.without_tools(asked)

    def _fail(self, error: WireError) -> None:
        self._out.send(error_frame(error))
        self._out.close(NORMAL, "")

    def _ended(self, code: str, reason: str) -> None:
        self._over = True
        self._out.close(NORMAL, code)

    def closed(self, *, done: bool = True) -> None:
        """The connection is gone, and the session with it."""
        self._over = True
        if self._client is not None:
            client, self._client = self._client, None
            client.leave()
