"""Terms: how much is kept for a session, and for how long. Only the last two differ from session to session."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

# How a worker can be lost, in one word.
OVERDUE = "overdue"  # a request took longer than its deadline; what it is answered with says so
CAUSES = frozenset(("exit", "signal", "memory", "cpu", "protocol", "closed", "ended", "violation", "timeout", OVERDUE))
CAUSES |= {"replay", "restart"}  # another chain after a rebuild; a server that went down with the environment


@dataclass(frozen=True)
class Terms:
    """Times in seconds. ``journaled`` and ``deterministic`` together allow a lost worker to be rebuilt."""

    window: int = 8  # requests that may be unanswered, and replies that are kept
    window_bytes: int = 1 << 24  # of the replies kept; the newest is kept however large it is
    grace_s: float = 60.0  # from a broken connection to the end of the session
    deadline_s: float | None = None  # for one request
    start_s: float | None = None  # for the first one, if it may take longer: its worker must start, and make
    rebuild_s: float = 60.0  # for repeating a journal
    rebuilds: int = 2  # in a row, without an answer in between; a request is repeated in one of them at most
    journaled: bool = False
    deterministic: bool = False

    def allowed_s(self, done: int) -> float:
        """How long the request after ``done`` others may take."""
        limit_s = self.deadline_s if done or self.start_s is None else self.start_s
        return inf if limit_s is None else limit_s
