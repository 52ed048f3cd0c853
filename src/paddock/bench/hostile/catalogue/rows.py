"""Short forms for the rows of the catalogue. The letter of a code is its group."""

from __future__ import annotations

from typing import Any

from paddock.bench.hostile.attack import GROUPS, Attack, Group

_GROUP: dict[str, Group] = dict(zip("FNPKRLIT", GROUPS, strict=True))

DENIED = frozenset({"denied"})
LIVES = frozenset({"denied", "contained"})  # it may do as it likes where it is alone
LATE = frozenset({"timeout"})
FALSE = frozenset({"violation"})
BROKEN = frozenset({"protocol"})
GREEDY = frozenset({"denied", "memory"})
CONTAINED = frozenset({"contained"})
ANY_END = frozenset({"timeout", "exit", "signal", "closed", "protocol", "raised", "denied", "contained", "ended"})

SHORT = {"call_s": 1.0}
SLEEP_S = 4  # well past any deadline here, and no longer than needed
STAY_S = 60  # how long a process stays that should be ended; the judge ends it at last


def row(code: str, title: str, target: str, canary: str, told: dict[str, Any] | None = None, **more: Any) -> Attack:
    """An entry; ``more`` are fields of Attack."""
    return Attack(code=code, group=_GROUP[code[0]], title=title, target=target, canary=canary, told=told or {}, **more)


def call(code: str, title: str, name: str, **more: Any) -> Attack:
    """A system call that an environment has no business with."""
    return row(code, title, "env kernel:Call", "claim", {"name": name}, **more)


def lie(code: str, title: str, what: str, **more: Any) -> Attack:
    """A result that is not what was declared."""
    return row(code, title, "env protocol:Lie", "data", {"lie": what}, **{"expected": FALSE, **more})


def sleep(code: str, title: str, moment: str, **more: Any) -> Attack:
    """A call that does not come back in time."""
    told = {"moment": moment, "seconds": SLEEP_S}
    more = {"expected": LATE, "policy": SHORT, "neighbour": True, **more}
    return row(code, title, "env resources:Sleep", "caller", told, **more)
