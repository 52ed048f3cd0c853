"""Behind the wall: one worker for the sessions of many peers. Only for environments that are paddock's own code.

All sessions share one socket, on which each frame stands behind its session's number; each has a Host of its own. They
take turns: a step that never ends holds up all of them, and whoever ends this worker for it ends all of them. A reader
would get wrong: nobody says that a session begins. The first frame with a new number does, and a Close of everything,
which is answered too, ends it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Sequence

from paddock.errors import BadFrame
from paddock.hosting.codec import PREFIX_BYTES, decode_frame, encode
from paddock.hosting.discreet import discreetly_failed
from paddock.hosting.frame_cutter import FrameCutter
from paddock.hosting.frames import Piece, write_frame
from paddock.hosting.host import Host
from paddock.hosting.limits import LIMITS
from paddock.hosting.messages import Close, Step
from paddock.hosting.numbering import number_of
from paddock.hosting.one_step import read, result_frame
from paddock.hosting.serve import encoded_reply
from paddock.hosting.waiting import Waiting
from paddock.making.inside import build_described
from paddock.sandbox.workspaces import lead_through

ID_BYTES = 4
_SOCKET_FD = 3
_READ_BYTES = 1 << 16
_TOGETHER_S = 0.001  # replies wait for those to other requests that came with theirs, but not for longer than this
_TOGETHER_BYTES = 1 << 18


def main() -> None:
    """Serve until the other side closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["PADDOCK_CACHE"] = "none"
    lead_through(None)
    gc.freeze()  # collections need not look through all that was imported
    with socket.socket(fileno=_SOCKET_FD) as far:
        SharedHosts(far).run()


class SharedHosts:
    """The sessions behind ``far``. Hot: everything here runs once a step."""

    def __init__(self, far: socket.socket) -> None:
        far.setblocking(False)
        self._far = far
        self._hosts: dict[bytes, Host] = {}
        self._cutter = FrameCutter(LIMITS, ID_BYTES)
        self._unsent: list[Piece] = []
        self._unsent_bytes = 0

    def run(self) -> None:
        """Answer what comes, all that is there before the replies go out together."""
        room = memoryview(bytearray(_READ_BYTES))
        waiting = Waiting(self._far)
        while not self._cutter.bad:
            waiting.wait()
            try:
                count = self._far.recv_into(room)
                if not count:
                    return
                self._answer_all(self._cutter.cut(room[:count]))
            except BlockingIOError:
                continue
            except OSError:
                return  # nobody is left to answer

    def _answer_all(self, frames: list[bytes]) -> None:
        began_s = time.monotonic()
        for data in frames:
            session = data[:ID_BYTES]
            self._put(session, self._answer(session, data[ID_BYTES:]))
            if time.monotonic() - began_s > _TOGETHER_S or self._unsent_bytes > _TOGETHER_BYTES:
                self._flush()
                began_s = time.monotonic()
        self._flush()

    def _answer(self, session: bytes, frame: bytes) -> Sequence[Piece]:
        host = self._hosts.get(session)
        if host is None:
            host = self._hosts[session] = Host(build_described, alone=True, failed=discreetly_failed)
        usual = read(frame)
        if usual is not None and type(request := usual[1]) is Step and request.actions is not None:
            number = usual[0]
            result = host.step(0, request.actions[0])
            reply = result_frame(result, number)
            return (reply,) if reply is not None else encoded_reply(host, number, request, host.stepped([result]))
        try:
            number, message = decode_frame(frame)
        except BadFrame as error:  # the stream is whole: only this request can't be understood
            return encode(host.failed(error.__cause__ or error), number_of(frame))
        pieces = encoded_reply(host, number, message, host.handle(message))  # type: ignore[arg-type]
        if isinstance(message, Close) and message.env is None:
            del self._hosts[session]
        return pieces

    def _put(self, session: bytes, pieces: Sequence[Piece]) -> None:
        self._unsent.append(session)
        self._unsent += pieces
        self._unsent_bytes += PREFIX_BYTES + sum(map(len, pieces))

    def _flush(self) -> None:
        if self._unsent_bytes > _TOGETHER_BYTES:
            write_frame(self._far, self._unsent)
        elif self._unsent:
            write_frame(self._far, [b"".join(self._unsent)])
        self._unsent.clear()
        self._unsent_bytes = 0
