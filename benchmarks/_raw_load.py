"""What the servers of remote.py can do when the client costs next to nothing: written bytes on bare sockets.

The same generator drives both: one process, one connection a session, one request under way on each, nothing decoded.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time

from _remote_sides import SESSIONS

from paddock.hosting.codec import encode
from paddock.hosting.messages import Hello, Make, Reset, Step
from paddock.hosting.remote_address import parse_address
from paddock.hosting.websocket.blocking import BlockingConnection
from paddock.hosting.websocket.endpoint import Endpoint

_NO_MASK = b"\0\0\0\0"  # a key as good as any for a server, and the payload stays as it is
_BINARY, _TEXT, _PING, _PONG = 0x82, 0x81, 0x89, 0x8A
_EPISODE = 16  # steps until the next reset; alternating actions keep CartPole up for longer


def _message(first, payload):
    assert len(payload) < 126
    return bytes([first, 0x80 | len(payload)]) + _NO_MASK + payload


def _receive(sock):
    """Read a message; pings that come before it are answered."""
    data = sock.recv(1 << 16)
    while True:
        while len(data) < 2 or len(data) < (size := _size(data)):
            data += sock.recv(1 << 16)
        if data[0] != _PING:
            return
        sock.sendall(_message(_PONG, data[2:size]))
        data = data[size:]


def _size(data):
    if data[1] < 126:
        return 2 + data[1]
    return 4 + int.from_bytes(data[2:4], "big") if len(data) >= 4 else 4


class _Peer:
    """A session: ``next`` is what to send now."""

    def __init__(self, endpoint):
        self.connection = BlockingConnection(endpoint)
        self.socket = self.connection._sock
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 0))

    def ask(self, data):
        self.socket.sendall(data)
        _receive(self.socket)


class PaddockPeer(_Peer):
    """On the native wire: the frames differ in their number only."""

    def __init__(self, url):
        super().__init__(parse_address(url).endpoint())
        self._number = 0
        self._steps = [bytearray(_message(_BINARY, b"".join(encode(Step([0], [action]))))) for action in (0, 1)]
        self._reset = bytearray(_message(_BINARY, b"".join(encode(Reset(0)))))
        self.ask(_message(_BINARY, b"".join(encode(Hello(), 0))))
        made = bytearray(_message(_BINARY, b"".join(encode(Make(0, {})))))
        self.ask(self._numbered(made))
        self.ask(self._numbered(self._reset))

    def next(self):
        at = self._number % _EPISODE
        return self._numbered(self._steps[at & 1] if at else self._reset)

    def _numbered(self, message):
        self._number += 1
        struct.pack_into("<I", message, 6 + 8, self._number)
        return message


class OpenEnvPeer(_Peer):
    """On OpenEnv's wire: always the same text."""

    def __init__(self, port):
        super().__init__(Endpoint("127.0.0.1", port, "/ws"))
        self._step = _message(_TEXT, json.dumps({"type": "step", "data": {"value": 1}}).encode())
        self.ask(_message(_TEXT, b'{"type": "reset", "data": {}}'))

    def next(self):
        return self._step


class RawLoad:
    """All sessions at once; ``make`` connects one."""

    def __init__(self, make, count=SESSIONS):
        self._peers = {peer.socket.fileno(): peer for peer in (make() for _ in range(count))}
        self._ready = select.epoll()
        for fd in self._peers:
            self._ready.register(fd, select.EPOLLIN)

    def run(self, seconds):
        peers, took, began = self._peers, [], {}
        began_s = now = time.perf_counter()
        for fd, peer in peers.items():
            began[fd] = now
            peer.socket.sendall(peer.next())
        while began:
            for fd, _ in self._ready.poll():
                sock = peers[fd].socket
                _receive(sock)
                now = time.perf_counter()
                took.append(now - began.pop(fd))
                if now - began_s < seconds:
                    began[fd] = now
                    sock.sendall(peers[fd].next())
        return len(took), time.perf_counter() - began_s, took

    def close(self):
        for peer in self._peers.values():
            peer.connection.abort()
        self._ready.close()
