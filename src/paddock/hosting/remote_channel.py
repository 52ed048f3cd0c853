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
from functools import partial
from typing import TYPE_CHECKING, Protocol

from paddock.errors import ClosedEnvironmentError, DeadlineExceeded, NoAsyncCallError, PaddockError, WorkerLost
from paddock.hosting.messages import Close, Request, Resume, StepReply
from paddock.hosting.remote_address import RemoteAddress
from paddock.hosting.remote_session import (
    CLOSE_GRACE_S,
    HEARTBEAT_S,
    AskAlive,
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
from paddock.hosting.websocket.events import WebSocketError

if TYPE_CHECKING:
    import ssl


_KEEP_S = 1.0  # for an attempt to connect that no call waits for
_KEEPER_S = 5.0  # how often the keeper looks after channels
_GOODBYE_S = 0.5  # for the server to close a connection, too, when the session is killed


class RemoteChannel:
    """A session of its own on the server at ``address``; returns when the server has welcomed it.

    ``deadline_s``: for a reply, unless ``recv`` has a timeout. ``heartbeat_s``: None for networks that swallow pings.
    ``saved``: take over the session of another channel, see ``saved``.
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
        self._order: deque[int] = deque()  # numbers of the requests whose reply recv has not returned yet
        self._closed = False
        self._lock = threading.Lock()  # between the user's thread, of which there is one, and the keeper
        self._owner = os.getpid()
        with self._lock:
            try:
                self._do(self._session.start(time.monotonic()))
                while not self._session.greeted:
                    self._check_over()
                    self._pump(None)
            except BaseException:
                self._abort()
                raise
        keep_alive(weakref.ref(self))

    @property
    def saved(self) -> Resume | None:
        """With this another channel can take the session over, once. Keep it as secret as the token."""
        return self._session.saved

    def send(self, request: Request) -> None:
        self._check_open()  # before the lock: in a forked process it might never be released
        with self._lock:
            while not self._session.has_room:
                self._check_over()
                self._pump(None)
            number, commands = self._session.submit(request)
            self._order.append(number)
            self._do(commands)

    def recv(self, timeout: float | None = None) -> StepReply:
        with self._lock:
            if not self._order:
                raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
            number = self._order.popleft()
            limit_s = self._deadline_s if timeout is None else timeout
            ends_s = None if limit_s is None else time.monotonic() + limit_s
            try:
                while (reply := self._session.reply(number)) is None:
                    if ends_s is not None and time.monotonic() >= ends_s:
                        raise DeadlineExceeded(f"No answer within {limit_s} s.{self._session.outage}")
                    self._pump(ends_s)
            except BaseException:  # Ctrl-C too: its reply must not be taken for the next one
                self._session.forget(number)
                raise
            return reply

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """End the session at once, here and on the server; returns what later calls will raise."""
        with self._lock:
            lost = self._session.over
            if not isinstance(lost, WorkerLost):
                text = f"The environment at {self.address} {reason or 'was given up'}."
                lost = WorkerLost(text, cause=cause or "ended")
            self._session.end(lost)
            if self._connection is not None:
                self._connection.close(timeout_s=_GOODBYE_S)
            self._abort()
        return lost

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environment close, within ``grace_s`` seconds, then close the connection. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._owner:  # only a copy, in a forked process
            self._abort()
            return
        with self._lock:
            try:
                if self._session.over is None:
                    self._say_goodbye(grace_s)
            finally:
                self._session.end(ClosedEnvironmentError("This channel is closed. Make the environment again."))
                self._abort()

    def _say_goodbye(self, grace_s: float) -> None:
        session, ends_s, number = self._session, time.monotonic() + grace_s, 0
        try:
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
        except (PaddockError, OSError):
            pass  # the session is gone, as it should be

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

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        if os.getpid() != self._owner:
            raise ClosedEnvironmentError("This channel belongs to the process that made it. Make one here.")

    def _check_over(self) -> None:
        if self._session.over is not None:
            raise self._session.over.with_traceback(None)

    def _pump(self, ends_s: float | None) -> None:
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
        except BaseException:  # Ctrl-C: bytes that were read may be lost, so ask for them again
            self._break(attempt, InterruptedError("interrupted"))
            raise
        now = time.monotonic()
        if event is not None:
            jitter = 0.5 if session.greeted else _jitter()
            if commands := session.handle_event(attempt, event, now, jitter):
                self._do(commands)
            if self._connection is not None and self._connection.is_closed:
                self._abort()  # the peer closed it; the session knows by now
        if event is None or not session.greeted:  # the session's time limit also holds for a server that keeps talking
            self._do(session.tick(now, _jitter()))
        if event is None:
            self._do(session.silent(now, _jitter()))

    def _limit_s(self, ends_s: float | None) -> float | None:
        """How long a read may take: with a session and without a deadline, any time."""
        if ends_s is None and self._session.greeted:
            return None
        now, due_s = time.monotonic(), self._session.due_s
        limits = [one - now for one in (ends_s, due_s) if one is not None]
        return max(0.0, min(limits, default=0.0))

    def _connect(self, ends_s: float | None) -> None:
        planned = self._next
        if planned is None:
            self._check_over()
            return
        now = time.monotonic()
        until_s = planned.at_s if ends_s is None else min(planned.at_s, ends_s)
        if until_s > now:
            time.sleep(until_s - now)
        if until_s < planned.at_s:
            return
        now = time.monotonic()
        self._do(self._session.tick(now, _jitter()))
        if self._next is not planned:
            return
        self._next = None
        allowed_s = self._session.attempt_s(now) if ends_s is None else min(self._patience.handshake_s, ends_s - now)
        try:
            connection = BlockingConnection(
                self._session.endpoint,
                timeout_s=max(0.01, allowed_s),
                dial_s=self._patience.handshake_s,
                on_accept=partial(self._session.accepted, planned.attempt),
                context=self._context,
                split=split_frame,
            )
        except (PaddockError, OSError) as error:
            self._break(planned.attempt, error)
            return
        except BaseException:
            self._break(planned.attempt, InterruptedError("interrupted"))
            raise
        self._connection, self._connection_of = connection, planned.attempt
        self._do(self._session.connected(planned.attempt, connection.subprotocol))

    def _do(self, commands: list[Command]) -> None:
        for command in commands:
            if type(command) is Connect:
                self._next = command
            elif self._connection is None or command.attempt != self._connection_of:
                pass  # its connection is gone already
            elif type(command) is Disconnect:
                self._abort()
            else:
                self._write(self._connection, command)

    def _write(self, connection: BlockingConnection, command: Command) -> None:
        try:
            if type(command) is Send:
                connection.send(command.frame)
            elif type(command) is AskAlive:
                connection.ping()
        except OSError as error:
            self._break(command.attempt, error)
        except BaseException:  # after half a message the server would misread whatever follows
            self._break(command.attempt, InterruptedError("interrupted"))
            raise

    def _break(self, attempt: int, problem: BaseException) -> None:
        self._abort()
        self._do(self._session.handle_break(attempt, problem, time.monotonic(), _jitter()))

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def _jitter() -> float:
    return int.from_bytes(os.urandom(2), "big") / 0xFFFF


# The keeper: one thread that looks after remote channels while they are not used, because an agent may think for
# minutes between steps. Without it pings would go unanswered, and the server would drop the session. It ends when no
# channel is left.


class Keepable(Protocol):
    """What the keeper looks after."""

    def keep(self) -> bool:
        """Do what is due, quickly; False when there is nothing left to look after."""


_lock = threading.Lock()
_channels: list[weakref.ref[Keepable]] = []
_thread: threading.Thread | None = None


def keep_alive(channel: weakref.ref[Keepable]) -> None:
    """Look after a channel from now on, as long as it is referenced elsewhere."""
    global _thread
    with _lock:
        _channels.append(channel)
        if _thread is None or not _thread.is_alive():  # a forked process has none
            _thread = threading.Thread(target=_run, name="paddock-remote-keeper", daemon=True)
            _thread.start()


def _run() -> None:
    global _thread
    pause = threading.Event()
    while True:
        pause.wait(_KEEPER_S)
        with _lock:
            channels = list(_channels)
        gone = [channel for channel in channels if not _keep(channel)]
        with _lock:
            _channels[:] = [channel for channel in _channels if channel not in gone]
            if not _channels:
                _thread = None
                return


def _keep(reference: weakref.ref[Keepable]) -> bool:
    channel = reference()
    if channel is None:
        return False
    try:
        return channel.keep()
    except Exception:  # its user's next call raises it; the other channels go on
        return True


def _reset_keeper() -> None:
    """In a forked process: the thread is not there, and may have held the lock."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _channels.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_keeper)
