"""A websocket server that does what a test says, one thread for each connection."""

import base64
import hashlib
import json
import socket
import struct
import threading
from contextlib import suppress

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Peer:
    """One connection, after its handshake."""

    def __init__(self, sock, schema=None):
        self._sock, self._file = sock, sock.makefile("rb")
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            line = self._file.readline()
            if not line:
                raise ConnectionError
            self.head += line
        key = next(
            (line[18:].strip() for line in self.head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")),
            None,
        )
        if key is None:  # not a websocket: GET /schema
            body = json.dumps(schema).encode()
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            raise EOFError
        proof = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        sock.sendall(answer + b"Sec-WebSocket-Accept: " + proof + b"\r\n\r\n")

    def receive(self):
        """(opcode, payload) of the next frame."""
        first, second = self._read(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self._read(2 if size == 126 else 8), "big")
        mask = self._read(4)
        payload = self._read(size)
        return first & 0x0F, bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))

    def ask(self):
        """The next message as data; EOFError when the client is gone."""
        return json.loads(self.text())

    def text(self):
        """The next message as it came."""
        while True:
            opcode, payload = self.receive()
            if opcode == 1:
                return payload.decode()
            if opcode == 8:
                raise EOFError

    def send(self, *payloads, opcode=1):
        """All of them in one piece, so that they arrive together."""
        self._sock.sendall(b"".join(self._frame(payload, opcode) for payload in payloads))

    def _frame(self, payload, opcode):
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        size = len(data)
        if size < 126:
            return bytes([0x80 | opcode, size]) + data
        long = size >= 1 << 16
        return struct.pack("!BBQ" if long else "!BBH", 0x80 | opcode, 127 if long else 126, size) + data

    def observe(self, *values):
        outcomes = [{"observation": {"value": value}, "reward": 0.0, "done": False} for value in values]
        self.send(*({"type": "observation", "data": outcome} for outcome in outcomes))

    def close(self, code=1000):
        self.send(struct.pack("!H", code), opcode=8)

    def _read(self, count):
        data = self._file.read(count)
        if len(data) < count:
            raise EOFError
        return data


class ScriptedServer:
    """Calls ``script(peer)`` for each connection, in the order in which they came; ``failures`` of it are kept.

    ``sessions`` counts the websockets. A GET is answered with ``schema``.
    """

    def __init__(self, *scripts, schema=None):
        self._scripts, self._schema = list(scripts), schema or {}
        self.sessions = 0
        self.failures, self._threads, self._socks = [], [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self):
        with suppress(OSError):
            for number in range(1000):
                sock, _ = self._listener.accept()
                self._socks.append(sock)
                script = self._scripts[min(number, len(self._scripts) - 1)]
                thread = threading.Thread(target=self._serve, args=(sock, script))
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock, script):
        try:
            peer = Peer(sock, self._schema)
            self.sessions += 1
            script(peer)
        except (EOFError, OSError):
            pass
        except BaseException as error:
            self.failures.append(error)
        finally:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for sock in self._socks:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        assert self.failures == []


def echo(peer):
    """Answers as an environment would: observations count the steps."""
    steps = 0
    while True:
        asked = peer.ask()
        if asked["type"] == "close":
            return
        steps = 0 if asked["type"] == "reset" else steps + (asked["type"] == "step")
        if asked["type"] == "state":
            peer.send({"type": "state", "data": {"episode_id": "e", "step_count": steps}})
        else:
            peer.observe([asked["type"], asked["data"], steps])
