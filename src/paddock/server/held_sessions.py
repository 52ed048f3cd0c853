"""HeldSessions: sessions that were opened over HTTP and are used by their id. No connection keeps them alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paddock.errors import RateLimited, SessionGone, Unreachable
from paddock.hosting import messages as m
from paddock.server.inner_client import InnerClient
from paddock.server.live_session import LiveSession
from paddock.server.principals import Principal
from paddock.server.served import Served
from paddock.server.service import Service

_MOST_WAITING = 64  # requests of one session
Told = Callable[[str, str], None]


@dataclass
class _Held:
    client: InnerClient
    attached: Told | None = None  # a websocket that joined it hears of its end
    closing: bool = False  # when that websocket goes
    kept: bool = False  # its place is not given to another, however long it is quiet


class HeldSessions:
    """By id, each for the principal who opened it. When a server is full, the one that was quiet longest goes.

    ``on_end`` are told the id of each that is over.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._held: dict[str, _Held] = {}
        self.on_end: list[Callable[[str], None]] = []

    async def open(self, served: Served, principal: Principal) -> InnerClient:
        """A new one with its environment made. Who goes away meanwhile leaves nothing behind."""
        gone = asyncio.Event()
        opening = asyncio.ensure_future(
            self._service.open(served, principal, journaled=False, wanted=lambda: not gone.is_set())
        )
        try:
            live = await asyncio.shield(opening)
        except asyncio.CancelledError:
            gone.set()
            opening.add_done_callback(_close_unwanted)
            raise
        number, id = self._service.next_connection(), live.session.id
        client = InnerClient(number, live, lambda code, reason: self._ended(id, code, reason))
        self._held[id] = _Held(client)
        live.attach(number, client)
        try:
            reply = await self.ask(client, m.Make(0, {}))
            if isinstance(reply, m.Failed):
                raise Unreachable("The environment could not be made.")
        except BaseException:
            client.leave()
            raise
        return client

    async def ask(self, client: InnerClient, request: m.Request, *, begins: bool = False) -> m.Reply:
        """The reply to a request. Until it is there, the session's place is not given to another.

        ``begins``: a step in an environment that nobody has reset begins an episode first.
        """
        if client.waiting >= _MOST_WAITING:
            raise RateLimited("Too many requests of this session wait already.")
        answered: asyncio.Future[m.Reply] = asyncio.get_running_loop().create_future()
        client.live.evictable = False

        def take(reply: m.Reply) -> None:
            if not answered.done():
                answered.set_result(reply)

        if begins and isinstance(request, m.Step):
            client.act(request, take)
        else:
            client.ask(request, take)
        try:
            return await answered
        finally:
            held = self._held.get(client.live.session.id)
            unused = held is not None and held.attached is None and not held.kept
            client.live.evictable = unused and not client.waiting

    def find(self, id: str, served: Served, principal: Principal) -> InnerClient | None:
        """The one of this id, for who opened it or was handed it."""
        held = self._held.get(id)
        if held is None or self._service.session(id, principal, served) is None:
            return None
        return held.client

    def attach(self, id: str, served: Served, principal: Principal, told: Told) -> InnerClient | str:
        """For a websocket that wants to use it alone, or why it may not. ``told`` hears of the session's end."""
        client = self.find(id, served, principal)
        if client is None:
            return f"Unknown session_id: {id[:100]}"
        held = self._held[id]
        if held.attached is not None:
            return f"Session {id} already has an attached WebSocket"
        held.attached, client.live.evictable = told, False
        return client

    def detach(self, client: InnerClient) -> None:
        """The websocket is gone. The session stays, unless it was to be closed."""
        held = self._held.get(client.live.session.id)
        if held is None:
            return
        held.attached, client.live.evictable = None, not held.kept
        if held.closing:
            client.leave()

    def keep(self, id: str) -> None:
        """Never let its place be taken: someone else relies on it. It still ends after a silence that is too long."""
        held = self._held[id]
        held.kept, held.client.live.evictable = True, False

    def close(self, id: str, served: Served, principal: Principal) -> Literal["closed", "closing", "unknown"]:
        """End it; with a websocket attached to it only when that goes. Only for who opened it."""
        client = self.find(id, served, principal)
        if client is None or client.live.principal != principal.name:
            return "unknown"
        held = self._held[id]
        if held.attached is not None:
            held.closing = True
            return "closing"
        client.leave()
        return "closed"

    def _ended(self, id: str, code: str, reason: str) -> None:
        held = self._held.pop(id, None)
        for told in self.on_end:
            told(id)
        if held is not None and held.attached is not None:
            held.attached(code, reason)


def _close_unwanted(opening: asyncio.Future[LiveSession]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close(SessionGone.code, "The client disconnected before the session was ready.")
