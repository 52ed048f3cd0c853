"""Makes an environment in a worker that is not as others are: for `paddock audit`, which looks whether that shows.

Only an environment that looks at the clock, the process or a stream of the whole process can tell.
"""

from __future__ import annotations

import datetime
import os
import random
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from paddock.package import parse_entry

ENTRY = "paddock.testing.perturbed:make"
_SHIFT_S = 40 * 86_400 + 12_345.678
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_FROZEN_S = 1_700_000_000.0


def make(entry: str, arguments: dict[str, Any], clock: str = "", pid: int = 0, streams: bool = False) -> Any:
    """Change this process, then make the environment.

    ``clock``: "later", or "still". ``pid``: another process number. ``streams``: seed those of the whole process.
    """
    if clock:
        _set_clocks(clock)
    if pid:
        os.getpid = lambda: pid
    if streams:
        random.seed(0)
        np.random.seed(0)
        os.urandom = lambda size: bytes(size)
    module, attribute = parse_entry(entry)
    found: Any = import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    return found(**arguments)


def _set_clocks(how: str) -> None:
    for name in _CLOCKS:
        original: Callable[[], float] = getattr(time, name)
        now = (lambda: _FROZEN_S) if how == "still" else (lambda original=original: original() + _SHIFT_S)
        setattr(time, name, now)
        setattr(time, f"{name}_ns", lambda now=now: int(now() * 1e9))
    for name in ("localtime", "gmtime"):
        parts: Callable[[float], Any] = getattr(time, name)
        setattr(time, name, lambda seconds=None, parts=parts: parts(time.time() if seconds is None else seconds))
    real = datetime.datetime

    class Clock(real):  # type: ignore[misc,valid-type]  # a class of this name, whichever it is
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.fromtimestamp(time.time(), tz)

        today = utcnow = now

    class Day(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return real.fromtimestamp(time.time()).date()

    datetime.datetime, datetime.date = Clock, Day  # type: ignore[misc]
