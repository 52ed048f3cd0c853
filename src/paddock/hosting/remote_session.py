"""RemoteSession: what a remote channel knows, without I/O; blocking and async channels drive the same one.

It is a ResumingClient together with what that leaves open: requests to bytes, bytes to replies, errors to those that a
user can act on, and whether a silent server is still there. Hot: ``submit`` and ``received``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec

from paddock.errors import BadFrame, PaddockError, Unreachable
from paddock.hosting.codec import PREFIX_BYTES, decode, decode_frame, decode_prefix, encode
from paddock.hosting.limits import LIMITS, PEER_LIMITS, Limits
from paddock.hosting.messages import Done, Failed, Message, Reply, Request, Resume, Step
from paddock.hosting.one_step import read, step_frame
from paddock.hosting.remote_address import WAITING
from paddock.hosting.remote_refusal import OtherWire, explained, given_up, is_final
from paddock.hosting.resuming import Action, Answer, Connect, Disconnect, GiveUp, Patience, Queued, ResumingClient, Send
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import Binary, Closed, Event, Text

HEARTBEAT_S = 15.0
CLOSE_GRACE_S = 5.0  # how long an environment may take to close
_BROKEN_GRACE_S = 1.0  # the same without a connection
_BREAKS = 10  # connections in a row that broke before any reply came: some request ends them all


class AskAlive(msgspec.Struct, frozen=True):
    """Ping the server on the connection of this attempt."""

    attempt: int


OnWait: TypeAlias = Callable[[int], object]  # how many are ahead in a server's queue
Deed: TypeAlias = "Connect | Send | Disconnect | AskAlive"  # what is left for a driver to do


def split_frame(beginning: memoryview) -> int:
    """Where the body of a frame begins, so that it gets memory of its own. For ``MessageReader``."""
    try:
        _, head_bytes, _ = decode_prefix(beginning[:PREFIX_BYTES])
    except BadFrame:
        return 0
    return PREFIX_BYTES + head_bytes


class RemoteSession:
    """One session on the server at ``endpoint``. ``heartbeat_s``: silence after which it is asked, None for never.

    ``on_wait``: hears how many are ahead while the server has not begun the session.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        holder: str,
        *,
        patience: Patience | None = None,
        heartbeat_s: float | None = HEARTBEAT_S,
        limits: Limits = LIMITS,
        saved: Resume | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        self._on_wait, self.limits = on_wait, limits
        self.endpoint = replace(endpoint, subprotocols=(*endpoint.subprotocols, WAITING))
        self._client = ResumingClient(holder, patience=patience, saved=saved)
        self._heartbeat_s = heartbeat_s
        self._attempt = 0
        self._silent_s: float | None = None  # since when nothing came; None while it is not known
        self._asked_alive = False
        self._connected = False  # the upgrade of this attempt is through
        self._breaks = 0
        self._last_problem: BaseException | None = None
        self._replies: dict[int, Reply] = {}
        self._unwanted: set[int] = set()
        self.over: PaddockError | None = None

    @property
    def has_room(self) -> bool:
        """Whether another request may be submitted before a reply comes."""
        return self._client.has_room

    @property
    def greeted(self) -> bool:
        """Whether there is a connection that has the session."""
        return self._client.greeted

    @property
    def due_s(self) -> float | None:
        """When ``tick`` has something to do at the latest."""
        return self._client.due_s

    @property
    def saved(self) -> Resume | None:
        """What another client needs to take the session over. A secret: whoever has it has the session."""
        return self._client.saved

    def start(self, now: float) -> list[Deed]:
        """Begin."""
        return self._deeds(self._client.start(now))

    def submit(self, request: Request) -> tuple[int, list[Deed]]:
        """The request's number, and what is to be done. NotTransferable for what can't cross: nothing happened then."""
        if self.over is not None:
            raise self.over.with_traceback(None)
        number, frame = self._client.next_number, None
        if type(request) is Step and request.actions is not None and len(request.actions) == 1 and request.envs == [0]:
            frame = step_frame(request.actions[0], number)
        if frame is None:
            frame = b"".join(encode(request, number, limits=PEER_LIMITS))
        # Nothing but a Send comes of it.
        return number, self._client.submit(frame)  # type: ignore[return-value]

    def reply(self, number: int) -> Reply | None:
        """The reply to a request, once, if it is here. Raises why there will be none."""
        reply = self._replies.pop(number, None)
        if reply is None and self.over is not None:
            raise self.over.with_traceback(None)
        return reply

    def is_settled(self, number: int) -> bool:
        """Whether ``reply`` has something to say."""
        return number in self._replies or self.over is not None

    def forget(self, number: int) -> None:
        """Nobody waits for this reply any more. It is thrown away when it comes."""
        if self._replies.pop(number, None) is None:
            self._unwanted.add(number)

    def attempt_s(self, now: float) -> float:
        """How long an attempt may take once the server has accepted it."""
        return self._client.attempt_s(now)

    def accepted(self, attempt: int) -> None:
        """The server has accepted the connection of this attempt; TLS and the upgrade are still to come."""
        self._last_problem = None
        self._client.accepted(attempt)

    def connected(self, attempt: int, subprotocol: str | None) -> list[Deed]:
        """The connection of this attempt is there, with the subprotocol that the server chose."""
        if subprotocol is None:
            text = f"The server at {self.endpoint.shown} does not speak {self.endpoint.subprotocols[0]}."
            return self._end(OtherWire(text, status=101))
        self._silent_s, self._asked_alive, self._connected = None, False, True
        return self._deeds(self._client.connected(attempt))

    def happened(self, attempt: int, event: Event, now: float, jitter: float) -> list[Deed]:
        """Something came on the connection of this attempt."""
        self._silent_s = None
        if type(event) is Binary:
            return self._received(attempt, event, now, jitter)
        if type(event) is Closed:
            return self.broken(attempt, event, now, jitter)
        if type(event) is Text:
            return self._end(BadFrame(f"The server at {self.endpoint.shown} sent text, expected frames."))
        return []

    def _received(self, attempt: int, event: Binary, now: float, jitter: float) -> list[Deed]:
        actions = self._client.received(attempt, event.data, now, jitter)  # type: ignore[arg-type]  # only looked at
        if len(actions) == 1 and type(action := actions[0]) is Answer:
            self._breaks, number = 0, action.number
            if number in self._unwanted:
                self._unwanted.discard(number)
                return []
            try:
                self._replies[number] = self._decoded(event)
            except BadFrame as error:
                return self._end(BadFrame(f"The server at {self.endpoint.shown} broke the protocol: {error}."))
            return []
        return self._deeds(actions)

    def _decoded(self, event: Binary) -> Reply:
        data, rest = event.data, event.rest
        if type(data) is bytes and rest is None and (usual := read(data)) is not None:
            message: Message = usual[1]
        elif rest is None:
            message = decode_frame(data, limits=self.limits)[1]
        else:
            _, head_bytes, body_bytes = decode_prefix(data[:PREFIX_BYTES], limits=self.limits)
            if len(data) != PREFIX_BYTES + head_bytes or len(rest) != body_bytes:
                raise BadFrame(f"a frame with a body of {body_bytes} bytes was announced, got {len(rest)}")
            # Anything that can be written into serves as a bytearray there.
            message = decode(data[PREFIX_BYTES:], rest, limits=self.limits)  # type: ignore[arg-type]
        if not isinstance(message, (Done, Failed)):
            raise BadFrame(f"no reply, a {type(message).__name__}")
        return message

    def broken(self, attempt: int, problem: BaseException | Closed, now: float, jitter: float) -> list[Deed]:
        """The connection of this attempt ended, or could not be made."""
        if attempt != self._attempt or self.over is not None:
            return []
        error = explained(problem, self.endpoint, first=self._client.saved is None)
        if error is not None and is_final(error):
            return self._end(error)
        self._last_problem = error if error is not None or isinstance(problem, Closed) else problem
        if self._client.greeted:
            self._breaks += 1
            if self._breaks >= _BREAKS:
                text = f"The connection broke {_BREAKS} times in a row before any reply came."
                return self._end(Unreachable(text))
        return self._deeds(self._client.disconnected(attempt, now, jitter))

    def silent(self, now: float, jitter: float) -> list[Deed]:
        """Nothing came for a while; a server that does not even answer a ping is gone."""
        if self._heartbeat_s is None or not self._connected:
            return []
        if self._silent_s is None:
            self._silent_s, self._asked_alive = now, False
        elif now - self._silent_s >= 2 * self._heartbeat_s:
            attempt = self._attempt
            problem = TimeoutError("the server does not answer")
            return [Disconnect(attempt), *self.broken(attempt, problem, now, jitter)]
        elif now - self._silent_s >= self._heartbeat_s and not self._asked_alive:
            self._asked_alive = True
            return [AskAlive(self._attempt)]
        return []

    def leave_by_s(self, now: float, ends_s: float) -> float:
        """Until when to wait for a farewell: not for long without a connection, for nobody may be there."""
        return ends_s if self._client.greeted else min(ends_s, now + _BROKEN_GRACE_S)

    def tick(self, now: float, jitter: float) -> list[Deed]:
        """Time has passed."""
        return self._deeds(self._client.tick(now, jitter))

    def end(self, error: PaddockError) -> list[Deed]:
        """End the session for this client, now; what is asked from now on fails with ``error``."""
        return self._end(error) if self.over is None else []

    def _end(self, error: PaddockError) -> list[Deed]:
        self.over = error
        return [action for action in self._client.close() if type(action) is Disconnect]

    def _deeds(self, actions: Sequence[Action]) -> list[Deed]:
        """The actions that a driver carries out; what the others say is kept."""
        deeds: list[Deed] = []
        for action in actions:
            if type(action) is Send or type(action) is Disconnect:
                deeds.append(action)
            elif type(action) is Connect:
                self._attempt, self._connected = action.attempt, False
                deeds.append(action)
            elif type(action) is Queued and self._on_wait is not None:
                self._on_wait(action.ahead)
            elif type(action) is GiveUp:
                self.over = given_up(action.error, self._last_problem)
        return deeds
