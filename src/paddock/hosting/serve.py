"""The far end of a socket: read a request, let the Host answer, write the reply. Steps may be done in shared memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting.block import Block
from paddock.hosting.codec import encode
from paddock.hosting.frames import FrameReader, Piece, SameFrame, write_frame, write_same
from paddock.hosting.host import Host
from paddock.hosting.messages import Attach, Close, Done, Failed, Message, Reply, Step
from paddock.hosting.one_step import result_frame
from paddock.hosting.values import Unpickler, to_wire
from paddock.hosting.waiting import Waiting

_NOTHING_TO_SAY = Done()
_DONE = SameFrame(_NOTHING_TO_SAY)


def serve(far: socket.socket, host: Host, *, unpickler: Unpickler | None = None, awake_s: float = 0.0) -> None:
    """Answer until the peer closes its end or every environment; then close what is left. ``awake_s``: see Waiting."""
    waiting = Waiting(far, awake_s)
    conversation = Conversation(far, host, waiting, unpickler=unpickler)
    try:
        while True:
            if conversation.is_empty:
                waiting.wait()
            went_on = conversation.go_on()
            if went_on is None:
                waiting.wait()
            elif not went_on:
                return
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the peer is gone: nobody is left to answer
    finally:
        host.handle(Close())


class Conversation:
    """Requests from ``far`` and the host's answers. ``waiting`` is told how long to stay awake."""

    def __init__(
        self, far: socket.socket, host: Host, waiting: Waiting | None = None, *, unpickler: Unpickler | None = None
    ) -> None:
        far.setblocking(False)
        self.host = host
        self._far, self._waiting = far, waiting
        self._reader = FrameReader(far, descriptors=waiting is not None, unpickler=unpickler)
        self._block: Block | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was received is left over."""
        return self._reader.is_empty

    def go_on(self) -> bool | None:
        """Answer the next request. None if it is not all here, False if it was the last one. EOFError at the end."""
        frame = self._reader.next()
        if frame is None:
            return None
        far, host, block = self._far, self.host, self._block
        number, message = frame
        if type(message) is Step:
            if block is not None:
                _answer(far, host, number, message, step_in_place(host, block, message), in_place=True)
            elif message.actions is not None and len(message.envs) == len(message.actions) == 1:
                self._reader.takes_descriptors = False  # shared memory would have come before the first step
                _step_one(far, host, number, message)
            else:
                _answer(far, host, number, message, host.handle(message), in_place=False)
        elif isinstance(message, BadFrame):  # the stream is whole: only this request can't be understood
            write_frame(far, encode(host.failed(message.__cause__ or message), number))
        elif isinstance(message, Attach):
            self._attach(message)
            write_same(far, _DONE, number)
        else:
            _answer(far, host, number, message, host.handle(message), in_place=False)  # type: ignore[arg-type]
            return not (isinstance(message, Close) and message.env is None)
        return True

    def _attach(self, message: Attach) -> None:
        reader = self._reader
        if not reader.descriptors:
            raise BadFrame("Attach came without a file descriptor.")
        fd = reader.descriptors.pop()
        try:
            self._block = Block(fd, message.rows, message.observations, message.actions)
        finally:
            os.close(fd)  # the mapping stays
        reader.takes_descriptors = False
        if self._waiting is not None:
            self._waiting.awake_s = message.awake_s


def _step_one(far: socket.socket, host: Host, number: int, request: Step) -> None:
    """Step one environment. Hot: of the ways here the one that an environment far away takes."""
    result = host.step(request.envs[0], request.actions[0])  # type: ignore[index]
    frame = result_frame(result, number)
    if frame is None:
        _answer(far, host, number, request, host.stepped([result]), in_place=False)
        return
    try:
        sent = far.send(frame)
    except BlockingIOError:
        sent = 0
    if sent != len(frame):
        write_frame(far, [memoryview(frame)[sent:]])


def step_in_place(host: Host, block: Block, request: Step) -> Reply:
    """Step these rows and put the results into the block. Done: None, or a list of what does not fit into it.

    An entry is [row, info], [row, info, observation] where observations have no fixed size, or [row, Failed].
    """
    notes: list[list[Any]] = []
    loose = block.observations is None
    for place, row in enumerate(request.envs):
        block.begin(row)
        result = host.step(row, block.action(row) if request.actions is None else request.actions[place])
        if type(result) is Failed:
            notes.append([row, result])
            continue
        try:
            observation, reward, terminated, truncated, info = result
            block.put(row, observation, reward, terminated, truncated)
        except Exception as error:  # an odd result may run code of the environment: __array__, __float__
            notes.append([row, host.failed(error)])
            continue
        if loose:
            notes.append([row, info, observation])
        elif info:
            notes.append([row, info])
    block.idle()
    return Done(notes) if notes else _NOTHING_TO_SAY


def _answer(far: socket.socket, host: Host, number: int, request: Message, reply: Reply, *, in_place: bool) -> None:
    if reply is _NOTHING_TO_SAY:
        write_same(far, _DONE, number)
    else:
        write_frame(far, encoded_reply(host, number, request, reply, in_place=in_place))


def encoded_reply(
    host: Host, number: int, request: Message, reply: Reply, *, in_place: bool = False
) -> Sequence[Piece]:
    """The frame of a reply; if it can't be sent, that of the failure that says so."""
    try:
        return encode(reply, number, answers=request)
    except (NotTransferable, BadFrame) as error:
        # One environment's unsendable info must not cost the others their results.
        notes = reply.value if in_place and isinstance(reply, Done) else None
        try:
            return encode(Done([_sendable(note, host) for note in notes]) if notes else host.failed(error), number)
        except (NotTransferable, BadFrame) as too_much:  # each could be sent, all of them together can't
            return encode(host.failed(too_much), number)


def _sendable(note: list[Any], host: Host) -> list[Any]:
    row, *parts = note
    try:
        for part, name in zip(parts, ("info", "observation"), strict=False):
            to_wire(part, [], name=name)
        encode(Done(note))  # its size
    except (NotTransferable, BadFrame) as error:
        return [row, host.failed(error)]
    return note
