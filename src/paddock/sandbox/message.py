"""The one message that a starting worker waits for: how to lock itself up, and what to do then. Plain JSON."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from paddock.errors import InvalidPolicy
from paddock.sandbox.bubblewrap import HOSTNAME
from paddock.sandbox.listener import variables as proxy_variables
from paddock.sandbox.plan import Exec, Plan
from paddock.sandbox.policy import Policy
from paddock.sandbox.view import SCRATCH, inside_path

PROXY_PORT = 3128  # where the proxy to allowed hosts listens inside
WATCHERS = 2  # processes of the wall itself that count as the worker's
MOST_BYTES = 1 << 20
_MEMLOCK_BYTES = 65536
_SIGNALS = 256  # that wait, and timers: the kernel counts them with those of the host's user
_INODES_PER_MB = 256  # of the scratch folder: an empty file costs the kernel about a kilobyte


def message(plan: Plan, *, memory_in_cgroup: bool, folder: str | None, lifeline_fd: int) -> bytes:
    """What the boot reads. ``folder``: the scratch folder of a worker without namespaces."""
    identity = _identity(plan.machine.uids) if plan.own_uid else None
    order = {
        "lock": {
            "identity": identity,
            "limits": _limits(plan, memory_in_cgroup) if "limits" in plan.layers else None,
            "landlock": _landlock(plan, folder or SCRATCH) if "landlock" in plan.layers else None,
            "seccomp": _seccomp(plan, memory_in_cgroup) if "seccomp" in plan.layers else None,
        },
        "die_with": lifeline_fd if plan.backend is None else None,
        "listen": PROXY_PORT if plan.policy.hosts else None,
        "native": _namespaces(plan, identity) if plan.backend == "native" else None,
        # bubblewrap can't limit the number of files; while the worker is still root it can do so itself.
        "limit_scratch": _scratch(plan.policy) if plan.backend == "bwrap" and plan.machine.root else None,
        "then": _then(plan, folder),
    }
    try:
        text = json.dumps(order).encode()
    except (TypeError, ValueError) as error:
        raise InvalidPolicy(f"Call(args=…) must be plain JSON: {error}.") from error
    if len(text) > MOST_BYTES:
        raise InvalidPolicy(f"What the worker is told has {len(text)} bytes; at most {MOST_BYTES} are possible.")
    return text


def first_variables(folder: str | None) -> dict[str, str]:
    """A worker's environment variables from its start. The policy's come with the wall: LD_PRELOAD would run before."""
    scratch = folder or SCRATCH
    return {"HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def _identity(uids: range) -> dict[str, int]:
    # Drawn anew for each worker: limits by user and signals must not meet a neighbour.
    uid = uids[int.from_bytes(os.urandom(8), "big") % len(uids)]
    return {"uid": uid, "gid": uid}


def _limits(plan: Plan, memory_in_cgroup: bool) -> dict[str, int | None]:
    policy = plan.policy
    return {
        # Address space says little of memory in use, and some libraries reserve a lot of it.
        "AS": None if memory_in_cgroup else policy.memory_mb << 20,
        # Counted by user: without a uid or a user namespace of its own, with everything else that this user runs.
        "NPROC": most_tasks(policy) if plan.backend is not None else None,
        "NOFILE": policy.descriptors,
        # Folders that are shared with the host have no quota, and neither have files in them.
        "FSIZE": policy.scratch_mb << 20 if not policy.write else None,
        "CPU": None if policy.cpu_s is None else math.ceil(policy.cpu_s),
        "CORE": 0,
        "MSGQUEUE": 0,
        "MEMLOCK": _MEMLOCK_BYTES,
        "SIGPENDING": _SIGNALS,
    }


def most_tasks(policy: Policy) -> int:
    """Threads and processes that may exist at once, the watchers included."""
    return policy.threads + policy.processes + WATCHERS


def _landlock(plan: Plan, scratch: str) -> dict[str, list[Any]]:
    return {
        "read": [one.target for one in plan.mounts if one.how in ("ro", "proc")],
        "list": [one.target for one in plan.mounts if one.how == "list"],
        "write": [scratch, *(one.target for one in plan.mounts if one.how == "rw")],
        "execute": [*plan.policy.programs],
        "devices": [one.target for one in plan.mounts if one.how == "dev"],
        "connect_ports": [PROXY_PORT] if plan.policy.hosts else [],
    }


def _seccomp(plan: Plan, memory_in_cgroup: bool) -> dict[str, bool]:
    return {
        "fork": plan.policy.processes > 1,
        "exec": bool(plan.policy.programs),
        "network": bool(plan.policy.hosts),
        "locks": bool(plan.policy.write),  # a lock on a file that may only be read keeps the host out of it
        "memory_files": memory_in_cgroup,  # they are no address space
    }


def _namespaces(plan: Plan, identity: dict[str, int] | None) -> dict[str, Any]:
    return {
        "parent": os.getpid(),
        "user": not plan.machine.root,
        "hostname": HOSTNAME,
        "mounts": [[one.source, one.target, one.how] for one in plan.mounts],
        "private": list(plan.private),
        "worker": [identity["uid"], identity["gid"]] if identity else [0, 0],
        "scratch": _scratch(plan.policy),
    }


def _scratch(policy: Policy) -> dict[str, int]:
    return {"size": policy.scratch_mb << 20, "inodes": max(1024, policy.scratch_mb * _INODES_PER_MB)}


def _then(plan: Plan, folder: str | None) -> dict[str, Any]:
    proxies = proxy_variables(PROXY_PORT) if plan.policy.hosts else {}
    variables = {**first_variables(folder), **proxies, **plan.policy.variables}
    if isinstance(plan.program, Exec):
        return {"exec": list(plan.program.argv), "env": variables}
    call = plan.program
    places = {name: inside_path(name, one) if plan.backend else one for name, one in call.modules.items()}
    path = plan.world.path if call.path is None else call.path
    return {"call": call.entry, "args": list(call.args), "path": list(path), "modules": places, "env": variables}
