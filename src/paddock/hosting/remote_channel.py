"""RemoteChannel: a Channel to a server, over a websocket that may break: the session goes on where it was.

A reader would get wrong: ``send`` does not fail because the connection is down. The request is kept and sent when there
is one again, and the server carries it out once, however often it was sent.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from paddock.errors import ClosedEnvironmentError, DeadlineExceeded, NoAsyncCallError, PaddockError, WorkerLost
from paddock.hosting.messages import Close, Reply, Request, Resume
from paddock.hosting.remote_address import RemoteAddress
from paddock.hosting.remote_keeper import keep_alive
from paddock.hosting.remote_session import (
    CLOSE_GRACE_S,
    HEARTBEAT_S,
    AskAlive,
    Deed,
    OnWait,
    RemoteSession,
    split_frame,
)
from paddock.hosting.resuming import Connect, Disconnect, Patience, Send
from paddock.hosting.websocket.blocking import BlockingConnection
from paddock.hosting.websocket.events import WebSocketError

if TYPE_CHECKING:
    import ssl

_KEEP_S = 1.0  # for an attempt to connect that nobody waits for


class RemoteChannel:
    """A session of its own on the server at ``address``; made when the server has said welcome.

    ``deadline_s``: for a reply, where ``recv`` is given no time of its own. ``heartbeat_s``: None for networks that
    swallow pings. ``saved``: take over the session of another channel, see ``saved``.
    """

    def __init__(
        self,
        address: RemoteAddress,
        *,
        deadline_s: float | None = None,
        patience: Patience | None = None,
        heartbeat_s: float | None = HEARTBEAT_S,
        context: ssl.SSLContext | None = None,
        saved: Resume | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        self.address = address
        self._deadline_s, self._context = deadline_s, context
        self._patience = patience or Patience()
        self._session = RemoteSession(
            address.endpoint(),
            os.urandom(16).hex(),
            patience=self._patience,
            heartbeat_s=heartbeat_s,
            saved=saved,
            on_wait=on_wait,
        )
        self._connection: BlockingConnection | None = None
        self._connection_of = 0  # the attempt that it belongs to
        self._next: Connect | None = None
        self._order: deque[int] = deque()  # numbers of the requests that recv has not answered for yet
        self._closed = False
        self._lock = threading.Lock()  # between the user and the keeper; a channel is for one thread
        self._owner = os.getpid()
        with self._lock:
            try:
                self._do(self._session.start(time.monotonic()))
                while not self._session.greeted:
                    self._check_over()
                    self._go_on(None)
            except BaseException:
                self._abort()
                raise
        keep_alive(weakref.ref(self))

    @property
    def saved(self) -> Resume | None:
        """With this another channel can take the session over, once. It is as secret as the token."""
        return self._session.saved

    def send(self, request: Request) -> None:
        self._check_open()  # before the lock: in a forked process nobody might ever release it
        with self._lock:
            while not self._session.has_room:
                self._check_over()
                self._go_on(None)
            number, deeds = self._session.submit(request)
            self._order.append(number)
            self._do(deeds)

    def recv(self, timeout: float | None = None) -> Reply:
        with self._lock:
            if not self._order:
                raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
            number = self._order.popleft()
            limit_s = self._deadline_s if timeout is None else timeout
            ends_s = None if limit_s is None else time.monotonic() + limit_s
            try:
                while (reply := self._session.reply(number)) is None:
                    if ends_s is not None and time.monotonic() >= ends_s:
                        raise DeadlineExceeded(f"No answer within {limit_s} s.")
                    self._go_on(ends_s)
            except BaseException:  # Ctrl-C too: its reply must not be taken for the next one
                self._session.forget(number)
                raise
            return reply

    def lose(self, how: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """End the session here, without a word to the server; what later calls will raise."""
        with self._lock:
            lost = self._session.over
            if not isinstance(lost, WorkerLost):
                lost = WorkerLost(f"The environment at {self.address} {how or 'was given up'}.", cause=cause or "ended")
            self._session.end(lost)
            self._abort()
        return lost

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environment close, for at most ``grace_s`` seconds, then take leave. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._owner:  # a copy in a forked process has no say
            self._abort()
            return
        with self._lock:
            try:
                if self._session.over is None:
                    self._take_leave(grace_s)
            finally:
                self._session.end(ClosedEnvironmentError("This channel is closed. Make the environment anew."))
                self._abort()

    def _take_leave(self, grace_s: float) -> None:
        session, ends_s, number = self._session, time.monotonic() + grace_s, 0
        try:
            while number == 0 or session.reply(number) is None:
                if number == 0 and session.has_room:
                    number, deeds = session.submit(Close())
                    self._do(deeds)
                ends_s = session.leave_by_s(time.monotonic(), ends_s)
                if time.monotonic() >= ends_s:
                    break
                self._go_on(ends_s)
            if self._connection is not None:
                self._connection.close(timeout_s=max(0.0, ends_s - time.monotonic()))
        except (PaddockError, OSError):
            pass  # it is gone, and that is all that was wanted

    def keep(self) -> bool:
        """Answer pings and come back after a break while nobody calls; whether there is something left to keep."""
        if self._lock.acquire(blocking=False):
            try:
                if self._closed or self._session.over is not None or os.getpid() != self._owner:
                    return False
                self._go_on(time.monotonic() + (0.0 if self._connection is not None else _KEEP_S))
            finally:
                self._lock.release()
        return True

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment anew.")
        if os.getpid() != self._owner:
            raise ClosedEnvironmentError("This channel belongs to the process that made it. Make one here.")

    def _check_over(self) -> None:
        if self._session.over is not None:
            raise self._session.over.with_traceback(None)

    # One step at a time, and what it asks for

    def _go_on(self, ends_s: float | None) -> None:
        """Connect or read once, until ``ends_s`` (monotonic) at the latest."""
        if self._connection is None:
            self._connect(ends_s)
            return
        session, attempt = self._session, self._connection_of
        try:
            event = self._connection.recv(self._limit_s(ends_s))
        except (OSError, WebSocketError) as error:
            self._break(attempt, error)
            return
        except BaseException:  # Ctrl-C: bytes that were read may not have been kept, so they are asked for again
            self._break(attempt, InterruptedError("interrupted"))
            raise
        now = time.monotonic()
        if event is not None:
            jitter = 0.5 if session.greeted else _jitter()
            if deeds := session.happened(attempt, event, now, jitter):
                self._do(deeds)
            if self._connection is not None and self._connection.is_closed:
                self._abort()  # the peer took leave; the session knows by now
        if event is None or not session.greeted:  # a server that never stops talking has begun no session either
            self._do(session.tick(now, _jitter()))
        if event is None:
            self._do(session.silent(now, _jitter()))

    def _limit_s(self, ends_s: float | None) -> float | None:
        """How long a read may take: greeted, and without a deadline, nothing has to be looked at."""
        if ends_s is None and self._session.greeted:
            return None
        now, due_s = time.monotonic(), self._session.due_s
        limits = [one - now for one in (ends_s, due_s) if one is not None]
        return max(0.0, min(limits, default=0.0))

    def _connect(self, ends_s: float | None) -> None:
        asked = self._next
        if asked is None:
            self._check_over()
            return
        now = time.monotonic()
        until_s = asked.at_s if ends_s is None else min(asked.at_s, ends_s)
        if until_s > now:
            time.sleep(until_s - now)
        if until_s < asked.at_s:
            return
        now = time.monotonic()
        self._do(self._session.tick(now, _jitter()))
        if self._next is not asked:
            return
        self._next = None
        allowed_s = self._session.attempt_s(now) if ends_s is None else min(self._patience.handshake_s, ends_s - now)
        try:
            connection = BlockingConnection(
                self._session.endpoint,
                timeout_s=max(0.01, allowed_s),
                dial_s=self._patience.handshake_s,
                on_accept=partial(self._session.accepted, asked.attempt),
                context=self._context,
                split=split_frame,
            )
        except (PaddockError, OSError) as error:
            self._break(asked.attempt, error)
            return
        except BaseException:
            self._break(asked.attempt, InterruptedError("interrupted"))
            raise
        self._connection, self._connection_of = connection, asked.attempt
        self._do(self._session.connected(asked.attempt, connection.subprotocol))

    def _do(self, deeds: list[Deed]) -> None:
        for deed in deeds:
            if type(deed) is Connect:
                self._next = deed
            elif self._connection is None or deed.attempt != self._connection_of:
                pass  # of a connection that is gone already
            elif type(deed) is Disconnect:
                self._abort()
            else:
                self._write(self._connection, deed)

    def _write(self, connection: BlockingConnection, deed: Deed) -> None:
        try:
            if type(deed) is Send:
                connection.send(deed.frame)
            elif type(deed) is AskAlive:
                connection.ping()
        except OSError as error:
            self._break(deed.attempt, error)
        except BaseException:  # half a message is none, and what follows it would be misread
            self._break(deed.attempt, InterruptedError("interrupted"))
            raise

    def _break(self, attempt: int, problem: BaseException) -> None:
        self._abort()
        self._do(self._session.broken(attempt, problem, time.monotonic(), _jitter()))

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def _jitter() -> float:
    return int.from_bytes(os.urandom(2), "big") / 0xFFFF
