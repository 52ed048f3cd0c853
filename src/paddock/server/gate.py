"""The gate: what is refused before tokens are looked at. Browsers are the danger: they carry a stranger's requests."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from paddock.hosting.remote_address import is_loopback

# All of it: of "[::1].evil.example" or "localhost:80@evil.example" no part may pass for the whole.
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class Gate:
    """``hosts``: names by which this server may be addressed; with ``literals`` also by any address.

    A page of another site may reach a server on this machine by a name of its own that resolves to 127.0.0.1, so the
    name must be one of ours. An address can't be such a name.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    literals: bool = False

    @classmethod
    def for_bind(
        cls, host: str | None, origins: frozenset[str] = frozenset(), hosts: frozenset[str] = frozenset()
    ) -> Gate:
        """For a server that listens on ``host``; None is a unix socket, which no page can reach."""
        own = _LOOPBACK | {name.lower() for name in hosts} | ({host.lower()} if host else set())
        if host is None or is_loopback(host.lower().strip("[]")):
            return cls(own, origins)
        return cls(own | {socket.gethostname().lower(), socket.getfqdn().lower()}, origins, literals=True)

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Why a request with these headers is turned away (403), or None."""
        if not self._is_ours(headers.get("host", "")):
            return "This server does not go by that Host."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            return "Requests from that Origin are not allowed; see --allow-origin."
        if origin is None and headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
            return "Requests from other sites are not allowed."
        return None

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower()
        return name in self.hosts or (self.literals and _is_address(name.strip("[]")))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
