"""The wall: permissions as data, and the launcher that enforces them. Nothing here imports the code that it runs.

    policy              Policy: what code behind the wall may do
    plan                Call, Exec: which wall is put around what, and what is refused
    view                which files exist inside
    launching           launch(Call | Exec, Policy): does it
    bubblewrap          the namespaces by the bwrap program; inside/namespaces.py makes them without it
    message             what the worker is told to do to itself; inside/ does it
    cgroup              limits on groups of processes
    child               Child: the whole tree that was started, how it ended, what it wrote
    cpu                 ends a worker that uses too much CPU time in a call
    plumbing, starter   descriptors and the thread that a launch needs
    machine             what this machine can enforce
    promises            what each tier therefore promises
    self_test           whether it holds: attacks from behind the wall
    workspaces          for the inside: programs beside it; siblings.py starts them
    proxy, cassette     the only way to hosts, and its record
      listener          how the proxy comes to listen inside
      visit, tunnel     one connection to it
      http1, destinations   what is understood of it, and where it may lead
    fetching            fetch(): calls the proxy from inside
    words, difference   policies for people: in plain words, and compared
    paths, plain_text   paths by name; a stranger's text without what drives a terminal

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
