"""fetch(): call another system over HTTP, from behind a wall or without one.

Behind a wall TLS begins at the proxy, not here: the way to it stays on this machine, and calls can be recorded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag, urlsplit

from paddock.errors import NotPermitted

_PLAIN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Response:
    """An answer, whole. ``headers`` have lower case names; those that came more than once are joined by ", "."""

    status: int
    headers: dict[str, str]
    body: bytes

    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | str | None = None,
    timeout_s: float = 10.0,
) -> Response:
    """Send one request and return the answer, whatever its status. Redirects are not followed.

    Without an answer: NotPermitted if the policy's ``hosts`` does not name the host, TimeoutError, or ConnectionError.
    """
    import http.client  # here: with all it needs it takes as long as the rest of a worker's start

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _PLAIN.fullmatch(url) or "@" in parts.netloc:
        raise ValueError(f"fetch({url!r}): expected http://host/path or https://host/path, quoted, without a user.")
    proxy = os.environ.get("PADDOCK_PROXY")
    near = urlsplit(proxy) if proxy else parts
    kind = http.client.HTTPSConnection if near.scheme == "https" else http.client.HTTPConnection
    target = urldefrag(url).url if proxy else (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        with closing(kind(near.netloc, timeout=timeout_s)) as connection:
            # A text is sent as UTF-8; http.client would take Latin-1.
            connection.request(method, target, body.encode() if isinstance(body, str) else body, dict(headers or {}))
            answer = connection.getresponse()
            fields: dict[str, str] = {}
            for name, value in answer.getheaders():
                fields[name.lower()] = f"{fields[name.lower()]}, {value}" if name.lower() in fields else value
            response = Response(answer.status, fields, answer.read())
    except TimeoutError:
        raise TimeoutError(f"fetch: {parts.netloc} did not answer within {timeout_s:g} s.") from None
    except (http.client.HTTPException, OSError) as error:
        raise ConnectionError(f"fetch: no answer from {parts.netloc}: {error}.") from error
    verdict = response.headers.get("paddock-proxy") if proxy else None
    if verdict is None:
        return response
    text = "fetch: " + response.body.decode("utf-8", "replace").strip()
    if verdict == "refused":
        raise NotPermitted(text)
    raise TimeoutError(text) if verdict == "timeout" else ConnectionError(text)
