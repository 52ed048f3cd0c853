"""A wall in words: what the code behind it may do and which files it sees, for ``explain``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paddock.errors import PaddockError
from paddock.making.code_files import code_of
from paddock.making.target import Target
from paddock.sandbox.plan import LAYERS, Call
from paddock.sandbox.plan import plan as plan_launch
from paddock.sandbox.policy import Policy
from paddock.sandbox.view import Mount
from paddock.sandbox.words import explain


def wall_lines(target: Target, policy: Policy) -> list[tuple[str, str]]:
    """Rows for a plan. Files are looked at, nothing is imported."""
    return [*((f"may: {line.topic}", line.text) for line in explain(policy)), *_seen(target, policy)]


def _seen(target: Target, policy: Policy) -> list[tuple[str, str]]:
    try:
        module = target.module or (None if target.spec is None else str(target.spec.entry_point).partition(":")[0])
        modules = {} if module is None or target.folder is not None else code_of(module)
        if target.folder is not None:
            policy = replace(policy, read=(*policy.read, target.folder))
        planned = plan_launch(Call("nothing", modules=modules), policy)
    except (PaddockError, ModuleNotFoundError) as error:
        return [("sees", f"unknown: {error}")]
    return [("wall", f"{planned.tier} by {_means(planned.backend, planned.layers)}"), *_mounts(planned.mounts)]


def _means(backend: str | None, layers: frozenset[str]) -> str:
    by = {"bwrap": "bubblewrap", "native": "paddock's own launcher", None: "the worker itself"}[backend]
    return f"{by}: {', '.join(one for one in LAYERS if one in layers)}"


def _mounts(mounts: Iterable[Mount]) -> list[tuple[str, str]]:
    return [("sees", _text(one)) for one in mounts if one.how != "link"]


def _text(mount: Mount) -> str:
    if mount.how == "scratch":
        return f"{mount.target} (its own, empty at the start)"
    if mount.how == "proc":
        return f"{mount.target} (its own processes)"
    kind = {"ro": "read only", "rw": "may be written", "dev": "device"}[mount.how]
    return f"{mount.source} ({kind})" if mount.source == mount.target else f"{mount.source} as {mount.target} ({kind})"
