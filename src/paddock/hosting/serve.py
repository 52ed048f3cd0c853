"""The far end of a socket: read a request, let the Host answer, write the reply. Steps may be done in shared memory."""

from __future__ import annotations

import os
import socket
from typing import Any

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting.block import Block
from paddock.hosting.codec import encode
from paddock.hosting.frames import FrameReader, SameFrame, write_frame, write_same
from paddock.hosting.host import Host
from paddock.hosting.messages import Attach, Close, Done, Failed, Message, Reply, Step
from paddock.hosting.values import Unpickler, to_wire
from paddock.hosting.waiting import Waiting

_NOTHING_TO_SAY = Done()
_DONE = SameFrame(_NOTHING_TO_SAY)


def serve(far: socket.socket, host: Host, *, unpickler: Unpickler | None = None) -> None:
    """Answer until the peer closes its end or every environment; then close what is left."""
    far.setblocking(False)
    reader, waiting = FrameReader(far, descriptors=True, unpickler=unpickler), Waiting(far)
    block: Block | None = None
    try:
        while True:
            if reader.is_empty:
                waiting.wait()
            frame = reader.next()
            if frame is None:
                waiting.wait()
                continue
            number, message = frame
            if type(message) is Step and block is not None:
                _answer(far, host, number, message, step_in_place(host, block, message), in_place=True)
            elif isinstance(message, BadFrame):  # the stream is whole: only this request can't be understood
                write_frame(far, encode(host.failed(message.__cause__ or message), number))
            elif isinstance(message, Attach):
                block = _attached(reader, message)
                waiting.awake_s = message.awake_s
                reader.takes_descriptors = False
                write_same(far, _DONE, number)
            else:
                _answer(far, host, number, message, host.handle(message), in_place=False)  # type: ignore[arg-type]
                if isinstance(message, Close) and message.env is None:
                    return
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the peer is gone: nobody is left to answer
    finally:
        host.handle(Close())


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


def _attached(reader: FrameReader, message: Attach) -> Block:
    if not reader.descriptors:
        raise BadFrame("Attach came without a file descriptor.")
    fd = reader.descriptors.pop()
    try:
        return Block(fd, message.rows, message.observations, message.actions)
    finally:
        os.close(fd)  # the mapping stays


def _answer(far: socket.socket, host: Host, number: int, request: Message, reply: Reply, *, in_place: bool) -> None:
    if reply is _NOTHING_TO_SAY:
        write_same(far, _DONE, number)
        return
    try:
        pieces = encode(reply, number, answers=request)
    except (NotTransferable, BadFrame) as error:
        # One environment's unsendable info must not cost the others their results.
        notes = reply.value if in_place and isinstance(reply, Done) else None
        try:
            pieces = encode(Done([_sendable(note, host) for note in notes]) if notes else host.failed(error), number)
        except (NotTransferable, BadFrame) as too_much:  # each could be sent, all of them together can't
            pieces = encode(host.failed(too_much), number)
    write_frame(far, pieces)


def _sendable(note: list[Any], host: Host) -> list[Any]:
    row, *parts = note
    try:
        for part, name in zip(parts, ("info", "observation"), strict=False):
            to_wire(part, [], name=name)
        encode(Done(note))  # its size
    except (NotTransferable, BadFrame) as error:
        return [row, host.failed(error)]
    return note
