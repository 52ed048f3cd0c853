"""A wall in words: what the code behind it may do and which files it sees, for ``explain``."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.errors import PaddockError
from paddock.making.crossing import crossing, seeing
from paddock.making.plan import Plan
from paddock.sandbox.plan import LAYERS, Call
from paddock.sandbox.plan import plan as plan_launch
from paddock.sandbox.policy import Policy
from paddock.sandbox.view import Mount
from paddock.sandbox.words import explain


def wall_lines(plan: Plan, policy: Policy) -> list[tuple[str, str]]:
    """Rows for a plan. Files are looked at, nothing is imported."""
    return [*((f"may: {line.topic}", line.text) for line in explain(policy)), *_seen(plan, policy)]


def _seen(plan: Plan, policy: Policy) -> list[tuple[str, str]]:
    try:
        sent = crossing(plan)
        planned = plan_launch(Call("nothing", modules=sent.modules), seeing(sent.folder, policy))
    except (PaddockError, ModuleNotFoundError) as error:
        return [("sees", f"unknown: {error}")]
    rows = [("wall", f"{planned.tier} by {_means(planned.backend, planned.layers)}")]
    if planned.backend == "bwrap" and not planned.machine.counts_files("bwrap"):
        rows.append(
            ("not limited", "the number of files in its scratch folder: bubblewrap can't, and there is no cgroup")
        )
    return [*rows, *_mounts(planned.mounts)]


def _means(backend: str | None, layers: frozenset[str]) -> str:
    by = {"bwrap": "bubblewrap", "native": "paddock's own launcher", None: "the worker itself"}[backend]
    return f"{by}: {', '.join(one for one in LAYERS if one in layers)}"


def _mounts(mounts: Iterable[Mount]) -> list[tuple[str, str]]:
    return [("sees", _text(one)) for one in mounts if one.how not in ("link", "empty", "list")]


def _text(mount: Mount) -> str:
    if mount.how == "scratch":
        return f"{mount.target} (its own, empty at the start)"
    if mount.how == "proc":
        return f"{mount.target} (its own processes)"
    kind = {"ro": "read only", "rw": "may be written", "dev": "device"}[mount.how]
    return f"{mount.source} ({kind})" if mount.source == mount.target else f"{mount.source} as {mount.target} ({kind})"
