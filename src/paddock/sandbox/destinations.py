"""Where a proxy may connect to. A name is looked up once: the connection goes to the very address that was judged."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from paddock.sandbox.http1 import Refused
from paddock.sandbox.policy import Policy

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# Lookups can't be interrupted: those that hang keep their place, so that they can't pile up.
_LOOKUPS = 8
_GLANCE_S = 0.1
# IPv6 addresses that stand for IPv4 ones, by translators or tunnels on the way: what they reach can't be judged.
_DISGUISES = [
    ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
]


class Destinations:
    """The hosts of a policy: "name:port", "*:port" for any name, IPv6 addresses in brackets."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = set()
        for one in Policy(hosts=tuple(hosts)).hosts:
            name, _, port = one.rpartition(":")
            self._hosts.add((_canonical(name.strip("[]")), int(port)))
        self._lookups = threading.BoundedSemaphore(_LOOKUPS)

    def permit(self, host: str, port: int) -> None:
        """Refused if the policy names neither this host nor any on this port. Nothing is looked up."""
        if not {(_canonical(host), port), ("*", port)} & self._hosts:
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise Refused(403, f"the permission hosts does not name {shown}.", "refused")

    def addresses(self, host: str, port: int, deadline: float, stopped: Callable[[], bool]) -> list[Address]:
        """Those of ``host`` that may be connected to, in the resolver's order; Refused if there are none.

        What is not on the public internet (this machine, its networks, a cloud's metadata) is only reached where the
        policy names the address itself, or localhost: whoever owns a name can let it point anywhere.
        """
        literal = parse_address(host)
        found = [literal] if literal else self._look_up(host, deadline, stopped)
        named = (_canonical(host), port) in self._hosts
        if named and literal:
            return found
        if named and host == "localhost":
            usable = [address for address in found if address.is_loopback]
        else:
            usable = [address for address in found if is_public(address) and not _is_ours(address)]
        if not usable:
            text = (
                f"{host} is no address of the public internet. Such are reached only if hosts names the address itself."
            )
            raise Refused(403, text, "refused")
        return usable

    def _look_up(self, host: str, deadline: float, stopped: Callable[[], bool]) -> list[Address]:
        late = Refused(504, f"The address of {host} was not found in time.", "timeout")
        if not self._lookups.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise late
        found: list[Address] = []
        done = threading.Event()

        def look() -> None:
            try:
                # UnicodeError: a label of more than 63 characters.
                with suppress(OSError, UnicodeError):
                    for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                        address = parse_address(str(place[0]).partition("%")[0])
                        if address and address not in found:
                            found.append(address)
            finally:
                self._lookups.release()
                done.set()

        try:
            threading.Thread(target=look, name="paddock-lookup", daemon=True).start()
        except RuntimeError:  # no more threads
            self._lookups.release()
            raise late from None
        while not done.wait(_GLANCE_S):
            if time.monotonic() > deadline or stopped():
                raise late
        if not found:
            raise Refused(502, f"{host} has no address.", "unreachable")
        return found


def parse_address(text: str) -> Address | None:
    """The address that ``text`` is; an IPv4 one in IPv6's clothes as what it is."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could connect to it as well."""
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _DISGUISES):
        return False
    odd = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    return address.is_global and not (odd or address.is_private or address.is_loopback)


def connect(
    addresses: Sequence[Address], port: int, deadline: float, opened: Callable[[socket.socket], None]
) -> socket.socket | None:
    """A connection to the first address that takes one by ``deadline``; None if none does.

    ``opened`` gets each socket before it is used, so that another thread can end the wait by its shutdown.
    """
    for tried, address in enumerate(addresses):
        left = (deadline - time.monotonic()) / (len(addresses) - tried)
        if left <= 0:
            return None
        sock = _socket(address, socket.SOCK_STREAM)
        opened(sock)
        try:
            sock.settimeout(left)
            sock.connect((str(address), port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError:
            sock.close()
    return None


def _is_ours(address: Address) -> bool:
    """Whether it is an address of this machine, whose services may listen for neighbours only."""
    # A datagram socket picks its route and sends nothing: to an address of its own a machine speaks from that address.
    with suppress(OSError), _socket(address, socket.SOCK_DGRAM) as probe:
        probe.connect((str(address), 9))
        return parse_address(probe.getsockname()[0]) == address
    return False


def _socket(address: Address, kind: socket.SocketKind) -> socket.socket:
    return socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, kind)


def _canonical(host: str) -> str:
    address = parse_address(host)
    return str(address) if address else host
