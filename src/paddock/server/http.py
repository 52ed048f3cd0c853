"""HTTP as values: a request that was read whole, and the response to it. Knows no sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote


@dataclass(frozen=True)
class Request:
    """``path`` as it came, still percent-encoded; header names in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    peer: str = ""

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, decoded: an id such as ``ALE/Pong-v5`` is one part when its slash came as %2F."""
        return tuple(unquote(part) for part in self.path.split("/") if part)

    def query_value(self, name: str) -> str | None:
        """The last value of a name in the query."""
        values = parse_qs(self.query, max_num_fields=100).get(name)
        return values[-1] if values else None


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

    def head(self, *, close: bool) -> bytes:
        """The bytes before the body."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            f"content-type: {self.content_type}",
            f"content-length: {len(self.body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
            "connection: close" if close else "connection: keep-alive",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def compact(value: Any) -> bytes:
    """JSON without spaces; what JSON has no form for (NaN) must have been dealt with before."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
