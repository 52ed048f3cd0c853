"""The HTTP that a websocket begins with: the request, and whether the response is the answer to it. No redirects."""

from __future__ import annotations

import base64
import os
import re

from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import UpgradeRefused

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEAD_BYTES = 1 << 14
_BODY_BYTES = 1 << 14  # of a refusal
_BEGINNING = b"HTTP/1.1 "
_STATUS = re.compile(rb"HTTP/1\.1 ([1-9][0-9]{2})(?: [^\r\n]*)?", re.ASCII)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VISIBLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)


def bearer(token: str) -> str:
    """An Authorization header's value."""
    return f"Bearer {token}"


def basic(user: str, password: str) -> str:
    """The same for a user with a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Handshake:
    """One handshake. Send ``request``, then ``feed`` what comes until it returns True."""

    def __init__(self, endpoint: Endpoint, *, key: str | None = None) -> None:
        self._endpoint = endpoint
        self._key = key or base64.b64encode(os.urandom(16)).decode()
        self._head = bytearray()
        self._refusal: tuple[int, dict[str, str], int] | None = None  # status, headers, where its body begins
        self.subprotocol: str | None = None  # the one that the server chose
        self.rest = b""  # what came behind the response

    @property
    def request(self) -> bytes:
        """The bytes to send."""
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
        for name, value in (*headers.items(), ("path", endpoint.path)):
            if not _VISIBLE.fullmatch(value):  # a line break would be a header of someone else's choice
                raise UpgradeRefused(f"{name} of a websocket request has characters that no HTTP header may have.")
        lines = [f"GET {endpoint.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def feed(self, data: bytes | memoryview) -> bool:
        """Whether the connection is open now. UpgradeRefused when the server will not, or is none."""
        self._head += data
        if self._refusal is not None:
            return self._refused(ended=False)
        end = self._head.find(b"\r\n\r\n")
        if end < 0 or end > _HEAD_BYTES:
            if bytes(self._head[: len(_BEGINNING)]) != _BEGINNING[: len(self._head)]:
                raise self._none("what it answers is no HTTP/1.1")
            if len(self._head) > _HEAD_BYTES:
                raise self._none(f"its answer has more than {_HEAD_BYTES} bytes of headers")
            return False
        status, headers = self._parsed(bytes(self._head[:end]))
        if status != 101:
            self._refusal = status, headers, end + 4
            return self._refused(ended=False)
        self._check(headers)
        self.rest = bytes(self._head[end + 4 :])
        return True

    def eof(self) -> UpgradeRefused | None:
        """The server closed before the end: what it had said, or None if that was nothing."""
        if self._refusal is None:
            return None
        try:
            self._refused(ended=True)
        except UpgradeRefused as refusal:
            return refusal
        return None

    def _parsed(self, head: bytes) -> tuple[int, dict[str, str]]:
        first, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise self._none("what it answers is no HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(name):
                raise self._none("its answer has a malformed header")
            key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        return int(status[1]), headers

    def _check(self, headers: dict[str, str]) -> None:
        import hashlib  # here: it brings OpenSSL, which takes a tenth of what the whole client does

        if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in _words(headers.get("connection", "")):
            raise self._none("it did not switch to a websocket")
        expected = base64.b64encode(hashlib.sha1(self._key.encode() + _GUID, usedforsecurity=False).digest()).decode()
        if headers.get("sec-websocket-accept") != expected:
            raise self._none("its Sec-WebSocket-Accept does not answer our key")
        if headers.get("sec-websocket-extensions"):
            raise self._none("it uses an extension that was not offered")
        chosen = headers.get("sec-websocket-protocol")
        if chosen is not None and chosen not in self._endpoint.subprotocols:
            raise self._none("it chose a subprotocol that was not offered")
        self.subprotocol = chosen

    def _refused(self, *, ended: bool) -> bool:
        assert self._refusal is not None
        status, headers, at = self._refusal
        body = bytes(self._head[at : at + _BODY_BYTES])
        length = headers.get("content-length", "")
        wanted = min(int(length), _BODY_BYTES) if length.isascii() and length.isdigit() and len(length) < 10 else None
        if not ended and "transfer-encoding" not in headers and len(body) < (0 if wanted is None else wanted):
            return False
        if 300 <= status < 400:
            raise self._none(f"it redirects (status {status}), and redirects are not followed. Use the URL it means")
        raise UpgradeRefused(
            f"The server at {self._endpoint.shown} refused the connection: status {status}.",
            status=status,
            body=body,
            retry_after_s=_seconds(headers.get("retry-after", "")),
        )

    def _none(self, why: str) -> UpgradeRefused:
        status = 0 if self._refusal is None else self._refusal[0]
        return UpgradeRefused(f"The server at {self._endpoint.shown} speaks no websocket: {why}.", status=status)


def _words(value: str) -> set[str]:
    return {word.strip().lower() for word in value.split(",")}


def _seconds(value: str) -> float | None:
    return float(value) if value.isascii() and value.isdigit() and len(value) < 6 else None
