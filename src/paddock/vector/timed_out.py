"""TimedOut: a wait that the caller bounded. Apart from ``faults``, because multiprocessing is slow to import."""

from __future__ import annotations

import multiprocessing

from paddock.errors import DeadlineExceeded


class TimedOut(DeadlineExceeded, multiprocessing.TimeoutError):
    """The wait for lanes was over before their answers came; those are thrown away when they come."""

    code = "TIMED_OUT"
    session_alive = True
