"""Websocket servers that others wrote, for our client to talk to; each runs in a thread."""

import asyncio
import base64
import contextlib
import hashlib
import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve, unix_serve

from paddock.hosting.websocket.endpoint import Endpoint

SUBPROTOCOLS = ("paddock.v1",)


def echo(connection):
    with contextlib.suppress(ConnectionClosed):
        for message in connection:
            connection.send(message)


@contextlib.contextmanager
def websockets_server(handler=echo, *, unix=None, **options):
    """The endpoint of a server made by the package ``websockets``."""
    options = {"subprotocols": SUBPROTOCOLS, "max_size": None, "close_timeout": 1, **options}
    server = unix_serve(handler, unix, **options) if unix else serve(handler, "127.0.0.1", 0, **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        port = 80 if unix else server.socket.getsockname()[1]
        yield Endpoint("localhost", port, unix=unix, secure="ssl" in options, subprotocols=SUBPROTOCOLS)
    finally:
        for connection in server.connections:
            connection.close()
        # Otherwise it polls, and has been seen to wait for ever for a thread that had ended.
        server.shutdown(close_connections=False)
        thread.join()


@contextlib.contextmanager
def picows_server():
    """An echo made by the package ``picows``."""
    import picows

    class Echo(picows.WSListener):
        def on_ws_frame(self, transport, frame):
            if frame.msg_type == picows.WSMsgType.CLOSE:
                transport.send_close(frame.get_close_code())
                transport.disconnect()
            elif frame.msg_type in (picows.WSMsgType.BINARY, picows.WSMsgType.TEXT):
                transport.send(frame.msg_type, frame.get_payload_as_bytes())

    loop, ready, found = asyncio.new_event_loop(), threading.Event(), []

    async def run():
        server = await picows.ws_create_server(lambda request: Echo(), "127.0.0.1", 0)
        found.extend((server.sockets[0].getsockname()[1], asyncio.Event()))
        ready.set()
        await found[1].wait()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield Endpoint("127.0.0.1", found[0])
    finally:
        loop.call_soon_threadsafe(found[1].set)
        thread.join()
        loop.close()


def read_all(peer):
    while peer.recv(4096):
        pass


def answering(reply, then=read_all):
    """A listener on a thread that answers one handshake with ``reply(head)``; then it closes its end, or ``then``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        with listener, listener.accept()[0] as peer:
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(4096)
            key = head.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
            digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
            lines += [f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}", "", ""]
            peer.sendall(reply("\r\n".join(lines).encode()))
            if then is read_all:
                peer.shutdown(socket.SHUT_WR)
            then(peer)

    thread = threading.Thread(target=run)
    thread.start()
    return Endpoint("127.0.0.1", listener.getsockname()[1]), thread


def certificate(folder):
    """A certificate for localhost, and contexts for both sides that agree on it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate of this test: runs where scripts/setup may install it")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [
            *command,
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            "-keyout",
            key,
            "-out",
            cert,
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=cert)
