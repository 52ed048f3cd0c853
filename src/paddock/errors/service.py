"""Errors of the environment service: sessions, limits, who gets in."""

from __future__ import annotations

from paddock.errors.root import PaddockError


class Unreachable(PaddockError, ConnectionError):
    """No connection to a server could be made in the time allowed."""

    code = "UNREACHABLE"
    retryable = True
    session_alive = False


class SessionGone(PaddockError):
    """The server does not have this session: it ended, its time to resume is over, or the token is not its own."""

    code = "SESSION_GONE"
    session_alive = False


class Superseded(PaddockError):
    """Another client took the session over with its token. This one has no part in it any more."""

    code = "SUPERSEDED"
    session_alive = False


class IdempotencyConflict(PaddockError):
    """A request's number was used before, for other bytes. Nothing was carried out."""

    code = "IDEMPOTENCY_CONFLICT"


class OutOfOrder(PaddockError):
    """A request's number is not the next one, or so old that its reply is not kept. Nothing was carried out now."""

    code = "OUT_OF_ORDER"


class CapacityReached(PaddockError):
    """The server holds as many sessions as it may."""

    code = "CAPACITY_REACHED"
    retryable = True
    session_alive = False


class RateLimited(PaddockError):
    """Too many requests in too little time."""

    code = "RATE_LIMITED"
    retryable = True


class Draining(PaddockError):
    """The server is going to stop and begins nothing new."""

    code = "DRAINING"
    retryable = True


class StorageFull(PaddockError, OSError):
    """What must be kept can't be written; what was written before is whole."""

    code = "STORAGE_FULL"
    retryable = True
    session_alive = False


class InvalidJournal(PaddockError, ValueError):
    """A session's journal that is none, or was changed after it was written. Nothing is rebuilt from it."""

    code = "INVALID_JOURNAL"
    session_alive = False


class Unauthenticated(PaddockError, PermissionError):
    """No token, or none that the server knows."""

    code = "UNAUTHENTICATED"
    session_alive = False


class Forbidden(PaddockError, PermissionError):
    """The token's role, or the place the request comes from, does not allow this."""

    code = "FORBIDDEN"
    session_alive = False
