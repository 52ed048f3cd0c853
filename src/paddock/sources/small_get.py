"""One GET of a server's, small and by a deadline. For what is asked once, before a websocket is opened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from paddock.errors import PaddockError, Unreachable
from paddock.hosting.remote_refusal import explained
from paddock.hosting.websocket.dialing import dial, left
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import UpgradeRefused

if TYPE_CHECKING:
    import ssl

LARGEST_BYTES = 1 << 22


def get(endpoint: Endpoint, timeout_s: float, context: ssl.SSLContext | None = None) -> bytes:
    """The body of the response to GET; an error of ours if there is none, or one that is no success."""
    from http.client import HTTPException, HTTPResponse  # when first used: few ever ask

    ends_s = time.monotonic() + timeout_s
    try:
        with dial(endpoint, ends_s, context) as sock:
            sock.settimeout(left(ends_s))
            sock.sendall(_request(endpoint))
            response = HTTPResponse(sock, method="GET")
            response.begin()
            body = response.read(LARGEST_BYTES + 1)
    except (OSError, HTTPException) as error:
        said = explained(error, endpoint, first=True)
        raise said or Unreachable(f"No answer from {endpoint.shown}: {error}") from None
    if response.status != 200:
        raise _refused(response.status, body, endpoint)
    if len(body) > LARGEST_BYTES:
        raise Unreachable(f"{endpoint.shown} answered {endpoint.path} with more than {LARGEST_BYTES} bytes.")
    return body


def _request(endpoint: Endpoint) -> bytes:
    lines = [f"GET {endpoint.path} HTTP/1.1", f"Host: {endpoint.host_header}", "Accept: application/json"]
    if endpoint.authorization is not None:
        lines.append(f"Authorization: {endpoint.authorization}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("ascii")


def _refused(status: int, body: bytes, endpoint: Endpoint) -> PaddockError:
    refusal = UpgradeRefused(
        f"{endpoint.shown} answered {endpoint.path} with {status}.", status=status, body=body[:1000]
    )
    return explained(refusal, endpoint, first=True) or refusal
