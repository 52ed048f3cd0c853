"""Servers on this machine's loopback, and a proxy to them, for the tests of what leaves a sandbox."""

import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from paddock.sandbox.proxy import Proxy

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PATIENCE_S = 20.0  # a test that waits this long has failed


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.server.seen.append((self.command, self.path, list(self.headers.items()), body))
        answer = self.server.answer(self.command, self.path, body)
        self.send_response(answer.get("status", 200))
        for name, value in answer.get("headers", []):
            self.send_header(name, value)
        data = answer.get("body", b"hello")
        if answer.get("chunked"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (data[:3], data[3:]):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        elif answer.get("until_close"):
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    do_POST = do_PUT = do_HEAD = do_DELETE = do_GET

    def log_message(self, *args):
        pass


@contextmanager
def web(answer=lambda method, path, body: {}, tls=None):
    """An HTTP server; ``seen`` is what it was asked: (method, path, headers, body)."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # server_close waits for them
    server.seen, server.answer, server.port = [], answer, server.server_address[1]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(PATIENCE_S)
        server.server_close()


@contextmanager
def raw(script):
    """A TCP server that runs ``script(server, connection)`` for each connection, one after the other."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE_S)

    class Raw:
        port = listener.getsockname()[1]
        got = []
        done = threading.Semaphore(0)

    def serve():
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(PATIENCE_S)
                    script(Raw, connection)
                Raw.done.release()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Raw
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive()


def keep_all(server, connection):
    """Answer after the head, then note everything that came on this connection until its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    with suppress(OSError):
        connection.sendall(OK)
    with suppress(OSError):
        while piece := connection.recv(65536):
            data += piece
    server.got.append(data)


@contextmanager
def proxied(*hosts, **options):
    """A proxy to ``hosts`` on a listener of its own; ``port`` is where it listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with Proxy(listener, hosts, **{"timeout_s": PATIENCE_S, **options}) as proxy:
        proxy.port = port
        yield proxy


def say(proxy, data, *, half_close=False):
    """Everything that a proxy answers to these bytes."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S) as sock:
        answer = b""
        with suppress(ConnectionError):
            sock.sendall(data)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while piece := sock.recv(65536):
                answer += piece
        return answer


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0
