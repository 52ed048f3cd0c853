"""RemoteChannel: a Channel to a server, over a websocket that may break: the session continues where it was.

``send`` does not fail because the connection is down. The request is kept and sent when there
is one again, and the server carries it out once, however often it was sent.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from paddock.errors import ClosedEnvironmentError, NoAsyncCallError, PaddockError, WorkerLost
from paddock.hosting.messages import Close, Request, Resume, StepReply
from paddock.hosting.remote_address import SUBPROTOCOLS, OtherWire, RemoteAddress
from paddock.hosting.remote_session import (
    CLOSE_GRACE_S,
    HEARTBEAT_S,
    Command,
    Connect,
    Disconnect,
    OnWait,
    Patience,
    RemoteSession,
    Send,
    split_frame,
)
from paddock.hosting.websocket.blocking import BlockingConnection
from paddock.hosting.websocket.events import Closed

if TYPE_CHECKING:
    import ssl

    from paddock.hosting.websocket.asynchronous import AsyncConnection

_KEEP_S = 1.0  # for an attempt to connect that no call waits for
_KEEPER_S = 5.0  # how often to look after a channel that is not used
_GOODBYE_S = 0.5  # for the server to close a connection, too, when the session is killed


class SessionChannel:
    """A session on the server at ``address`` and its connection: what the blocking and the asyncio channel share.

    ``deadline_s``: for a reply, unless the call has a timeout. ``heartbeat_s``: None for networks that swallow pings.
    ``saved``: take over the session of another channel, see ``saved``.
    """

    _connection: BlockingConnection | AsyncConnection | None

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
        wires: tuple[str, ...] = SUBPROTOCOLS,
    ) -> None:
        self.address, self._context = address, context
        self._deadline_s = inf if deadline_s is None else deadline_s
        self._session = RemoteSession(
            address, patience=patience, heartbeat_s=heartbeat_s, saved=saved, on_wait=on_wait, wires=wires
        )
        self._connection = None
        self._connection_of = 0  # the attempt that it belongs to
        self._closed = False
        self._set_up()

    @property
    def saved(self) -> Resume | None:
        """With this another channel can take the session over, once. Keep it as secret as the token."""
        return self._session.saved

    @property
    def wire(self) -> str:
        """The protocol that the server has chosen."""
        return self._session.wire

    def _set_up(self) -> None:
        raise NotImplementedError

    def _plan(self, connect: Connect) -> None:
        raise NotImplementedError

    def _do(self, commands: list[Command]) -> None:
        for command in commands:
            if type(command) is Connect:
                self._plan(command)
            elif self._connection is None or command.attempt != self._connection_of:
                pass  # its connection is gone already
            elif type(command) is Disconnect:
                self._drop()
            else:
                try:
                    if type(command) is Send:
                        self._connection.send(command.frame)
                    else:
                        self._connection.ping()
                except BaseException as error:
                    self._break(command.attempt, error)

    def _break(self, attempt: int, problem: BaseException | Closed) -> None:
        """The connection ended. Ctrl-C ends it too, and is raised again.

        Bytes that were read may be lost then, and after half a message the server would misread whatever follows.
        """
        interrupts = not isinstance(problem, (Closed, PaddockError, OSError))
        why = InterruptedError("interrupted") if interrupts else problem
        if attempt == self._connection_of:
            self._drop()
        self._do(self._session.handle_break(attempt, why, time.monotonic()))
        if isinstance(problem, BaseException) and interrupts:
            raise problem

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class RemoteChannel(SessionChannel):
    """The blocking one. When it is made, the server has welcomed it."""

    _connection: BlockingConnection | None

    def _set_up(self) -> None:
        self._next: Connect | None = None
        self._order: deque[int] = deque()  # numbers of the requests whose reply recv has not returned yet
        self._lock = threading.Lock()  # between the user's thread, of which there is one, and the keeper
        self._owner = os.getpid()
        with self._lock:
            try:
                self._do(self._session.start(time.monotonic()))
                while not self._session.greeted:
                    self._session.check()
                    self._pump(inf)
            except BaseException:
                self._drop()
                raise
        ended = threading.Event()
        self._end_keeper = weakref.finalize(self, _end_keeper, ended, self._owner)
        threading.Thread(target=_keep, args=(weakref.ref(self), ended), name="paddock-keeper", daemon=True).start()

    def _plan(self, connect: Connect) -> None:
        self._next = connect

    def send(self, request: Request) -> None:
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        if os.getpid() != self._owner:  # before the lock: in a forked process it might never be released
            raise ClosedEnvironmentError("This channel belongs to the process that made it. Make one here.")
        session = self._session
        with self._lock:
            while not session.has_room:
                session.check()
                self._pump(inf)
            number, commands = session.submit(request)
            self._order.append(number)
            self._do(commands)

    def recv(self, timeout: float | None = None) -> StepReply:
        with self._lock:
            if not self._order:
                raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
            number = self._order.popleft()
            session, limit_s = self._session, self._deadline_s if timeout is None else timeout
            ends_s = time.monotonic() + limit_s
            try:
                while number not in session.replies:
                    if session.over is not None:
                        session.check()
                    if time.monotonic() >= ends_s:
                        raise session.overdue(limit_s)
                    self._pump(ends_s)
                return session.replies.pop(number)
            except BaseException:  # Ctrl-C too: its reply must not be taken for the next one
                session.forget(number)
                raise

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """End the session at once, here and on the server; returns what later calls will raise."""
        with self._lock:
            lost = self._session.kill(reason, cause)
            if self._connection is not None:
                self._connection.close(timeout_s=_GOODBYE_S)
            self._drop()
        return lost

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environment close, within ``grace_s`` seconds, then close the connection. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._end_keeper()
        if os.getpid() != self._owner:  # only a copy, in a forked process
            self._drop()
            return
        with self._lock:
            try:
                if self._session.over is None:
                    self._say_goodbye(grace_s)
            finally:
                self._session.end(ClosedEnvironmentError("This channel is closed. Make the environment again."))
                self._drop()

    def _say_goodbye(self, grace_s: float) -> None:
        session, ends_s, number = self._session, time.monotonic() + grace_s, 0
        with suppress(PaddockError, OSError):  # the session is gone, as it should be
            while number == 0 or session.reply(number) is None:
                if number == 0 and session.has_room:
                    number, commands = session.submit(Close())
                    self._do(commands)
                ends_s = session.leave_by_s(time.monotonic(), ends_s)
                if time.monotonic() >= ends_s:
                    break
                self._pump(ends_s)
            if self._connection is not None:
                self._connection.close(timeout_s=max(0.0, ends_s - time.monotonic()))

    def keep(self) -> bool:
        """Answer pings and reconnect while no call is under way; whether there is still something to look after."""
        if self._lock.acquire(blocking=False):
            try:
                if self._closed or self._session.over is not None or os.getpid() != self._owner:
                    return False
                self._pump(time.monotonic() + (0.0 if self._connection is not None else _KEEP_S))
            finally:
                self._lock.release()
        return True

    def _pump(self, ends_s: float) -> None:
        """Connect or read once, until ``ends_s`` (monotonic) at the latest."""
        if self._connection is None:
            self._connect(ends_s)
            return
        session, attempt = self._session, self._connection_of
        if not session.greeted:
            ends_s = min(ends_s, session.due_s)
        try:
            event = self._connection.recv(max(0.0, ends_s - time.monotonic()))
        except BaseException as error:
            self._break(attempt, error)
            return
        if type(event) is Closed:
            self._break(attempt, event)
            return
        now = time.monotonic()
        if event is not None and (commands := session.handle_event(attempt, event, now)):
            self._do(commands)
        if event is None or not session.greeted:  # the session's time limit also holds for a server that keeps talking
            self._do(session.tick(now))

    def _connect(self, ends_s: float) -> None:
        session, planned = self._session, self._next
        if planned is None:
            session.check()
            return
        until_s = min(planned.at_s, ends_s)
        time.sleep(max(0.0, until_s - time.monotonic()))
        if until_s < planned.at_s:
            return
        now = time.monotonic()
        self._do(session.tick(now))
        if self._next is not planned:
            return
        self._next, longest_s = None, session.patience.handshake_s
        allowed_s = session.attempt_s(now) if ends_s == inf else min(longest_s, ends_s - now)
        try:
            connection = BlockingConnection(
                session.endpoint,
                timeout_s=max(0.01, allowed_s),
                dial_s=longest_s,
                on_accept=partial(session.accepted, planned.attempt),
                context=self._context,
                split=split_frame,
            )
        except BaseException as error:
            self._break(planned.attempt, error)
            return
        commands = session.connected(planned.attempt, connection.subprotocol)
        if isinstance(session.over, OtherWire) and session.saved is None:
            # Not closed: to an OpenEnv server a connection is a session, and many servers have room for only one.
            session.over.connection = connection
            return
        self._connection, self._connection_of = connection, planned.attempt
        self._do(commands)


def _keep(channel_ref: weakref.ref[RemoteChannel], ended: threading.Event) -> None:
    """Look after a channel while it is not used, in a thread: an agent may think for minutes between steps.

    Without this pings would go unanswered, and the server would drop the session.
    """
    while not ended.wait(_KEEPER_S):
        channel = channel_ref()
        with suppress(Exception):  # its user's next call raises it
            if channel is None or not channel.keep():
                return
        del channel  # else it would never be collected


def _end_keeper(ended: threading.Event, owner: int) -> None:
    if os.getpid() == owner:  # in a forked process the thread is not there, and may have held the event's lock
        ended.set()
