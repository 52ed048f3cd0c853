"""What the calling process can see of itself: its descriptors, its children, its memory, whether it was changed."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attacks.tampering import MARK
from paddock.bench.hostile.host_state import descendants

# What the user keeps in memory; an attack that runs in the same process can find it.
LEDGER = {"hostile ledger": ["mine"]}


@dataclass(frozen=True)
class Look:
    """The process at one moment."""

    descriptors: tuple[str, ...]
    children: int
    peak_mb: float
    entry: Any
    environment: tuple[str, ...]
    path: tuple[str, ...]


def look() -> Look:
    """How things are now."""
    return Look(descriptors(), len(descendants(os.getpid())), peak_mb(), _entry(), tuple(os.environ), tuple(sys.path))


def tidy(before: Look, patience_s: float) -> tuple[float, list[str]]:
    """How long it took until nothing of the environment was left, and what is left if that was too long."""
    began = time.monotonic()
    while True:
        left = _left(before)
        if not left or time.monotonic() - began > patience_s:
            return time.monotonic() - began, left
        time.sleep(0.01)


def _left(before: Look) -> list[str]:
    # By number: a pool of workers that stand ready may have replaced one of them.
    children = descendants(os.getpid())
    found = [f"process {pid} {name}" for pid, name in children.items()] if len(children) > before.children else []
    here = descriptors()
    if len(here) > len(before.descriptors):
        found += [f"descriptor {kind}" for kind in here if kind not in before.descriptors] or ["descriptors"]
    return found


def descriptors() -> tuple[str, ...]:
    """What this process has open, in words."""
    names = []
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - its own descriptor is gone when it is read
        try:
            names.append(str(Path(f"/proc/self/fd/{entry}").readlink()))
        except OSError:
            continue
    return tuple(sorted(names))


def peak_mb() -> float:
    """The most memory that this process has had so far."""
    for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def tampered(before: Look, module: str | None) -> list[str]:
    """What an environment has changed in this process; ``module`` must not have been imported."""
    import builtins

    found = []
    if _entry() != before.entry:
        found.append(f"the registry makes {_entry()!r} for CartPole-v1")
    if hasattr(json, "hostile") or hasattr(builtins, "hostile") or MARK in sys.modules:
        found.append("modules were changed")
    if MARK in os.environ or f"/{MARK}" in sys.path:
        found.append("the process's surroundings were changed")
    if LEDGER["hostile ledger"] != ["mine"]:
        found.append("the user's results were changed")
    if module is not None and module in sys.modules:
        found.append(f"{module} was imported here")
    return found


def _entry() -> Any:
    from paddock.core.registry import registry

    spec = dict.get(registry, "CartPole-v1")
    return None if spec is None else spec.entry_point
