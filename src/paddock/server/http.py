"""HTTP as values: a request that was read whole, and its response. Knows no sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from paddock.sandbox.http1 import head_bytes

# An answer is data for one caller: no page may take it for something else, no cache may keep it.
_ALWAYS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_TARGET = re.compile(
    r"(?:https?://(?P<host>[^/?#@\x00-\x20]+))?(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?", re.IGNORECASE
)


BODIES_BYTES = 1 << 28


class BodyBudget:
    """How many bytes the bodies of all unanswered requests may still take together."""

    def __init__(self, most: int = BODIES_BYTES) -> None:
        self.left = most


@dataclass(frozen=True)
class Request:
    """``path`` is still percent-encoded; header names are in lower case.

    ``known``: its token was valid when its head was read. The body of any other request was never kept.
    ``relayed``: another process of this server sent it here, so it must be answered here.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    peer: str = ""
    known: bool = False
    relayed: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, decoded: an id such as ``ALE/Pong-v5`` is one part if its slash is sent as %2F."""
        return tuple(unquote(part) for part in self.path.split("/") if part)

    def query_value(self, name: str) -> str | None:
        try:
            values = parse_qs(self.query, max_num_fields=100).get(name)
        except ValueError:  # more names than anyone needs
            return None
        return values[-1] if values else None

    def __str__(self) -> str:
        """One line for a log, without headers and query, which may hold a token."""
        return f"{self.method} {ascii(self.path[:200])[1:-1]}"


def read_target(text: str) -> tuple[str, str, str | None] | None:
    """Read path, query and host of a request's target: a path, or a whole URL as proxies send it; else None.

    A host that is named there counts, not the header.
    """
    if text == "*":
        return "*", "", None
    found = _TARGET.fullmatch(text)
    if found is None or (found["host"] is None and found["path"] is None):
        return None
    return found["path"] or "/", found["query"] or "", found["host"]


@dataclass(frozen=True)
class Response:
    """An answer without ``Content-Length`` and ``Connection``, which the sender adds."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        """Make a JSON response, as compact as OpenEnv's servers write it. ValueError for NaN, which JSON can't hold."""
        body = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        return cls(status, body, headers=headers or {})

    @property
    def all_headers(self) -> dict[str, str]:
        """Its own headers and those of every answer, without those of a connection."""
        return {"content-type": self.content_type, "date": formatdate(usegmt=True), **_ALWAYS, **self.headers}

    def head(self, *, close: bool) -> bytes:
        framing = {"content-length": str(len(self.body)), "connection": "close" if close else "keep-alive"}
        first = f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"
        return head_bytes(first, (*self.all_headers.items(), *framing.items()))
