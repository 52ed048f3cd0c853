"""Sockets to an endpoint: TCP, TLS or a unix socket, connected by a deadline. TLS is as strict as Python's default."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from paddock.hosting.websocket.endpoint import Endpoint

if TYPE_CHECKING:
    import ssl


def dial(
    endpoint: Endpoint,
    ends_s: float,
    context: ssl.SSLContext | None = None,
    *,
    dial_s: float = inf,
    on_accept: Callable[[], None] | None = None,
) -> socket.socket:
    """A connected socket, with TLS if the endpoint is secure. OSError or TimeoutError if not by ``ends_s`` (monotonic).

    The server must accept within ``dial_s`` seconds, which ``on_accept`` hears; TLS may take the rest of the time.
    Looking the host's name up is not bounded: the system has no way to.
    """
    accepts_s = min(ends_s, time.monotonic() + dial_s)
    sock = _unix(endpoint.unix, accepts_s) if endpoint.unix is not None else _tcp(endpoint, accepts_s)
    if on_accept is not None:
        on_accept()
    if not endpoint.secure:
        return sock
    try:
        sock.settimeout(left(ends_s))
        secured = (context or default_context()).wrap_socket(sock, server_hostname=endpoint.host)
    except BaseException:
        sock.close()
        raise
    return secured


def default_context() -> ssl.SSLContext:
    """Certificates and host names are checked, TLS 1.2 at least."""
    import ssl  # when first used: it takes as long to import as all of this package

    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def left(ends_s: float) -> float:
    """Seconds until then; TimeoutError if there are none."""
    seconds = ends_s - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("not connected in time")
    return seconds


def _unix(file: str, ends_s: float) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this system has no unix sockets")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    return _connected(sock, file, ends_s)


def _tcp(endpoint: Endpoint, ends_s: float) -> socket.socket:
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    problem: OSError = OSError("the host has no address")
    for number, (family, kind, protocol, _, address) in enumerate(found):
        # A share of the time for each address: the first may be one that swallows packets.
        share_s = time.monotonic() + left(ends_s) / (len(found) - number)
        try:
            sock = _connected(socket.socket(family, kind, protocol), address, share_s)
        except OSError as error:
            problem = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise problem


def _connected(sock: socket.socket, address: object, ends_s: float) -> socket.socket:
    try:
        sock.settimeout(left(ends_s))
        sock.connect(address)  # type: ignore[arg-type]  # what getaddrinfo gave, or a file
    except BaseException:
        sock.close()
        raise
    return sock
