"""RemoteAddress: where a server is, read from a URL, and what to raise when a connection to it fails.

Errors show no more of an address than its host: the rest may hold a token. ``parse_address`` refuses a URL before
anything is looked up or connected.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec

from paddock import errors as e
from paddock.hosting.failures import error_classes, read_reason, to_error
from paddock.hosting.messages import V1, V2, Failed
from paddock.hosting.websocket.endpoint import Endpoint, basic, bearer
from paddock.hosting.websocket.events import Closed, UpgradeRefused, WebSocketError

if TYPE_CHECKING:
    from paddock.hosting.websocket.blocking import BlockingConnection

SUBPROTOCOLS = (V2, V1)  # the best first
WAITING = "paddock.v1.waiting"  # offered beside it by clients that understand the message Waiting; never chosen
TOKEN_VARIABLE = "PADDOCK_TOKEN"  # noqa: S105 - the name of a variable
_SCHEMES = {"http": False, "ws": False, "https": True, "wss": True, "http+unix": False}
_URL_CHARACTERS = 4096
_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}", re.ASCII)
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_UNREADABLE = re.compile(r"[\x00-\x20\x7f\\]")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"


@dataclass(frozen=True)
class RemoteAddress:
    """A server's address. ``path``: the environment's, percent-encoded; empty for a server with only one."""

    host: str
    port: int
    secure: bool
    path: str = ""
    unix: str | None = None
    authorization: str | None = field(default=None, repr=False)

    @property
    def id(self) -> str | None:
        """The environment's id in the URL, if there is one."""
        return unquote(self.path.rpartition("/")[2]) or None

    def endpoint(self, route: str = "/ws", *, subprotocols: tuple[str, ...] = SUBPROTOCOLS) -> Endpoint:
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
        raise e.PlanError(f"A server is reached by http, https, ws, wss or http+unix, not by {scheme[:20]!r}.")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise e.PlanError("The URL of an environment has no query or fragment. Drop what begins with '?' or '#'.")
    userinfo, _, place = parts.netloc.rpartition("@")
    authorization = _authorization(userinfo, token, os.environ if environ is None else environ)
    path = _path(parts.path)
    if scheme == "http+unix":
        file = unquote(place)
        if not file.startswith("/") or "\0" in file:
            raise e.PlanError(
                f"{file[:80]!r} is not the absolute path of a unix socket. Expected http+unix://%2Fpath%2Fto.sock/Id."
            )
        return RemoteAddress("localhost", 80, False, path, file, authorization)
    secure = _SCHEMES[scheme]
    host, port = _host_and_port(place, 443 if secure else 80)
    if not secure and not insecure and not is_loopback(host):
        raise e.PlanError(
            f"{host} is another machine, and {scheme} would show the token and every action to anyone who listens: TLS "
            f"is required. Use {'wss' if scheme == 'ws' else 'https'}://, or allow it with "
            "remote=paddock.RemoteOptions(insecure=True)."
        )
    return RemoteAddress(host, port, secure, path, None, authorization)


def is_loopback(host: str) -> bool:
    """Whether a host can only be this machine."""
    if host.rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    # Before urlsplit, which drops some of these without a word. The URL itself is not shown: it may hold a token.
    if _UNREADABLE.search(url) or len(url) > _URL_CHARACTERS:
        raise e.PlanError(
            f"This URL has spaces, control characters or backslashes, or more than {_URL_CHARACTERS} characters."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise e.PlanError("This URL is malformed. Expected https://host[:port]/Id-v0.") from None
    if "://" not in url:
        raise e.PlanError("This URL has no scheme. Begin it with https://, or with http:// for a port of this machine.")
    if not parts.netloc:
        raise e.PlanError("This URL names no host. Expected https://host[:port]/Id-v0.")
    return parts


def _authorization(userinfo: str, token: str | None, environ: Mapping[str, str]) -> str | None:
    user, colon, password = (unquote(part) for part in userinfo.partition(":"))
    if token is None and not userinfo:
        token = environ.get(TOKEN_VARIABLE) or None
    if token is not None:
        return bearer(_check_token(token))
    if colon:
        _check_token(password)
        return basic(_check_token(user) if user else "", password)
    return bearer(_check_token(user)) if user else None


def _check_token(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise e.PlanError("The token is empty, too long, or has spaces or characters outside ASCII. (It is not shown.)")
    return token


def _path(path: str) -> str:
    plain = quote(path.rstrip("/"), safe=_PATH_SAFE)
    for segment in plain.split("/"):
        if unquote(segment) in (".", ".."):
            raise e.PlanError("The URL's path has a segment '.' or '..', which names no environment.")
    if re.search("%(?![0-9A-Fa-f]{2})", plain) or "//" in plain:
        raise e.PlanError("The URL's path has an empty segment, or a '%' without two hex digits.")
    return plain


def _host_and_port(place: str, usual: int) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]{0,5}))?", place, re.ASCII)
    if match is None:
        raise e.PlanError(f"{_shorten(place)} is not a host with a port. Expected host, host:port or [address]:port.")
    port = int(match["port"]) if match["port"] else usual
    if not 0 < port < 1 << 16:
        raise e.PlanError(f"{port} is not a port. Expected 1 to 65535.")
    if (text := match["six"]) is None:
        return _host_name(match["host"]), port
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise e.PlanError(f"{_shorten(text)} is not an IPv6 address.") from None
    if address.scope_id is not None:
        raise e.PlanError("An IPv6 address with a zone means a different machine on each machine. Use a host's name.")
    return str(address), port


def _host_name(text: str) -> str:
    try:
        host = text.lower() if text.isascii() else text.encode("idna").decode().lower()
    except UnicodeError:
        host = ""
    if not _HOST.fullmatch(host):
        raise e.PlanError(f"{_shorten(text)} is not a host's name.")
    last = host.rstrip(".").rpartition(".")[2]
    if last.isdigit() or re.fullmatch("0x[0-9a-f]*", last):  # 0x7f.1 and 2130706433 are addresses to some resolvers
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise e.PlanError(f"{_shorten(text)} is neither a name nor an address such as 192.0.2.1.") from None
    return host


def _shorten(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:80] + "…")


# What went wrong with a connection, as an error for the user, and whether it makes sense to try again


_OF_STATUS: dict[int, type[e.PaddockError]] = {
    401: e.Unauthenticated,
    403: e.Forbidden,
    404: e.UnregisteredEnv,
    429: e.RateLimited,
    503: e.CapacityReached,
    507: e.StorageFull,
}
# Closes that blame our own bytes: the server would refuse the same bytes again, forever.
_OUR_FAULT = {1002: "malformed", 1003: "of a kind it does not take", 1007: "not UTF-8", 1009: "too large"}
_POLICY = 1008
_IDS_SHOWN, _ID_CHARACTERS = 8, 100


class OtherWire(UpgradeRefused):
    """The server speaks websocket, but not the subprotocol that was offered; an OpenEnv server, for example.

    ``connection`` is open, if RemoteChannel raises it: go on with it in the other wire, or abort it.
    """

    connection: BlockingConnection | None = None


def is_final(error: e.PaddockError) -> bool:
    """Whether another attempt would only end the same way."""
    if isinstance(error, UpgradeRefused):
        return error.status < 500
    return not error.retryable


def explain_break(problem: BaseException | Closed, endpoint: Endpoint, *, first: bool) -> e.PaddockError | None:
    """The error behind a failed or ended connection; None if the connection only broke.

    ``first``: there never was a connection, so what looks temporary may be a mistake in the address.
    """
    if isinstance(problem, Closed):
        code, text = read_reason(problem.reason)
        if code:
            return to_error(Failed(code, text or "The server ended the connection."))
        if problem.code in _OUR_FAULT:
            return e.BadFrame(f"The server refused a message: it is {_OUR_FAULT[problem.code]} ({problem.code}).")
        if problem.code == _POLICY:
            return e.Forbidden("The server ended the connection: its policy does not allow it (1008).")
        return None
    if isinstance(problem, UpgradeRefused):
        return _explain_refusal(problem, endpoint)
    if isinstance(problem, WebSocketError):
        return e.BadFrame(f"The server at {endpoint.display_name} broke the websocket protocol: {problem}.")
    if first and isinstance(problem, socket.gaierror) and problem.errno == socket.EAI_NONAME:
        return UpgradeRefused(f"There is no host {endpoint.host!r}.")
    if type(problem).__name__ == "SSLCertVerificationError":
        why = getattr(problem, "verify_message", "")
        return UpgradeRefused(f"The certificate of {endpoint.display_name} is not valid here: {why}.")
    return None


def _explain_refusal(refusal: UpgradeRefused, endpoint: Endpoint) -> e.PaddockError:
    try:
        body = _REFUSAL_BODY.decode(refusal.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        body = _RefusalBody()
    cls = error_classes().get(body.code) or _OF_STATUS.get(refusal.status)
    if not endpoint.secure and refusal.status == 400 and b"https" in refusal.body.lower():
        text = f"The server at {endpoint.display_name} speaks TLS. Use https:// (or wss://) in the URL."
        return UpgradeRefused(text, status=refusal.status)
    if cls is None:
        return refusal
    where = f"The server at {endpoint.display_name}"
    if cls is e.Unauthenticated:
        if endpoint.authorization is not None:
            return cls(f"{where} does not know this token.")
        return cls(f"{where} wants a token: in remote=, in the URL's user part, or in PADDOCK_TOKEN.")
    if cls is e.UnregisteredEnv:
        path = endpoint.path.removesuffix("/ws") or "/"
        return cls(f"{where} has no environment at {path!r}.{_suggest(body.environments, path)}")
    if cls is e.Forbidden:
        return cls(f"{where} does not allow this for this token or from this address.")
    return to_error(Failed(cls.code, f"{where} refused the connection: {cls.code}, status {refusal.status}."))


class _RefusalBody(msgspec.Struct):
    code: str = ""
    environments: list[str] = []


_REFUSAL_BODY = msgspec.json.Decoder(_RefusalBody)  # made before threads can use it at once: see core.spec_json


def _suggest(environments: list[str], path: str) -> str:
    """How to end the URL instead, the nearest first. The server chose the ids: percent-encoding makes them plain."""
    from difflib import SequenceMatcher  # when first used: it is rarely needed

    ids = [id for id in environments if len(id) <= _ID_CHARACTERS]
    wanted = unquote(path.rpartition("/")[2])[:_ID_CHARACTERS]
    ids.sort(key=lambda id: -SequenceMatcher(None, id.lower(), wanted.lower()).ratio())
    paths = [f"/{quote(id, safe='', errors='replace')}" for id in ids[:_IDS_SHOWN]]
    more = ", …" if len(ids) > _IDS_SHOWN else ""
    return f" End the URL with one that it has: {', '.join(paths)}{more}" if paths else ""
