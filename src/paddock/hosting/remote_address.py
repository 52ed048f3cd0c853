"""RemoteAddress: where a server is, read from a URL. The token in it is never shown: not in a repr, an error or a log.

A reader would get wrong: what is refused here is refused before anything is looked up or connected.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, unquote, urlsplit

from paddock.errors import PlanError
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.handshake import basic, bearer

SUBPROTOCOL = "paddock.v1"
WAITING = "paddock.v1.waiting"  # offered beside it by who understands the message Waiting; it is never chosen
TOKEN_VARIABLE = "PADDOCK_TOKEN"  # noqa: S105 - the name of a variable
_SCHEMES = {"http": False, "ws": False, "https": True, "wss": True, "http+unix": False}
_URL_CHARACTERS = 4096
_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}", re.ASCII)
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_UNREADABLE = re.compile(r"[\x00-\x20\x7f\\]")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"


@dataclass(frozen=True)
class RemoteAddress:
    """A server's address. ``path``: that of the environment, percent-encoded, empty for the only one of a server."""

    host: str
    port: int
    secure: bool
    path: str = ""
    unix: str | None = None
    authorization: str | None = field(default=None, repr=False)

    @property
    def id(self) -> str | None:
        """The environment's id as the URL has it; None if it names none."""
        return unquote(self.path.rpartition("/")[2]) or None

    def endpoint(self, route: str = "/ws", *, subprotocols: tuple[str, ...] = (SUBPROTOCOL,)) -> Endpoint:
        """Where the environment's websocket is."""
        return Endpoint(
            self.host,
            self.port,
            self.path + route,
            secure=self.secure,
            unix=self.unix,
            authorization=self.authorization,
            subprotocols=subprotocols,
        )

    def __str__(self) -> str:
        place = quote(self.unix, safe="") if self.unix is not None else self.endpoint().host_header
        scheme = "http+unix" if self.unix is not None else "https" if self.secure else "http"
        return f"{scheme}://{place}{self.path}"


def is_remote(text: str) -> bool:
    """Whether a target is meant for this module, sound or not."""
    return text.partition("://")[0].lower() in _SCHEMES and "://" in text


def parse_address(
    url: str, *, token: str | None = None, insecure: bool = False, environ: Mapping[str, str] | None = None
) -> RemoteAddress:
    """The address in a URL: http, https, ws, wss, or ``http+unix://%2Frun%2Fpaddock.sock/Maze-v0``.

    The token is ``token``, else the URL's user part (``https://TOKEN@host`` or ``https://anything:TOKEN@host``), else
    the variable PADDOCK_TOKEN. ``insecure`` allows plain http to another machine.

    >>> parse_address("https://envs.example.org/ALE%2FPong-v5", environ={}).id
    'ALE/Pong-v5'
    """
    parts = _split(url)
    scheme = parts.scheme
    if scheme not in _SCHEMES:
        raise PlanError(f"A server is reached by http, https, ws, wss or http+unix, not by {scheme[:20]!r}.")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise PlanError("The URL of an environment has no query and no fragment. Drop what begins with '?' or '#'.")
    userinfo, _, place = parts.netloc.rpartition("@")
    authorization = _authorization(userinfo, token, os.environ if environ is None else environ)
    path = _path(parts.path)
    if scheme == "http+unix":
        return RemoteAddress("localhost", 80, False, path, _unix_path(place), authorization)
    secure = _SCHEMES[scheme]
    host, port = _host_and_port(place, 443 if secure else 80)
    if not secure and not insecure and not is_loopback(host):
        raise PlanError(
            f"TLS demanded off loopback: {host} is another machine, and {scheme} would show the token and every action "
            f"to whoever listens. Use {'wss' if scheme == 'ws' else 'https'}://, or allow it with insecure=True."
        )
    return RemoteAddress(host, port, secure, path, None, authorization)


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant."""
    if host.rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    # Before urlsplit, which drops some of these without a word. The URL itself is not shown: it may hold a token.
    if _UNREADABLE.search(url) or len(url) > _URL_CHARACTERS:
        raise PlanError(
            f"This URL has spaces, control characters or backslashes, or more than {_URL_CHARACTERS} characters."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise PlanError("This URL is malformed. Expected https://host[:port]/Id-v0.") from None
    if "://" not in url or not parts.netloc:
        raise PlanError("This URL names no host. Expected https://host[:port]/Id-v0.")
    return parts


def _authorization(userinfo: str, token: str | None, environ: Mapping[str, str]) -> str | None:
    user, colon, password = (unquote(part) for part in userinfo.partition(":"))
    if token is None and not userinfo:
        token = environ.get(TOKEN_VARIABLE) or None
    if token is not None:
        return bearer(_checked(token))
    if colon:
        _checked(password)
        return basic(_checked(user) if user else "", password)
    return bearer(_checked(user)) if user else None


def _checked(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise PlanError("The token is empty, too long, or has spaces or characters outside ASCII. (It is not shown.)")
    return token


def _path(path: str) -> str:
    plain = quote(path.rstrip("/"), safe=_PATH_SAFE)
    for segment in plain.split("/"):
        if unquote(segment) in (".", ".."):
            raise PlanError("The URL's path has a segment '.' or '..', which names no environment.")
    if re.search("%(?![0-9A-Fa-f]{2})", plain) or "//" in plain:
        raise PlanError("The URL's path has an empty segment, or a '%' without two hex digits.")
    return plain


def _unix_path(place: str) -> str:
    file = unquote(place)
    if not file.startswith("/") or "\0" in file:
        raise PlanError(
            f"{file[:80]!r} is no absolute path of a unix socket. Expected http+unix://%2Fpath%2Fto.sock/Id."
        )
    return file


def _host_and_port(place: str, usual: int) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]{0,5}))?", place, re.ASCII)
    if match is None:
        raise PlanError(f"{_shown(place)} is no host with a port. Expected host, host:port or [address]:port.")
    port = int(match["port"]) if match["port"] else usual
    if not 0 < port < 1 << 16:
        raise PlanError(f"{port} is no port. Expected 1 to 65535.")
    if match["six"] is not None:
        return _six(match["six"]), port
    return _name(match["host"]), port


def _six(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
        zone = address.scope_id
    except ValueError:
        raise PlanError(f"{_shown(text)} is no IPv6 address.") from None
    if zone is not None:
        raise PlanError("An IPv6 address with a zone means another machine on each machine. Use a host's name.")
    return str(address)


def _name(text: str) -> str:
    try:
        host = text.lower() if text.isascii() else text.encode("idna").decode().lower()
    except UnicodeError:
        host = ""
    if not _HOST.fullmatch(host):
        raise PlanError(f"{_shown(text)} is no name of a host.")
    last = host.rstrip(".").rpartition(".")[2]
    if last.isdigit() or re.fullmatch("0x[0-9a-f]*", last):  # 0x7f.1 and 2130706433 are addresses to some resolvers
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise PlanError(f"{_shown(text)} is neither a name nor an address such as 192.0.2.1.") from None
    return host


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:80] + "…")
