"""NativeSocket: a peer's websocket with paddock's own protocol. Its frames pass unchanged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

from paddock.errors import BadFrame, Draining, NotPermitted, PaddockError, RateLimited, ResetNeeded, SessionGone
from paddock.hosting import messages as m
from paddock.hosting.codec import HANDSHAKE, decode_frame, encode, is_step_rows, number_of
from paddock.hosting.failures import close_number, close_reason
from paddock.hosting.messages import PEER_LIMITS
from paddock.server.auth import Principal
from paddock.server.live_session import LiveSession
from paddock.server.served_env import ServedEnv, no_episode_advice, read_request
from paddock.server.session import NO_SESSION

if TYPE_CHECKING:
    from paddock.server.service import Service

_LOT, _LOTS_PER_S = 32, 1000
_HELLO_S = 10.0  # from the handshake to the Hello
_OWED_S = 1.0  # a client that waits for its replies never owes as much
NORMAL, POLICY_VIOLATION = 1000, 1008
TOO_MANY_FRAMES = close_reason(RateLimited.code, "Too many frames.")


class Out(Protocol):
    """The way to a peer."""

    def send(self, data: bytes | str) -> None:
        """Send a message; never waits."""

    def pause(self, seconds: float) -> None:
        """Read nothing from the peer for so long."""

    def close(self, code: int, reason: str) -> None:
        """Close once what was sent is out."""

    @property
    def relay(self) -> Callable[[int, bytes], None] | None:
        """Let another process have the peer, beginning with this message. None if another has relayed it here."""


class Toll:
    """Charges a connection's frames to its principal's rate. Requests are paid for in lots, so most cost no lookup.

    A frame that is not a request (a ping, a fragment of a message) costs a whole lot.
    """

    def __init__(self, service: Service, principal: Principal, out: Out) -> None:
        self._service, self._principal, self._out = service, principal, out
        # One at a time where few requests are allowed.
        self.lot = max(1, min(_LOT, int(service.quotas.rate(principal.name) / _LOTS_PER_S)))
        self._paid = 0  # requests of the current lot that are still to come

    def pay_request(self) -> bool:
        """Whether the peer may go on after a request, which the current lot or another pays for. Hot."""
        if self._paid:
            self._paid -= 1
            return True
        if not self.pay(self.lot):
            return False
        self._paid = self.lot - 1
        return True

    def pay(self, count: int) -> bool:
        """Whether the peer may go on: at once, or after a pause in which nothing is read from it."""
        owed_s = self._service.quotas.charge(self._principal.name, time.monotonic(), count)
        if owed_s > _OWED_S:
            return False
        if owed_s:
            self._out.pause(owed_s)
        return True

    def pay_extra(self, count: int | None = None) -> None:
        """Charge a frame that is not a request; too many of them end the connection."""
        if not self.pay(count or self.lot):
            self.end()

    def end(self) -> None:
        self._out.close(POLICY_VIOLATION, TOO_MANY_FRAMES)


class NativeSocket:
    """One connection. Its first frame is a Hello; after the Welcome come requests of the session.

    ``waits``: the peer wants to know how many are ahead of it.
    """

    def __init__(
        self, service: Service, served: ServedEnv, principal: Principal, out: Out, *, waits: bool = False
    ) -> None:
        self._service, self._served, self._principal, self._out = service, served, principal, out
        self._number, self._context = service.next_connection(), copy_context()  # with the trace of the request
        self._live: LiveSession | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waits, self._ahead = waits, -1  # the place in the queue that the peer was sent last
        self._production = service.settings.mode == "production"
        self._may_step = principal.role == "operator" and not self._production
        self._over = False
        self.toll = Toll(service, principal, out)
        self._hello_timer = asyncio.get_running_loop().call_later(_HELLO_S, self._require_hello)
        self.send: Callable[[bytes], None] = out.send  # what the session calls, without a call in between

    @property
    def welcome(self) -> bool:
        """Whether there is a session; until then messages must be small."""
        return self._live is not None

    def _require_hello(self) -> None:
        if self._live is None and self._opening is None:
            self.end(BadFrame.code, f"No Hello came within {_HELLO_S:g} s.")

    def message(self, data: bytes | str) -> None:
        """Take a message of the peer. Hot: once per step."""
        if not self.toll.pay_request():
            self.toll.end()
            return
        if isinstance(data, str):
            self._refuse(HANDSHAKE, BadFrame("This protocol has only binary messages."))
            return
        try:
            if self._live is None:
                self._hello(data)
                return
            if self._may_step and is_step_rows(data):  # hot: nearly all
                self._live.request(self._number, data)
                return
            request = read_request(data, self._served, self._principal.role, production=self._production)
        except NotPermitted as error:
            self._deny(number_of(data), error)
            return
        except PaddockError as error:
            self._refuse(number_of(data) if len(data) >= 12 else HANDSHAKE, error)
            return
        if isinstance(request, (m.Step, m.StepRows)) and self._principal.role == "agent":
            # Nobody can reset the environment of a session that an agent opened: its worker is useless.
            self._deny(number_of(data), ResetNeeded(no_episode_advice(self._served)), final=True)
            return
        final = type(request) is m.Close and request.env is None
        self._live.request(self._number, data, final=final)

    def _deny(self, number: int, error: PaddockError, *, final: bool = False) -> None:
        """Refuse a valid request that this peer may not make: it keeps its number, and its reply comes in order."""
        assert self._live is not None, "a hello is always permitted"
        refusal = b"".join(encode(m.Refuse(error.code, str(error)), number))
        self._live.request(self._number, refusal, final=final)

    def _refuse(self, number: int, error: PaddockError) -> None:
        """Refuse a bad frame. The session does not notice it: it is not a request."""
        self.toll.pay_extra()
        known = isinstance(error, (NotPermitted, BadFrame, SessionGone, Draining))
        self.send(b"".join(encode(m.Failed(error.code, str(error) if known else type(error).__name__), number)))

    def _hello(self, data: bytes) -> None:
        number, hello = decode_frame(data, limits=PEER_LIMITS)
        if not isinstance(hello, m.Hello) or number != HANDSHAKE or self._opening is not None:
            raise BadFrame("The first message must be a Hello, with the number 0.")
        if self._service.draining:
            raise Draining("This server is stopping. Try again later.")
        if hello.resume is None:
            self._opening = self._context.run(asyncio.ensure_future, self._open())
            return
        elsewhere = self._service.processes.elsewhere(hello.resume.session)
        if elsewhere is not None and self._out.relay is not None:
            self._out.relay(elsewhere, data)
            return
        live = self._service.session(hello.resume.session, self._principal, self._served)
        if live is None or self._principal.session is not None:  # a handed-over session can't be resumed
            raise SessionGone(NO_SESSION)
        self._live = live
        live.resume(self._number, self, hello.resume)

    async def _open(self) -> None:
        def send_place(ahead: int, wait_s: float | None) -> None:
            if self._waits and ahead != self._ahead:
                self._ahead = ahead
                self.send(b"".join(encode(m.Waiting(ahead, wait_s), HANDSHAKE)))

        try:
            live = await self._service.open(
                self._served, self._principal, wanted=lambda: not self._over, on_wait=send_place
            )
        except PaddockError as error:
            self.send(b"".join(encode(m.Failed(error.code, str(error)), HANDSHAKE)))
            self.end(error.code, str(error))
            return
        if self._over:  # the peer did not wait
            live.close(SessionGone.code, "The client disconnected before the session was ready.")
            return
        self._live = live
        live.attach(self._number, self)

    def closed(self, *, done: bool = False) -> None:
        """The connection is gone; ``done``: its peer said goodbye."""
        self._over = True
        self._hello_timer.cancel()
        if self._live is not None:
            self._live.closed(self._number, done=done)
        elif self._opening is not None:
            self._opening.cancel()  # frees its place in the queue

    def end(self, code: str, reason: str) -> None:
        self._out.close(close_number(code), close_reason(code, reason))
