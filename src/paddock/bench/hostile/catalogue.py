"""The catalogue: every attack, in the order of its groups and codes.

Without a wall each must hit its canary (``control``), else it would prove nothing; the few that can't say why.
"""

from __future__ import annotations

from paddock.bench.hostile.attack import ENTRIES, GROUPS, Attack
from paddock.bench.hostile.attacks import (  # noqa: F401 - each enters its attacks when it is imported
    files,
    imports,
    kernel,
    network,
    processes,
    protocol,
    resources,
    tampering,
)

ATTACKS: tuple[Attack, ...] = tuple(sorted(ENTRIES, key=lambda entry: (GROUPS.index(entry.group), entry.code)))
