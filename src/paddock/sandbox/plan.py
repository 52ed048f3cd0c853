"""Decide how a program is put behind a wall: tier, layers, backend, what it sees, and the order that its worker gets.

Nothing is made or started here.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from paddock.errors import InvalidPolicy, NotPermitted, SandboxUnavailable
from paddock.sandbox.machine import Machine
from paddock.sandbox.mounts import SCRATCH, Mount, PythonWorld, in_place, inside_path, list_mounts, private
from paddock.sandbox.policy import CONTAINERS, Policy

Backend = Literal["bwrap", "native", "container"]

LAYERS = ("container", "namespaces", "identity", "limits", "cgroup", "landlock", "seccomp")
TIERS: dict[str, frozenset[str]] = {
    "sandbox": frozenset(LAYERS) - {"container"},
    "landlock": frozenset(("limits", "cgroup", "landlock", "seccomp")),
    **dict.fromkeys(CONTAINERS, frozenset(("container", "limits", "seccomp"))),  # the engine makes the others
}
HOSTNAME = "paddock"  # of this machine, inside
PROXY_PORT = 3128  # where the proxy to allowed hosts listens inside
MOST_BYTES = 1 << 20  # of an order
_WATCHERS = 2  # processes of the wall itself that count as the worker's
_MEMLOCK_BYTES = 65536
_SIGNALS = 256  # that wait, and timers: the kernel counts them with those of the host's user
_INODES_PER_MB = 256  # of the scratch folder: an empty file costs the kernel about a kilobyte

# The line of Python that a worker starts with: ``python -I -S -c BOOT <fd>``. It must not import the real ``paddock``
# package, which would load far more than the wall needs. So it makes bare packages that know only where their modules
# are; inside/boot.py removes them once the wall is up. sys.path stays Python's own library: what lies beside paddock,
# in site-packages for instance, can't be imported yet.
HOME = str(Path(__file__).parents[1])  # the folder `paddock` itself
BOOT_END = "from paddock.sandbox.inside.boot import main; main()"
BOOT = (
    f"import sys; home = {HOME!r}; M = type(sys); p, s = M('paddock'), M('paddock.sandbox'); "
    "p.__path__, s.__path__ = [home], [home + '/sandbox']; "
    "sys.modules.update({'paddock': p, 'paddock.sandbox': s}); " + BOOT_END
)


@dataclass(frozen=True)
class Call:
    """A Python worker: ``entry`` ("module:function") is called with ``args`` when the wall is up.

    ``modules``: top-level names and the files or package folders of this machine that they are. ``path``: sys.path of
    the worker; None is this interpreter's standard library and site-packages, and paddock. ``preload``: a module of
    paddock's own that a template imports before it forks the worker.
    """

    entry: str
    args: tuple[Any, ...] = ()  # as JSON
    modules: Mapping[str, str] = field(default_factory=dict)
    path: Sequence[str] | None = None
    preload: str | None = None


@dataclass(frozen=True)
class Exec:
    """A program, by its absolute path. With ``stdio`` the socket is its standard input and output too."""

    argv: tuple[str, ...]
    stdio: bool = False


@dataclass(frozen=True)
class Plan:
    """What will be started, and behind what."""

    program: Call | Exec
    policy: Policy
    tier: str
    layers: frozenset[str]
    machine: Machine
    backend: Backend | None  # None: without namespaces
    world: PythonWorld
    mounts: tuple[Mount, ...]
    private: tuple[str, ...]  # targets that the worker's uid could not use as they are
    forked: bool  # from a template, not started as an interpreter of its own


def plan(
    program: Call | Exec, policy: Policy, *, layers: frozenset[str] | None = None, backend: Backend | None = None
) -> Plan:
    """How ``launch`` would start ``program``: errors and ``mounts`` are the same. Tier "auto" runs the self-test."""
    machine, tier = Machine.here(), str(policy.tier)
    if tier == "auto":
        from paddock.sandbox.promises import strongest

        tier = strongest()
    chosen = _layers(tier, layers, policy, machine)
    world = PythonWorld.here()
    program = _resolve_program(program, policy)
    modules = program.modules if isinstance(program, Call) else {}
    mounts = list_mounts(policy, world, modules, program=isinstance(program, Exec))
    own_user = "container" in chosen or (machine.root and {"namespaces", "identity"} <= chosen)
    hidden = private(mounts) if own_user else []
    forked = layers is None and backend is None and not hidden and _can_fork(program, policy, machine, chosen)
    means = _backend(machine, chosen, "native" if forked else backend, hidden)
    if means is None:
        mounts = in_place(mounts)  # the scratch folder is made when it is needed
    return Plan(program, policy, tier, chosen, machine, means, world, tuple(mounts), tuple(hidden), forked)


def _can_fork(program: Call | Exec, policy: Policy, machine: Machine, layers: frozenset[str]) -> bool:
    """Whether a template can fork this worker: it runs paddock's own code until the wall is up, in our interpreter."""
    if (
        policy.fresh
        or "container" in layers
        or (isinstance(program, Call) and (program.path is not None or program.entry[:8] != "paddock."))
    ):
        return False
    if "namespaces" in layers:
        return machine.root or not machine.only_bwrap
    return policy.processes == 1  # without a pid namespace only its parent could safely end what it started


def _layers(tier: str, layers: frozenset[str] | None, policy: Policy, machine: Machine) -> frozenset[str]:
    if layers is None:
        layers = TIERS[tier]
        lacks = machine.missing(tier)
        if lacks:
            other = " Policy(tier='auto') takes the strongest that works here." if tier == "sandbox" else ""
            raise SandboxUnavailable(f"tier={tier!r} needs {'; '.join(lacks)}. See: paddock doctor.{other}")
    elif layers - set(LAYERS):
        raise InvalidPolicy(f"There is no layer {min(layers - set(LAYERS))!r}. There are: {', '.join(LAYERS)}.")
    if policy.hosts and not layers & {"namespaces", "container"}:
        raise SandboxUnavailable(
            "Policy(hosts=…) needs tier='sandbox': without a network of its own, a port here is the same port anywhere."
        )
    if tier == "gvisor":
        for name in ("hosts", "devices", "workspaces"):
            if getattr(policy, name):
                raise SandboxUnavailable(
                    f"Policy({name}=…) needs another tier: gVisor's kernel passes nothing of the kind through. Use "
                    f"tier='sandbox', 'docker' or 'podman'."
                )
    return layers


def _backend(machine: Machine, layers: frozenset[str], backend: Backend | None, hidden: list[str]) -> Backend | None:
    if "container" in layers:
        if hidden:
            raise InvalidPolicy(f"A container can't show {hidden[0]!r}, which is private to its owner: chmod o+rX it.")
        return "container"
    if "namespaces" not in layers:
        return None
    if backend == "bwrap" and machine.bwrap is None:
        raise SandboxUnavailable("bubblewrap 0.8 or later is not installed: apt-get install bubblewrap")
    if backend == "bwrap" and hidden:
        raise InvalidPolicy(
            f"bubblewrap can't show {hidden[0]!r}, which is private to its owner. Drop backend='bwrap'."
        )
    if backend is not None:
        return backend
    # Files that only root may use are shown to the worker by mapping their owner, which bubblewrap can't.
    return "native" if hidden else machine.launcher


def _resolve_program(program: Call | Exec, policy: Policy) -> Call | Exec:
    """A program must be among the policy's, and is started by the name that it has there."""
    if isinstance(program, Call):
        return program
    wanted = os.path.realpath(program.argv[0]) if program.argv else ""
    for one in policy.programs:
        if os.path.realpath(one) == wanted:
            return Exec((one, *program.argv[1:]), program.stdio)
    raise NotPermitted(f"The program {program.argv[:1]} is not among Policy(programs={policy.programs}).")


def write_order(plan: Plan, *, memory_in_cgroup: bool, folder: str | None, lifeline_fd: int) -> bytes:
    """The one message that a starting worker waits for: how to lock itself up, and what to do then. Plain JSON.

    ``folder``: the scratch folder of a worker without namespaces.
    """
    policy = plan.policy
    identity: dict[str, int] | None = None
    if plan.backend is not None and plan.machine.root and "identity" in plan.layers:  # not in a user namespace
        # A new one for each worker: limits by user and signals must not meet a neighbour.
        uid = plan.machine.uids[int.from_bytes(os.urandom(8), "big") % len(plan.machine.uids)]
        identity = {"uid": uid, "gid": uid}
    scratch = {"size": policy.scratch_mb << 20, "inodes": scratch_inodes(policy)}
    namespaces = {
        "parent": os.getpid(),
        "user": not plan.machine.root,
        "hostname": HOSTNAME,
        "mounts": [[one.source, one.target, one.how] for one in plan.mounts],
        "private": list(plan.private),
        "worker": [identity["uid"], identity["gid"]] if identity else [0, 0],
        "scratch": scratch,
    }
    proxies = proxy_variables(PROXY_PORT) if policy.hosts else {}
    then: dict[str, Any] = {"env": {**first_variables(folder), **proxies, **policy.variables}}
    if isinstance(plan.program, Exec):
        then["exec"] = list(plan.program.argv)
    else:
        call = plan.program
        places = {name: inside_path(name, one) if plan.backend else one for name, one in call.modules.items()}
        path = plan.world.path if call.path is None else call.path
        then.update(call=call.entry, args=list(call.args), path=list(path), modules=places)
    order = {
        "lock": {"identity": identity, **_layer_settings(plan, memory_in_cgroup, folder or SCRATCH)},
        "die_with": lifeline_fd if plan.backend is None and not plan.forked else None,
        "listen": PROXY_PORT if policy.hosts else None,
        "native": namespaces if plan.backend == "native" else None,
        # bubblewrap can't limit the number of files; while the worker is still root it can do so itself.
        "limit_scratch": scratch if plan.backend == "bwrap" and plan.machine.root else None,
        "then": then,
    }
    try:
        text = json.dumps(order).encode()
    except (TypeError, ValueError) as error:
        raise InvalidPolicy(f"Call(args=…) must be plain JSON: {error}.") from error
    if len(text) > MOST_BYTES:
        raise InvalidPolicy(f"The order to the worker has {len(text)} bytes; at most {MOST_BYTES} are possible.")
    return text


def _layer_settings(plan: Plan, memory_in_cgroup: bool, scratch: str) -> dict[str, Any]:
    """What each layer of ``inside/lock.py`` is set to; None for one that was not asked for."""
    policy = plan.policy
    limits = {
        # Address space says little about memory in use, and some libraries reserve a lot of it.
        "AS": None if memory_in_cgroup else policy.memory_mb << 20,
        # Counted by user: without a uid or a user namespace of its own, with everything else that this user runs.
        "NPROC": most_tasks(policy) if plan.backend in ("bwrap", "native") else None,
        "NOFILE": policy.descriptors,
        # Folders that are shared with the host have no quota, and neither have files in them.
        "FSIZE": policy.scratch_mb << 20 if not policy.write else None,
        "CPU": None if policy.cpu_s is None else math.ceil(policy.cpu_s),
        "CORE": 0,
        "MSGQUEUE": 0,
        "MEMLOCK": _MEMLOCK_BYTES,
        "SIGPENDING": _SIGNALS,
    }
    if plan.tier == "gvisor":  # whose kernel shares neither with this machine, and refuses to limit them
        limits.update(MSGQUEUE=None, SIGPENDING=None)
    landlock = {
        "read": [one.target for one in plan.mounts if one.how in ("ro", "proc")],
        "list": [one.target for one in plan.mounts if one.how == "list"],
        "write": [scratch, *(one.target for one in plan.mounts if one.how == "rw")],
        "execute": [*policy.programs],
        "devices": [one.target for one in plan.mounts if one.how == "dev"],
        "connect_ports": [PROXY_PORT] if policy.hosts else [],
    }
    seccomp = {
        "fork": policy.processes > 1,
        "exec": bool(policy.programs),
        "network": bool(policy.hosts),
        "locks": bool(policy.write),  # a lock on a file that may only be read keeps the host out of it
        "memory_files": memory_in_cgroup,  # they are not part of the address space
    }
    settings = {"limits": limits, "landlock": landlock, "seccomp": seccomp}
    return {name: one if name in plan.layers else None for name, one in settings.items()}


def first_variables(folder: str | None) -> dict[str, str]:
    """A worker's environment variables from its start. The policy's come with the wall: LD_PRELOAD would run before."""
    scratch = folder or SCRATCH
    return {"HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def most_tasks(policy: Policy) -> int:
    """Threads and processes that may exist at once, the wall's own included."""
    return policy.threads + policy.processes + _WATCHERS


def scratch_inodes(policy: Policy) -> int:
    """Files that may exist in the scratch folder."""
    return max(1024, policy.scratch_mb * _INODES_PER_MB)


def proxy_variables(port: int) -> dict[str, str]:
    """The environment variables by which programs inside find the proxy on ``port`` of their loopback."""
    url = f"http://127.0.0.1:{port}"
    named = {name: url for lower in ("http_proxy", "https_proxy", "all_proxy") for name in (lower, lower.upper())}
    # PADDOCK_PROXY is for our own fetch: it asks for https in absolute form, which no other proxy would understand.
    return {**named, "no_proxy": "", "NO_PROXY": "", "PADDOCK_PROXY": url}
