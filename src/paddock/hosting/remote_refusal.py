"""What went wrong with a connection, as an error for the user, and whether trying again makes sense. Pure.

Nothing here shows more of the address than its host: the rest may hold a token.
"""

from __future__ import annotations

import socket
from urllib.parse import quote, unquote

import msgspec

from paddock.errors import (
    BadFrame,
    CapacityReached,
    Forbidden,
    PaddockError,
    RateLimited,
    StorageFull,
    Unauthenticated,
    Unreachable,
    UnregisteredEnv,
    table,
)
from paddock.hosting.close_reason import read_reason
from paddock.hosting.failure import to_error
from paddock.hosting.messages import Failed
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import Closed, UpgradeRefused, WebSocketError

_OF_STATUS: dict[int, type[PaddockError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: UnregisteredEnv,
    429: RateLimited,
    503: CapacityReached,
    507: StorageFull,
}
# Closes that say that our own bytes were wrong: the same bytes would be refused again, for ever.
_OUR_FAULT = {1002: "malformed", 1003: "of a kind it does not take", 1007: "no UTF-8", 1009: "too large"}
_POLICY = 1008
_IDS_SHOWN, _ID_CHARACTERS = 8, 100


class OtherWire(UpgradeRefused):
    """The server speaks websocket, but not the subprotocol that was offered; an OpenEnv server is such a one."""


def is_final(error: PaddockError) -> bool:
    """Whether trying again would only end the same way."""
    if isinstance(error, UpgradeRefused):
        return error.status < 500
    return not error.retryable


def explained(problem: BaseException | Closed, endpoint: Endpoint, *, first: bool) -> PaddockError | None:
    """The error behind a failed or ended connection; None if it is nothing but a broken connection.

    ``first``: there never was a connection, so what looks temporary may be a mistake in the address.
    """
    if isinstance(problem, Closed):
        return _of_close(problem)
    if isinstance(problem, UpgradeRefused):
        return _of_refusal(problem, endpoint)
    if isinstance(problem, WebSocketError):
        return BadFrame(f"The server at {endpoint.shown} broke the websocket protocol: {problem}.")
    if first and isinstance(problem, socket.gaierror) and problem.errno == socket.EAI_NONAME:
        return _final(f"There is no host {endpoint.host!r}.")
    if type(problem).__name__ == "SSLCertVerificationError":
        why = getattr(problem, "verify_message", "")
        return _final(f"The certificate of {endpoint.shown} is not valid here: {why}.")
    return None


def _final(text: str) -> UpgradeRefused:
    return UpgradeRefused(text)


def _of_close(closed: Closed) -> PaddockError | None:
    code, text = read_reason(closed.reason)
    if code:
        return to_error(Failed(code, text or "The server ended the connection."))
    if closed.code in _OUR_FAULT:
        return BadFrame(f"The server refused a message: it is {_OUR_FAULT[closed.code]} ({closed.code}).")
    if closed.code == _POLICY:
        return Forbidden("The server ended the connection: its policy does not allow it (1008).")
    return None


def _of_refusal(refusal: UpgradeRefused, endpoint: Endpoint) -> PaddockError:
    cls = _by_code().get(_body(refusal.body).code) or _OF_STATUS.get(refusal.status)
    if not endpoint.secure and refusal.status == 400 and b"https" in refusal.body.lower():
        text = f"The server at {endpoint.shown} speaks TLS. Use https:// (or wss://) in the URL."
        return UpgradeRefused(text, status=refusal.status)
    if cls is None:
        return refusal
    where = f"The server at {endpoint.shown}"
    if cls is Unauthenticated:
        if endpoint.authorization is not None:
            return cls(f"{where} does not know this token.")
        return cls(f"{where} wants a token: in remote=, in the URL's user part, or in PADDOCK_TOKEN.")
    if cls is UnregisteredEnv:
        path = endpoint.path.removesuffix("/ws") or "/"
        return cls(f"{where} has no environment at {path!r}.{_there_are(refusal.body, path)}")
    if cls is Forbidden:
        return cls(f"{where} does not allow this, to this token or from this place.")
    return to_error(Failed(cls.code, f"{where} refused the connection: {cls.code}, status {refusal.status}."))


def _by_code() -> dict[str, type[PaddockError]]:
    return {code: cls for cls, code, _, _ in table()}


class _Body(msgspec.Struct):
    code: str = ""
    environments: list[str] = []


def _body(body: bytes) -> _Body:
    try:
        return msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Body()


def _there_are(body: bytes, path: str) -> str:
    """How to end the URL instead, the nearest first. The ids are the server's words: percent-encoded they are plain."""
    from difflib import SequenceMatcher  # when first used: few ever ask

    ids = [id for id in _body(body).environments if len(id) <= _ID_CHARACTERS]
    wanted = unquote(path.rpartition("/")[2])[:_ID_CHARACTERS]
    ids.sort(key=lambda id: -SequenceMatcher(None, id.lower(), wanted.lower()).ratio())
    paths = [f"/{quote(id, safe='', errors='replace')}" for id in ids[:_IDS_SHOWN]]
    more = ", …" if len(ids) > _IDS_SHOWN else ""
    return f" End the URL with one that it has: {', '.join(paths)}{more}" if paths else ""


def given_up(error: PaddockError, last: PaddockError | BaseException | None) -> PaddockError:
    """What to raise when the client stopped trying: what the server said last, if it said something."""
    if isinstance(last, PaddockError):
        return last if isinstance(error, Unreachable) or last.code == error.code else error
    if isinstance(last, OSError) and isinstance(error, Unreachable):
        return Unreachable(f"{error} ({last.strerror or last})")
    return error
