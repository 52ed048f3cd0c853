"""A connection of the native wire on which a test says what it likes."""

import socket
import time

from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.messages import Done, Failed, Hello, Make, Reset, Welcome
from paddock.hosting.websocket.blocking import BlockingConnection
from paddock.hosting.websocket.events import Binary

_ESTABLISHED = 1


class Raw:
    """``begin`` makes a session with its environment; then ``ask``."""

    def __init__(self, server):
        self.connection = BlockingConnection(server.address().endpoint(), timeout_s=10.0)
        self.sock = self.connection._sock
        self.session = ""

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.connection.abort()

    def send(self, number, message):
        self.connection.send(b"".join(encode(message, number)))

    def recv_bytes(self, within_s=20.0):
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            event = self.connection.recv(0.5)
            if isinstance(event, Binary):
                return bytes(event.data)
            assert event is None or "Closed" not in type(event).__name__, event
        raise AssertionError("nothing came")

    def ask(self, number, message):
        self.send(number, message)
        return decode_frame(self.recv_bytes())[1]

    def begin(self, canary):
        welcome = self.ask(0, Hello())
        self.session = welcome.session
        self.make(canary)

    def make(self, canary):
        assert isinstance(self.ask(1, Make(0, {"kwargs": {"canary": canary}})), Done)
        assert isinstance(self.ask(2, Reset(0, 1)), Done)

    def resume(self, saved):
        welcome = self.ask(0, Hello(saved))
        assert isinstance(welcome, Welcome), welcome
        return welcome

    def replies(self, server):
        """How many its worker has given."""
        (found,) = (one["replies"] for one in server.sessions() if one["session"] == self.session[:8])
        return found

    def is_reset(self):
        """Whether the other end has closed, found out without reading what is there."""
        state = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return state[0] != _ESTABLISHED


def refusal(server):
    """The code with which a new session is refused, or None."""
    with Raw(server) as raw:
        reply = raw.ask(0, Hello())
    return reply.code if isinstance(reply, Failed) else None
