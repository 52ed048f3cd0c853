"""Decide how a program is put behind a wall: tier, layers, backend, what it sees. Nothing is made or started here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.errors import InvalidPolicy, NotPermitted, SandboxUnavailable
from paddock.sandbox.machine import Machine
from paddock.sandbox.policy import Policy
from paddock.sandbox.view import Mount, PythonWorld, in_place, private, view_of

Backend = Literal["bwrap", "native"]

LAYERS = ("namespaces", "identity", "limits", "cgroup", "landlock", "seccomp")
TIERS: dict[str, frozenset[str]] = {
    "sandbox": frozenset(LAYERS),
    "landlock": frozenset(("limits", "cgroup", "landlock", "seccomp")),
}


@dataclass(frozen=True)
class Call:
    """A Python worker: ``entry`` ("module:function") is called with ``args`` when the wall is up.

    ``modules``: top-level names and the files or package folders of this machine that they are. ``path``: sys.path of
    the worker; None is this interpreter's standard library and site-packages, and paddock.
    """

    entry: str
    args: tuple[Any, ...] = ()  # as JSON
    modules: Mapping[str, str] = field(default_factory=dict)
    path: Sequence[str] | None = None


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

    @property
    def own_uid(self) -> bool:
        """Whether the worker gets a uid that no other process has; in a user namespace it can't."""
        return self.backend is not None and self.machine.root and "identity" in self.layers


def plan(
    program: Call | Exec,
    policy: Policy,
    *,
    layers: frozenset[str] | None = None,
    backend: Backend | None = None,
) -> Plan:
    """How ``launch`` would start ``program``: errors and ``mounts`` are the same. Tier "auto" runs the self-test."""
    machine = Machine.here()
    tier = _tier(policy)
    chosen = _layers(tier, layers, policy, machine)
    world = PythonWorld.here()
    program = _permitted(program, policy)
    modules = program.modules if isinstance(program, Call) else {}
    mounts = view_of(policy, world, modules, program=isinstance(program, Exec))
    hidden = private(mounts) if machine.root and {"namespaces", "identity"} <= chosen else []
    means = _backend(machine, chosen, backend, hidden)
    if means is None:
        mounts = in_place(mounts)  # the scratch folder is made when it is needed
    return Plan(program, policy, tier, chosen, machine, means, world, tuple(mounts), tuple(hidden))


def _tier(policy: Policy) -> str:
    if policy.tier != "auto":
        return policy.tier
    from paddock.sandbox.self_test import strongest

    return strongest()


def _layers(tier: str, asked: frozenset[str] | None, policy: Policy, machine: Machine) -> frozenset[str]:
    if asked is None:
        asked = TIERS[tier]
        lacks = machine.missing(tier)
        if lacks:
            other = " Policy(tier='auto') takes the strongest that works here." if tier == "sandbox" else ""
            raise SandboxUnavailable(f"tier={tier!r} needs {'; '.join(lacks)}. See: paddock doctor.{other}")
    elif asked - set(LAYERS):
        raise InvalidPolicy(f"There is no layer {min(asked - set(LAYERS))!r}. There are: {', '.join(LAYERS)}.")
    if policy.hosts and "namespaces" not in asked:
        raise SandboxUnavailable(
            "Policy(hosts=…) needs tier='sandbox': without a network of its own, a port here is the same port anywhere."
        )
    return asked


def _backend(machine: Machine, layers: frozenset[str], asked: Backend | None, hidden: list[str]) -> Backend | None:
    if "namespaces" not in layers:
        return None
    if asked == "bwrap" and machine.bwrap is None:
        raise SandboxUnavailable("bubblewrap 0.8 or later is not installed: apt-get install bubblewrap")
    if asked == "bwrap" and hidden:
        raise InvalidPolicy(
            f"bubblewrap can't show {hidden[0]!r}, which is private to its owner. Drop backend='bwrap'."
        )
    if asked is not None:
        return asked
    # Files that only root may use are shown to the worker by mapping their owner, which bubblewrap can't.
    return "native" if hidden else machine.launcher


def _permitted(program: Call | Exec, policy: Policy) -> Call | Exec:
    """A program must be among the policy's, and is started by the name that it has there."""
    if isinstance(program, Call):
        return program
    wanted = os.path.realpath(program.argv[0]) if program.argv else ""
    for one in policy.programs:
        if os.path.realpath(one) == wanted:
            return Exec((one, *program.argv[1:]), program.stdio)
    raise NotPermitted(f"The program {program.argv[:1]} is not among Policy(programs={policy.programs}).")
