"""HTTP as values: a request that was read whole, and the response to it. Knows no sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

# Answers are data of one caller: no page may read them as something else, no cache may keep them.
_ALWAYS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_TARGET = re.compile(
    r"(?:https?://(?P<host>[^/?#@\x00-\x20]+))?(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?", re.IGNORECASE
)


class Bodies:
    """The bytes that all bodies of a server may have together, until their requests are answered."""

    def __init__(self, most: int = 1 << 28) -> None:
        self.left = most


@dataclass(frozen=True)
class Request:
    """``path`` as it came, still percent-encoded; header names in lower case.

    ``known``: its token was valid when its head was read. Of any other request the body was never kept.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    peer: str = ""
    known: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, decoded: an id such as ``ALE/Pong-v5`` is one part when its slash came as %2F."""
        return tuple(unquote(part) for part in self.path.split("/") if part)

    def query_value(self, name: str) -> str | None:
        """The last value of a name in the query."""
        try:
            values = parse_qs(self.query, max_num_fields=100).get(name)
        except ValueError:  # more names than anyone needs
            return None
        return values[-1] if values else None

    def __str__(self) -> str:
        """For a log: one line, never the headers or the query, which may hold a token."""
        return f"{self.method} {ascii(self.path[:200])[1:-1]}"


@dataclass(frozen=True)
class Target:
    """What a request's first line asks for. ``host`` if it is named there: then it counts, not the header."""

    path: str
    query: str
    host: str | None = None


def read_target(text: bytes) -> Target | None:
    """The target of a request: a path, or a whole URL as proxies send it; None for anything else."""
    if not text.isascii() or any(byte <= 0x20 or byte == 0x7F for byte in text):
        return None
    if text == b"*":
        return Target("*", "")
    found = _TARGET.fullmatch(text.decode("ascii"))
    if found is None or (found["host"] is None and found["path"] is None):
        return None
    return Target(found["path"] or "/", found["query"] or "", found["host"])


@dataclass(frozen=True)
class Response:
    """What is sent back; ``Content-Length`` and ``Connection`` are added by who sends it."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        """A JSON document, written as compactly as OpenEnv's servers do."""
        return cls(status, compact(value), headers=headers or {})

    @property
    def all_headers(self) -> dict[str, str]:
        """Its own, and those that every answer has; not what belongs to a connection."""
        return {"content-type": self.content_type, "date": formatdate(usegmt=True), **_ALWAYS, **self.headers}

    def head(self, *, close: bool) -> bytes:
        """The bytes before the body."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            *(f"{name}: {value}" for name, value in self.all_headers.items()),
            f"content-length: {len(self.body)}",
            "connection: close" if close else "connection: keep-alive",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def compact(value: Any) -> bytes:
    """JSON without spaces; what JSON has no form for (NaN) must have been dealt with before."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
