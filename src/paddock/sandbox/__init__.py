"""The wall: permissions as data, and the launcher that enforces them. Nothing here imports the code that it runs.

    policy              Policy: what code behind the wall may do, in plain words too, and compared
    machine, cgroup     what this machine can enforce
    mounts              which files exist inside
    plan                Call, Exec: which wall is put around what, what is refused, and the order that the worker gets
    launching           launch(Call | Exec, Policy): does it, from a template, with bwrap or with inside/namespaces.py
    containers          workers in containers, by docker, podman and gVisor
    template            processes that fork workers in milliseconds
    inside/             what the worker does to itself before anything of the environment runs
    child               Child: the whole tree that was started, how it ended, what it wrote, its CPU time
    removal             removes what it left on the disk
    promises            what each tier promises on this machine, and whether it holds: attacks from behind the wall
    workspaces          for the inside: programs beside it, which workspace_server starts
    proxy               the only way to hosts
    http1               HTTP/1, read strictly, here and in the server
    cassette            a record of what the hosts answered
    fetching            fetch(): calls the proxy from inside
    plain_text          a stranger's text without what controls a terminal

The names below load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Policy": "paddock.sandbox.policy",
    "launch": "paddock.sandbox.launching",
    "Call": "paddock.sandbox.plan",
    "Exec": "paddock.sandbox.plan",
    "Child": "paddock.sandbox.child",
    "Machine": "paddock.sandbox.machine",
    "workspace": "paddock.sandbox.workspaces",
    "fetch": "paddock.sandbox.fetching",
}

__all__ = ["Call", "Child", "Exec", "Machine", "Policy", "fetch", "launch", "workspace"]

if TYPE_CHECKING:
    from paddock.sandbox.child import Child
    from paddock.sandbox.fetching import fetch
    from paddock.sandbox.launching import launch
    from paddock.sandbox.machine import Machine
    from paddock.sandbox.plan import Call, Exec
    from paddock.sandbox.policy import Policy
    from paddock.sandbox.workspaces import workspace


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
