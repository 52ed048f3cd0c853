"""A peer that writes its own bytes: HTTP and websocket frames as no client library would send them."""

import base64
import json
import os
import socket
import struct
import time
from dataclasses import dataclass

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes
    took_s: float

    @property
    def json(self):
        return json.loads(self.body)


class Peer:
    """One connection, and another to ``ask`` on after an answer that ended it.

    ``headers`` replace those that it would send; None drops one.
    """

    def __init__(self, address, *, token=None, context=None, timeout=10.0):
        self.address, self.token, self.timeout, self._context = address, token, timeout, context
        self._connect()

    def _connect(self):
        self._buffer, self._over = b"", False
        address, context, timeout = self.address, self._context, self.timeout
        self.sock = socket.create_connection(address, timeout) if isinstance(address, tuple) else _unix(address)
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname=address[0])
        self.sock.settimeout(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def head(self, method, path, headers=None, body=b""):
        host = "localhost" if isinstance(self.address, str) else f"127.0.0.1:{self.address[1]}"
        all_headers = {"host": host}
        if self.token is not None:
            all_headers["authorization"] = f"Bearer {self.token}"
        if body or method == "POST":
            all_headers["content-length"] = str(len(body))
        all_headers.update(headers or {})
        lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in all_headers.items() if v is not None)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def ask(self, method, path, headers=None, body=b""):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        if self._over:
            self.sock.close()
            self._connect()
        began_s = time.monotonic()
        self.send(self.head(method, path, headers, body) + body)
        return self.answer(head_only=method == "HEAD", began_s=began_s)

    def answer(self, *, head_only=False, began_s=None):
        began_s = time.monotonic() if began_s is None else began_s
        head = self._until(b"\r\n\r\n").decode("latin-1")
        status, *lines = head.split("\r\n")
        headers = {}
        for line in filter(None, lines):
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, f"{name} stands twice"
            headers[name.lower()] = value
        self._over = headers.get("connection") == "close"
        body = b"" if head_only else self._exactly(int(headers.get("content-length", 0)))
        return Answer(int(status.split()[1]), headers, body, time.monotonic() - began_s)

    def _until(self, end):
        while end not in self._buffer:
            self._more()
        head, self._buffer = self._buffer.split(end, 1)
        return head

    def _exactly(self, count):
        while len(self._buffer) < count:
            self._more()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def _more(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError("closed")
        self._buffer += data

    def is_closed(self):
        """Whether the server closes it, within the time."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    # Websockets

    def upgrade(self, path="/ws", headers=None, *, native=False):
        """The answer to an upgrade: 101 or why not."""
        asked = {
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-version": "13",
            "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
            **({"sec-websocket-protocol": "paddock.v1"} if native else {}),
            **(headers or {}),
        }
        self.send(self.head("GET", path, asked))
        return self.answer()

    def frame(self, opcode, payload, *, fin=True, rsv=0, masked=True):
        """Send one websocket frame."""
        size, bit = len(payload), 0x80 if masked else 0
        head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
        if size < 126:
            head += bytes([bit | size])
        elif size < 1 << 16:
            head += struct.pack(">BH", bit | 126, size)
        else:
            head += struct.pack(">BQ", bit | 127, size)
        mask = os.urandom(4) if masked and size < 1 << 16 else bytes(4)
        data = bytes(a ^ mask[i % 4] for i, a in enumerate(payload)) if masked and any(mask) else payload
        self.send(head + (mask if masked else b"") + data)

    def message(self):
        """The next message as (opcode, payload); a close frame is one too. Pings are answered by nobody."""
        while True:
            first, second = self._exactly(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack(">H", self._exactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._exactly(8))[0]
            payload = self._exactly(size)
            if first & 0x0F not in (PING, PONG):
                return first & 0x0F, payload

    def text(self, data):
        """Send JSON, or a text as it is; the JSON that comes back."""
        self.frame(TEXT, data.encode("utf-8", "surrogatepass") if isinstance(data, str) else json.dumps(data).encode())
        opcode, payload = self.message()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)


def _unix(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    return sock
