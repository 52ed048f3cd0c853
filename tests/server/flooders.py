"""Peers that send as much as they can, in a process of their own. For ``test_floods``: python -m tests.server.flooders.

What each did is printed as JSON at the end: how many pieces it sent, how often it was let go, and the close codes.
"""

import base64
import json
import os
import socket
import sys
import time
from contextlib import suppress

MASK = b"\0\0\0\0"
PING, PONG = b"\x89\x80" + MASK, b"\x8a\x80" + MASK
TINY_TEXT = b"\x81\x81" + MASK + b"{"
TINY_BINARY = b"\x82\x81" + MASK + b"x"
BEGIN, EMPTY_PIECE, ONE_BYTE_PIECE = b"\x02\x81" + MASK + b"x", b"\x00\x80" + MASK, b"\x00\x81" + MASK + b"x"
SENT_AT_ONCE = 1 << 16
# What a websocket's peer sends first, and then for ever.
FRAMES = {
    "pings": (b"", PING),
    "pongs": (b"", PONG),
    "empty pieces": (BEGIN, EMPTY_PIECE),
    "endless pieces": (BEGIN, ONE_BYTE_PIECE),
    "tiny texts": (b"", TINY_TEXT),
    "tiny binaries": (b"", TINY_BINARY),
}


class Flooder:
    def __init__(self, kind, port, token, source, seconds):
        self.kind, self.address, self.token = kind, ("127.0.0.1", port), token
        self.source, self.ends_s = (source, 0), time.monotonic() + seconds
        self.sent = self.let_go = 0
        self.codes = set()

    def run(self):
        flood = {
            "connections": self.connections,
            "silent connections": self.silent,
            "requests": self.requests,
            "health": self.requests,
        }.get(self.kind, self.frames)
        while time.monotonic() < self.ends_s:
            with suppress(OSError):
                flood()
        print(json.dumps({"sent": self.sent, "let_go": self.let_go, "codes": sorted(self.codes)}), flush=True)

    def connect(self):
        sock = socket.create_connection(self.address, 5.0, self.source)
        sock.settimeout(0.5)
        return sock

    def frames(self):
        begin, frame = FRAMES[self.kind]
        lot = frame * (SENT_AT_ONCE // len(frame))
        protocol = "" if self.kind == "tiny texts" else "Sec-WebSocket-Protocol: paddock.v1\r\n"
        with self.connect() as sock:
            sock.sendall(
                f"GET /ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n{protocol}"
                f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
            )
            head = sock.recv(1 << 16)
            if b" 101 " not in head[:20]:
                return
            came = b""
            try:
                sock.sendall(begin)
                while time.monotonic() < self.ends_s:
                    with suppress(TimeoutError):
                        self.sent += sock.send(lot) // len(frame)
                    with suppress(BlockingIOError):  # read, or the Close can't come through
                        came = (came + sock.recv(1 << 20, socket.MSG_DONTWAIT))[-(1 << 17) :]
            except OSError:
                self.let_go += 1
                self.read_code(sock, came)

    def read_code(self, sock, came):
        """The number of the Close among the last of what came."""
        with suppress(OSError):
            while piece := sock.recv(1 << 16):
                came = (came + piece)[-(1 << 17) :]
        for code in (1002, 1008, 1009, 1013):
            if came.rfind(b"\x88") >= 0 and code.to_bytes(2, "big") in came[came.rfind(b"\x88") :][:4]:
                self.codes.add(code)

    def connections(self):
        with self.connect():
            self.sent += 1

    def silent(self):
        """As many as it can hold, then all over again."""
        held = []
        try:
            while time.monotonic() < self.ends_s and len(held) < 900:
                held.append(self.connect())
                self.sent += 1
        finally:
            for sock in held:
                sock.close()

    def requests(self):
        """Pipelined, without a token."""
        path = "/health" if self.kind == "health" else "/sessions"
        lot = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 1000
        with self.connect() as sock:
            while time.monotonic() < self.ends_s:
                with suppress(TimeoutError):
                    sent = sock.send(lot)
                    self.sent += 1000 * sent // len(lot)
                with suppress(BlockingIOError):
                    while sock.recv(1 << 16, socket.MSG_DONTWAIT):
                        pass


if __name__ == "__main__":
    kind, port, token, source, seconds = sys.argv[1:]
    Flooder(kind, int(port), token, source, float(seconds)).run()
