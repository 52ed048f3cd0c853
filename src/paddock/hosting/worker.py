"""The worker's end of a socket: read a request, let the Host answer, write the reply.

``serve`` is the loop of every worker, ``main`` the process of tier ``process``. A worker trusts its parent, which does
not trust the worker. Steps may be done in shared memory: then the reply holds only what does not fit there.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from paddock.errors import BadFrame, InvalidLanes, NotTransferable
from paddock.hosting.codec import encode
from paddock.hosting.frames import FrameReader, Piece, SpinWait, wait_for, write_frame
from paddock.hosting.host import Host
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.messages import Attach, Close, Done, Make, Message, Outcome, Rows, StepReply, StepRows
from paddock.hosting.values import Unpickler, to_wire

_LIFELINE_S = 10.0  # from the closing of the socket to that of the lifeline


def serve(far: socket.socket, host: Host, *, unpickler: Unpickler | None = None, awake_s: float = 0.0) -> bool:
    """Answer until the peer closes every environment; False if it closed its end before that. Closes what is left.

    ``awake_s``: see SpinWait.
    """
    waiting = SpinWait(far, awake_s)
    conversation = Conversation(far, host, waiting, unpickler=unpickler)
    try:
        while True:
            if conversation.is_empty:
                waiting.wait()
            answered = conversation.serve_one()
            if answered is None:
                waiting.wait()
            elif not answered:
                return True
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return False
    finally:
        host.handle(Close())


class Conversation:
    """Requests from ``far`` and the host's answers. An Attach sets how long ``waiting`` stays awake."""

    def __init__(
        self, far: socket.socket, host: Host, waiting: SpinWait | None = None, *, unpickler: Unpickler | None = None
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

    def serve_one(self) -> bool | None:
        """Answer the next request. None if it is not all here, False if it was the last one. EOFError at the end."""
        frame = self._reader.next()
        if frame is None:
            return None
        far, host = self._far, self.host
        number, message = frame
        if type(message) is StepRows and self._block is not None:
            write_frame(far, encode_reply(host, number, message, host.step_rows(message, self._block)))
        elif isinstance(message, BadFrame):  # the stream is whole: only this request can't be understood
            write_frame(far, encode(host.failed(message.__cause__ or message), number))
        elif type(message) is Attach:
            self._attach(message)
            write_frame(far, encode(Done(), number))
        else:
            if type(message) is not Make:
                self._reader.takes_descriptors = False  # shared memory comes before anything else is done
            write_frame(far, encode_reply(host, number, message, host.handle(message)))  # type: ignore[arg-type]
            return not (type(message) is Close and message.env is None)
        return True

    def _attach(self, message: Attach) -> None:
        reader = self._reader
        if not reader.descriptors:
            raise BadFrame("Attach came without a file descriptor.")
        fd = reader.descriptors.pop()
        try:
            self._block = Block(StepLayout(message.observations, message.actions, message.rows), fd)
        finally:
            os.close(fd)  # the mapping stays
        reader.takes_descriptors = False
        if self._waiting is not None:
            self._waiting.awake_s = message.awake_s


def encode_reply(host: Host, number: int, request: Message, reply: StepReply | Outcome) -> Sequence[Piece]:
    """The frame of a reply; if it can't be sent, that of the failure that says so."""
    try:
        return encode(reply, number, answers=request)
    except (NotTransferable, BadFrame) as error:
        # One environment's unsendable info must not cost the others their results.
        notes = reply.notes if type(reply) is Rows and reply.rows is None else None
        try:
            return encode(Rows([_sendable(note, host) for note in notes]) if notes else host.failed(error), number)
        except (NotTransferable, BadFrame) as too_much:  # each could be sent, all of them together can't
            return encode(host.failed(too_much), number)


def _sendable(note: list[Any], host: Host) -> list[Any]:
    """The note, or one that says why it can't be sent."""
    row, *parts = note
    try:
        for part, name in zip(parts, ("info", "observation"), strict=False):
            to_wire(part, [], name=name)
        encode(Done(note))  # its size
    except (NotTransferable, BadFrame) as error:
        return [row, host.failed(error)]
    return note


def main() -> None:
    """For ``python -c``: the arguments are the descriptors of the socket and of the lifeline."""
    os.environ["PADDOCK_WORKER"] = "1"  # for code that does less in a worker: kernels/__init__.py
    work(socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])))


def work(far: socket.socket, watched: socket.socket) -> None:
    """Serve requests until the parent closes its end."""
    # Here: a worker behind a wall serves too, and neither unpickles nor starts processes.
    from paddock.hosting.factories import loads
    from paddock.sandbox.child import STACK_SIGNAL

    _die_with(watched)
    signal.set_wakeup_fd(-1)  # a forked worker's signals are not for its parent's event loop
    # Ctrl-C is for the parent, which closes its workers in order. The others would stop a process that is not in the
    # terminal's foreground when it reads or writes there.
    for number in (signal.SIGINT, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(STACK_SIGNAL, file=watched, all_threads=False)  # answers Child.stack
    with far, watched:
        if not serve(far, Host(_build, alone=True), unpickler=loads):
            # The parent is about to be gone, and its lifeline with it: then the kernel ends this process and all that
            # it started. If this one ended before that, the others would stay.
            wait_for(watched.fileno(), select.POLLIN, _LIFELINE_S)


def _die_with(watched: socket.socket) -> None:
    """Let the kernel kill this process group when the other end of ``watched`` is closed.

    By a signal, so it works in a busy loop and while C code holds the GIL; on Linux by SIGKILL, which no environment
    can block. Not PR_SET_PDEATHSIG: that one fires when the *thread* that started the worker ends.
    """
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)  # ends the process too
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGIO])
    owner = -os.getpgrp() if os.getpgrp() == os.getpid() else os.getpid()
    fcntl.fcntl(watched, fcntl.F_SETOWN, owner)
    if sys.platform == "linux":
        fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(watched, fcntl.F_SETFL, fcntl.fcntl(watched, fcntl.F_GETFL) | os.O_ASYNC)
    watched.setblocking(False)
    try:
        if watched.recv(1) == b"":  # the parent was gone before the watch began
            os._exit(1)
    except BlockingIOError:
        pass


def _build(what: dict[str, Any]) -> Any:
    factory = what.get("factory")
    if not callable(factory):
        kind = type(factory).__name__
        raise InvalidLanes(
            f"A {kind} is not a function that makes an environment. Pass `lambda: make(...)`, not its result."
        )
    return factory()
