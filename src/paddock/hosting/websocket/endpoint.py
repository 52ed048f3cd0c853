"""Endpoint: where a websocket is, how to connect to it, and the HTTP handshake. Its authorization is never shown."""

from __future__ import annotations

import base64
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from paddock.hosting.websocket.events import UpgradeRefused

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True)
class Endpoint:
    """``host`` without brackets; ``path`` with its query, percent-encoded; ``unix``: a socket's file instead of TCP.

    ``authorization`` is never shown.
    """

    host: str
    port: int
    path: str = "/"
    secure: bool = False
    unix: str | None = None
    authorization: str | None = field(default=None, repr=False)
    subprotocols: tuple[str, ...] = ()

    @property
    def host_header(self) -> str:
        """The host as the server knows itself."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return name if self.unix is not None or self.port == usual else f"{name}:{self.port}"

    @property
    def display_name(self) -> str:
        """The place for error texts."""
        return self.unix if self.unix is not None else self.host_header


def dial(
    endpoint: Endpoint,
    ends_s: float,
    context: ssl.SSLContext | None = None,
    *,
    dial_s: float = inf,
    on_accept: Callable[[], None] | None = None,
) -> socket.socket:
    """A connected socket, with TLS if the endpoint is secure; OSError or TimeoutError if not by ``ends_s`` (monotonic).

    The server must accept within ``dial_s`` seconds; then ``on_accept`` is called, and TLS may take the rest of the
    time. Looking up the host's name has no time limit: the system offers none.
    """
    accepts_s = min(ends_s, time.monotonic() + dial_s)
    if endpoint.unix is None:
        sock = _tcp(endpoint, accepts_s)
    elif hasattr(socket, "AF_UNIX"):
        sock = _connect(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), endpoint.unix, accepts_s)
    else:
        raise OSError("this system has no unix sockets")
    if on_accept is not None:
        on_accept()
    if not endpoint.secure:
        return sock
    try:
        sock.settimeout(seconds_left(ends_s))
        secured = (context or default_context()).wrap_socket(sock, server_hostname=endpoint.host)
    except BaseException:
        sock.close()
        raise
    return secured


def default_context() -> ssl.SSLContext:
    """As strict as Python's default: certificates and host names are checked; TLS 1.2 or later."""
    import ssl  # when first used: it takes as long to import as all of this package

    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def seconds_left(ends_s: float) -> float:
    """Seconds until ``ends_s`` (monotonic); TimeoutError if it is over."""
    seconds = ends_s - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("not connected in time")
    return seconds


def _tcp(endpoint: Endpoint, ends_s: float) -> socket.socket:
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    problem: OSError = OSError("the host has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        # A share of the time for each address: the first may be one that swallows packets.
        share_s = time.monotonic() + seconds_left(ends_s) / (len(found) - number)
        try:
            sock = _connect(socket.socket(family, kind, protocol), address, share_s)
        except OSError as error:
            problem = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise problem


def _connect(sock: socket.socket, address: object, ends_s: float) -> socket.socket:
    try:
        sock.settimeout(seconds_left(ends_s))
        sock.connect(address)  # type: ignore[arg-type]  # what getaddrinfo gave, or a file
    except BaseException:
        sock.close()
        raise
    return sock


_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEAD_BYTES = 1 << 14
_BODY_BYTES = 1 << 14  # of a refusal
_BEGINNING = b"HTTP/1.1 "
_STATUS = re.compile(rb"HTTP/1\.1 ([1-9][0-9]{2})(?: [^\r\n]*)?", re.ASCII)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VISIBLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)


def bearer(token: str) -> str:
    """The value of an Authorization header for a token."""
    return f"Bearer {token}"


def basic(user: str, password: str) -> str:
    """The value of an Authorization header for a user with a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _traceparent() -> str | None:
    """Return the caller's span, as W3C Trace Context writes it, if it uses OpenTelemetry."""
    otel = sys.modules.get("opentelemetry.trace")
    span = None if otel is None else otel.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" if span and span.is_valid else None


class Handshake:
    """The HTTP that a websocket begins with. Send ``request``, then ``feed`` what comes until it returns True.

    Redirects are not followed.
    """

    def __init__(self, endpoint: Endpoint, *, key: str | None = None) -> None:
        self._endpoint = endpoint
        self._key = key or base64.b64encode(os.urandom(16)).decode()
        self._head = bytearray()
        self._refusal: tuple[int, dict[str, str], int] | None = None  # status, headers, where its body begins
        self.subprotocol: str | None = None  # the one that the server chose
        self.rest = b""  # what came after the response

    @property
    def request(self) -> bytes:
        endpoint = self._endpoint
        headers = {
            "Host": endpoint.host_header,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": self._key,
            "Sec-WebSocket-Version": "13",
        }
        if endpoint.subprotocols:
            headers["Sec-WebSocket-Protocol"] = ", ".join(endpoint.subprotocols)
        if endpoint.authorization is not None:
            headers["Authorization"] = endpoint.authorization
        if (parent := _traceparent()) is not None:
            headers["traceparent"] = parent
        for name, value in (*headers.items(), ("path", endpoint.path)):
            if not _VISIBLE.fullmatch(value):  # a line break would let the value add a header
                raise UpgradeRefused(f"{name} of a websocket request has characters that no HTTP header may have.")
        lines = [f"GET {endpoint.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def feed(self, data: bytes | memoryview) -> bool:
        """Whether the connection is open now. UpgradeRefused if the server refuses, or does not speak websocket."""
        self._head += data
        if self._refusal is not None:
            return self._read_refusal(ended=False)
        end = self._head.find(b"\r\n\r\n")
        if end < 0 or end > _HEAD_BYTES:
            if bytes(self._head[: len(_BEGINNING)]) != _BEGINNING[: len(self._head)]:
                raise self._not_websocket("its answer is not HTTP/1.1")
            if len(self._head) > _HEAD_BYTES:
                raise self._not_websocket(f"its answer has more than {_HEAD_BYTES} bytes of headers")
            return False
        status, headers = self._parse(bytes(self._head[:end]))
        if status != 101:
            self._refusal = status, headers, end + 4
            return self._read_refusal(ended=False)
        self._check(headers)
        self.rest = bytes(self._head[end + 4 :])
        return True

    def eof(self) -> None:
        """The server closed the connection. UpgradeRefused if it had begun to refuse."""
        if self._refusal is not None:
            self._read_refusal(ended=True)

    def _parse(self, head: bytes) -> tuple[int, dict[str, str]]:
        first, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise self._not_websocket("its answer is not HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(name):
                raise self._not_websocket("its answer has a malformed header")
            key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        return int(status[1]), headers

    def _check(self, headers: dict[str, str]) -> None:
        import hashlib  # here: it brings OpenSSL, a tenth of the whole client's import time

        options = [word.strip().lower() for word in headers.get("connection", "").split(",")]
        if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in options:
            raise self._not_websocket("it did not switch to a websocket")
        expected = base64.b64encode(hashlib.sha1(self._key.encode() + _GUID, usedforsecurity=False).digest()).decode()
        if headers.get("sec-websocket-accept") != expected:
            raise self._not_websocket("its Sec-WebSocket-Accept does not answer our key")
        if headers.get("sec-websocket-extensions"):
            raise self._not_websocket("it uses an extension that was not offered")
        chosen = headers.get("sec-websocket-protocol")
        if chosen is not None and chosen not in self._endpoint.subprotocols:
            raise self._not_websocket("it chose a subprotocol that was not offered")
        self.subprotocol = chosen

    def _read_refusal(self, *, ended: bool) -> bool:
        assert self._refusal is not None
        status, headers, at = self._refusal
        body = bytes(self._head[at : at + _BODY_BYTES])
        length = headers.get("content-length", "")
        wanted = min(int(length), _BODY_BYTES) if length.isascii() and length.isdigit() and len(length) < 10 else None
        if not ended and "transfer-encoding" not in headers and len(body) < (0 if wanted is None else wanted):
            return False
        if 300 <= status < 400:
            why = f"it redirects (status {status}), and redirects are not followed. Use the URL it redirects to"
            raise self._not_websocket(why)
        later = headers.get("retry-after", "")
        seconds = float(later) if later.isascii() and later.isdigit() and len(later) < 6 else None
        text = f"The server at {self._endpoint.display_name} refused the connection: status {status}."
        raise UpgradeRefused(text, status=status, body=body, retry_after_s=seconds)

    def _not_websocket(self, why: str) -> UpgradeRefused:
        status = 0 if self._refusal is None else self._refusal[0]
        text = f"The server at {self._endpoint.display_name} does not speak websocket: {why}."
        return UpgradeRefused(text, status=status)
