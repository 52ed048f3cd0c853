"""The websocket handshake before it is handed on: who may come in is decided by our one reader of requests.

A second parser that read the same bytes in its own way (two Hosts, a folded header) would be a way around the gate.
"""

from __future__ import annotations

import base64
import binascii

from paddock.server.http import Request, Response
from paddock.server.request_reader import RequestReader

_VERSION = "13"
_KEY_BYTES = 16


def read_upgrade(head: bytes, peer: str) -> Request | None:
    """The request for a websocket that ``head`` is, blank line included; None if it is anything else."""
    if b"\nupgrade:" not in head.lower():
        return None
    reader = RequestReader(max_body=0, peer=peer)
    whole = reader.feed(head)
    if reader.problem or len(whole) != 1:
        return None
    request = whole[0][0]
    headers = request.headers
    options = [one.strip().lower() for one in headers.get("connection", "").split(",")]
    asks = headers.get("upgrade", "").lower() == "websocket" and "upgrade" in options
    return request if asks and request.method == "GET" else None


def handshake_refusal(request: Request) -> Response | None:
    """What is wrong with it as a handshake, or None."""
    if request.headers.get("sec-websocket-version") != _VERSION:
        detail = f"Of websockets version {_VERSION} is known."
        return Response.of({"detail": detail}, 426, {"upgrade": "websocket", "sec-websocket-version": _VERSION})
    try:
        key = base64.b64decode(request.headers.get("sec-websocket-key", ""), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        return Response.of({"detail": "Sec-WebSocket-Key is not 16 bytes in base64."}, 400)
    return None


def handed_on(request: Request) -> bytes:
    """A handshake with nothing in it but what the websocket's own parser needs."""
    key = request.headers["sec-websocket-key"]
    lines = ("GET / HTTP/1.1", "Host: paddock", "Upgrade: websocket", "Connection: Upgrade")
    text = "\r\n".join((*lines, f"Sec-WebSocket-Version: {_VERSION}", f"Sec-WebSocket-Key: {key}", "", ""))
    return text.encode("ascii")
