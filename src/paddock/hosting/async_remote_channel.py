"""AsyncRemoteChannel: RemoteChannel for asyncio. Requests are matched with replies by number.

So several tasks may ask at once and each gets its own reply; the server carries requests out in the order of the calls.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from math import inf

from paddock.errors import ClosedEnvironmentError, PaddockError, WorkerLost
from paddock.hosting.messages import Close, Request, StepReply
from paddock.hosting.remote_channel import SessionChannel
from paddock.hosting.remote_session import CLOSE_GRACE_S, Connect, split_frame
from paddock.hosting.websocket.asynchronous import AsyncConnection
from paddock.hosting.websocket.events import Closed, Event

_CHECK_S = 1.0  # how often deadlines and a silent connection are checked
_GOODBYE_S = 0.1  # how often ``close`` checks whether there is a connection


class AsyncRemoteChannel(SessionChannel):
    """For the loop that ``connect`` was called in."""

    _connection: AsyncConnection | None

    def _set_up(self) -> None:
        self._raised: Exception | None = None  # by on_wait
        self._dialing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._deadlines: dict[int, tuple[float, float]] = {}  # of replies: when they end, and how long they are
        self._moved = asyncio.Event()  # there is room, a welcome, or an end
        self._order = asyncio.Lock()

    def _plan(self, connect: Connect) -> None:
        self._dialing = self._loop.create_task(self._dial(connect))

    async def connect(self) -> AsyncRemoteChannel:
        """Begin the session; returns when the server has welcomed it."""
        self._loop = asyncio.get_running_loop()
        try:
            self._do(self._session.start(time.monotonic()))
            self._check()
            while not self._session.greeted:
                self._session.check()
                await self._wait_for_move()
                if self._raised is not None:
                    raise self._raised
        except BaseException:
            self._abort()
            raise
        return self

    async def ask(self, request: Request, timeout: float | None = None) -> StepReply:
        """Send a request and wait for its reply; DeadlineExceeded after ``timeout`` seconds.

        A deadline or a cancelled task ends the wait; it does not undo the request.
        """
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        limit_s = self._deadline_s if timeout is None else timeout
        in_turn = self._order.locked() or not self._session.has_room  # other tasks are before this one
        if not in_turn and limit_s >= _CHECK_S:
            return await self._ask_at_once(request, limit_s)
        try:
            return await asyncio.wait_for(self._ask_in_turn(request), None if limit_s == inf else limit_s)
        except asyncio.TimeoutError:
            raise self._session.overdue(limit_s) from None

    async def _ask_at_once(self, request: Request, limit_s: float = inf) -> StepReply:
        """Hot: the usual step. ``_check`` watches its deadline; a timer would cost as much as the step."""
        number, commands = self._session.submit(request)
        waiter = self._waiters[number] = self._loop.create_future()
        if limit_s != inf:
            self._deadlines[number] = time.monotonic() + limit_s, limit_s
        try:
            self._do(commands)
            await waiter  # until there is a reply, or the session is over
            reply = self._session.reply(number)
            assert reply is not None, "the waiter is set only when there is a reply"
        except BaseException:
            self._session.forget(number)
            raise
        finally:
            del self._waiters[number]
            self._deadlines.pop(number, None)
        return reply

    async def _ask_in_turn(self, request: Request) -> StepReply:
        async with self._order:  # a task that waits for room keeps its place
            while not self._session.has_room:
                self._session.check()
                await self._wait_for_move()
        return await self._ask_at_once(request)

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """End the session at once, here and on the server; returns what later calls will raise."""
        lost = self._session.kill(reason, cause)
        if self._connection is not None:
            self._connection.say_close()
        self._abort()
        return lost

    async def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the environment close, within ``grace_s`` seconds, then close the connection. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._session.over is None:
                await self._say_goodbye(time.monotonic() + grace_s)
        finally:
            self._session.end(ClosedEnvironmentError("This channel is closed. Make the environment again."))
            self._abort()

    async def _say_goodbye(self, ends_s: float) -> None:
        goodbye = self._loop.create_task(self._ask_in_turn(Close()))
        try:
            while not goodbye.done() and (now := time.monotonic()) < ends_s:
                ends_s = self._session.leave_by_s(now, ends_s)
                await asyncio.wait([goodbye], timeout=min(_GOODBYE_S, ends_s - now))
        finally:
            goodbye.cancel()
            with suppress(PaddockError, asyncio.CancelledError):  # the session is gone, as it should be
                await goodbye
        if self._connection is not None and self._session.over is None:
            await self._connection.close(timeout_s=max(0.0, ends_s - time.monotonic()))

    async def _wait_for_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def _wake_waiters(self) -> None:
        """Wake the tasks that can continue now."""
        if not self._moved.is_set():
            self._moved.set()
        for number, waiter in self._waiters.items():
            if not waiter.done() and self._session.is_settled(number):
                waiter.set_result(None)

    async def _dial(self, planned: Connect) -> None:
        attempt = planned.attempt
        await asyncio.sleep(max(0.0, planned.at_s - time.monotonic()))
        if self._session.over is not None:
            return
        try:
            connection = await AsyncConnection.connect(
                self._session.endpoint,
                partial(self._handle_event, attempt),
                partial(self._handle_end, attempt),
                timeout_s=max(0.01, self._session.attempt_s(time.monotonic())),
                dial_s=self._session.patience.handshake_s,
                on_accept=partial(self._session.accepted, attempt),
                context=self._context,
                split=split_frame,
            )
        except (PaddockError, OSError) as error:
            self._handle_end(attempt, error)
            return
        self._connection, self._connection_of = connection, attempt
        self._do(self._session.connected(attempt, connection.subprotocol))
        self._wake_waiters()

    def _handle_event(self, attempt: int, event: Event) -> None:
        try:
            if commands := self._session.handle_event(attempt, event, time.monotonic()):
                self._do(commands)
        except Exception as error:
            if self._session.greeted:
                raise
            # From on_wait: raised here, it would only end the connection.
            self._raised = self._raised or error
        self._wake_waiters()

    def _handle_end(self, attempt: int, why: BaseException | Closed) -> None:
        if attempt == self._connection_of:
            self._connection = None
        self._break(attempt, why)
        self._wake_waiters()

    def _check(self) -> None:
        """Do what is due, once a second."""
        now = time.monotonic()
        self._do(self._session.tick(now))
        self._wake_waiters()
        wait_s = _CHECK_S
        for number, (ends_s, limit_s) in self._deadlines.items():
            if now < ends_s:
                wait_s = min(wait_s, ends_s - now)
            elif not self._waiters[number].done():
                self._waiters[number].set_exception(self._session.overdue(limit_s))
        if self._session.over is None:
            wait_s = max(0.0, min(wait_s, self._session.due_s - now))
            self._timer = self._loop.call_later(wait_s, self._check)

    def _abort(self) -> None:
        self._drop()
        if self._timer is not None:
            self._timer.cancel()
        if self._dialing is not None and self._dialing is not asyncio.current_task():
            self._dialing.cancel()
        self._wake_waiters()
