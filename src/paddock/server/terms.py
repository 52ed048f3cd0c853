"""Terms: how much is kept for a session, and for how long. Only the last two differ from session to session."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Terms:
    """Times in seconds. ``journaled`` and ``deterministic`` together allow a lost worker to be rebuilt."""

    window: int = 8  # requests that may be unanswered, and replies that are kept
    window_bytes: int = 1 << 24  # of the replies kept; the newest is kept however large it is
    grace_s: float = 60.0  # from a broken connection to the end of the session
    deadline_s: float | None = None  # for one request
    rebuild_s: float = 60.0  # for repeating a journal
    rebuilds: int = 2  # in a row, without an answer in between: some requests end every worker
    journaled: bool = False
    deterministic: bool = False
