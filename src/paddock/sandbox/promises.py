"""What each tier promises on this machine, as data, and the self-test: whether the wall holds here.

``doctor`` prints both, and hostile environments are scored by the promises.
"""

from __future__ import annotations

import functools
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from paddock.errors import SandboxUnavailable
from paddock.sandbox.child import is_readable
from paddock.sandbox.launching import launch
from paddock.sandbox.machine import Machine
from paddock.sandbox.plan import TIERS, Backend, Call
from paddock.sandbox.policy import CONTAINERS, DEFAULT, Policy

_OF_CONTAINER = ("namespaces", "identity", "cgroup")
_TCP_ABI, _SCOPES_ABI = 4, 6  # the versions from which Landlock knows ports, and signals and abstract sockets


@dataclass(frozen=True)
class Promise:
    """Something that code behind the wall can't do. ``by``: the layers that prevent it; ``but``: what is left open."""

    key: str
    words: str
    held: bool
    by: tuple[str, ...] = ()
    but: str = ""


def promises(tier: str, machine: Machine | None = None, policy: Policy = DEFAULT) -> list[Promise]:
    """What ``tier`` promises with ``policy`` on ``machine`` (this one). Nothing, where the tier can't be had."""
    case = _Case(tier, machine or Machine.here(), policy)
    found = [*case.files(), *case.others(), *case.amounts(), *case.rights()]
    lacks = case.machine.missing(tier)
    if lacks:
        return [replace(one, held=False, by=(), but=f"this machine lacks {lacks[0]}") for one in found]
    return [one if one.held else replace(one, by=()) for one in found]


@dataclass(frozen=True)
class _Case:
    tier: str
    machine: Machine
    policy: Policy

    def by(self, *layers: str) -> tuple[str, ...]:
        """Those of ``layers`` that the tier has here."""
        if self.contained:  # namespaces, user and cgroup are the engine's
            layers = tuple(dict.fromkeys("container" if one in _OF_CONTAINER else one for one in layers))
        return tuple(one for one in layers if one in TIERS[self.tier] and (one != "identity" or self.machine.root))

    @property
    def contained(self) -> bool:
        """Whether a container engine makes most of the wall."""
        return self.tier in CONTAINERS

    @property
    def apart(self) -> bool:
        """Whether it has files, processes and a network of its own."""
        return self.tier != "landlock"

    def cgroup(self, name: str) -> bool:
        """Whether a control group of that kind may be made here."""
        return self.contained or any(one.name == name for one in self.machine.cgroups)

    def files(self) -> Iterator[Promise]:
        by, but = self.by("namespaces", "landlock"), "" if self.apart else "names, sizes and dates of files are visible"
        yield Promise("files-hidden", "It can't read files that the policy does not name.", True, by, but)
        by, but = self.by("namespaces", "landlock", "identity"), "except those to write" if self.policy.write else ""
        yield Promise("files-kept", "It can't change files of this machine.", True, by, but)
        counted = self.tier != "podman" if self.contained else self.machine.counts_files(self.machine.launcher)
        held, but = self.apart and counted, ""
        if not self.apart:
            but = "the scratch folder is on this machine's disk; only the size of each file is limited"
        elif self.tier == "podman":
            but = "podman can't limit the number of files, only the memory that they take"
        elif not held:
            but = "bubblewrap can't limit the number of files, and this user can't make a cgroup for memory"
        yield Promise("scratch-limited", "Its scratch folder can't fill the disk.", held, self.by("namespaces"), but)

    def others(self) -> Iterator[Promise]:
        words = "It can't reach any network, this machine's own services included."
        if self.policy.hosts:
            by, but = self.by("namespaces", "landlock"), "the policy's hosts, through the proxy"
            yield Promise("no-network", words, self.apart, by, but)
        else:
            landlock = ["landlock"] if self.machine.landlock_abi >= _TCP_ABI else []
            yield Promise("no-network", words, True, self.by("namespaces", "seccomp", *landlock))
        by = self.by("seccomp", "cgroup" if self.policy.processes > 1 and self.cgroup("pids") else "limits")
        yield Promise("no-processes", "It can't start more processes than allowed.", True, by)
        # The loader of a program runs any file that it may read, and no rule for files covers a program in memory.
        but = "code that may run any program can run whatever it can read or write" if self.policy.programs else ""
        yield Promise("no-programs", "It can't run other programs.", not but, self.by("seccomp", "landlock"), but)
        held, by, but = True, self.by("namespaces", "identity", "seccomp"), ""
        if not self.apart:
            held, by = self.machine.landlock_abi >= _SCOPES_ABI, self.by("landlock", "seccomp")
            but = "which processes there are, and whose, is visible"
            but = but if held else f"signals reach other processes of this user, and {but}"
        yield Promise("neighbours-safe", "It can't see, signal or trace other processes.", held, by, but)

    def amounts(self) -> Iterator[Promise]:
        alone = self.policy.processes == 1
        held, by, but = True, self.by("cgroup"), ""
        if not self.cgroup("memory") or self.tier == "gvisor":
            # With seccomp: files in memory are not part of the address space, and are refused.
            held, by = alone, self.by("limits", "seccomp")
            but = "address space, not memory" + ("" if alone else ", and for each process by itself")
        yield Promise("memory-limited", "It can't take more memory than allowed.", held, by, but)
        held, by, but = True, self.by("cgroup", *(["limits"] if self.apart else [])), ""
        if not self.cgroup("pids"):
            held, by = self.apart, self.by("limits")
            but = "" if self.apart else "threads would be counted with all of this user's"
        yield Promise("tasks-limited", "It can't start more threads than allowed.", held, by, but)
        counted = self.contained or any(one.version == 2 or one.name == "cpuacct" for one in self.machine.cgroups)
        held, by, but = True, self.by("limits"), "" if alone else "for each process by itself"
        if not alone and not counted:
            held, but = (
                False,
                "without a cgroup, the time of children that ended and were not waited for is not counted",
            )
        elif self.policy.cpu_s is None:
            by, but = ("launch",), f"{self.policy.call_cpu_s:g} s per call; the policy sets no limit in total"
        yield Promise("cpu-limited", "It can't use more CPU time than allowed.", held, by, but)
        held = self.cgroup("cpu")
        but = "" if held else "no cgroup for the CPU may be made here"
        yield Promise("cpu-shared", "It can't take its neighbours' share of the CPU.", held, self.by("cgroup"), but)
        yield Promise("descriptors-limited", "It can't open more files than allowed.", True, self.by("limits"))
        but = (
            ""
            if self.contained or (self.apart and self.machine.root)
            else "those that it has, within its limits, count as this user's"
        )
        words = "It can't use up the timers and pipes of its user."
        yield Promise("shares-kept", words, True, self.by("limits", "seccomp"), but)

    def rights(self) -> Iterator[Promise]:
        yield Promise("kernel-narrow", "It can't call rarely used parts of the kernel.", True, self.by("seccomp"))
        but = "it stays root by name, without any of root's rights" if self.machine.root and not self.apart else ""
        yield Promise("no-privileges", "It can't gain rights.", True, ("lock",), but)
        but = "except the policy's variables" if self.policy.variables else ""
        words = "It can't see this process's environment variables and descriptors."
        yield Promise("secrets-hidden", words, True, ("launch",), but)
        held, by, but = True, self.by("namespaces"), ""
        if not self.apart:
            held, by = self.policy.processes == 1, ("lock",)
            but = "" if held else "if this process is killed, only the worker itself ends with it"
        yield Promise("ends-with-us", "It can't outlive the process that started it.", held, by, but)


# ── The self-test: a worker behind the wall attacks, and each attack must fail ──

_PROBE_S = 20.0
PUT_UP = "put up the wall"


@dataclass(frozen=True)
class Finding:
    """One attack, and what became of it."""

    attack: str
    refused: bool
    how: str  # why it failed, or what it got


def self_test(tier: str, *, layers: frozenset[str] | None = None, backend: Backend | None = None) -> list[Finding]:
    """Attack the wall of ``tier`` from behind, once per process. A wall that does not go up is a finding too."""
    with _turn(os.getpid()):
        return list(_findings(os.getpid(), tier, layers, backend))


@functools.lru_cache(maxsize=1)
def _turn(_pid: int) -> threading.Lock:
    """Threads that ask at the same time share one test. A forked process does not inherit a lock that is held."""
    return threading.Lock()


def holds(tier: str) -> bool:
    """Whether every attack on the wall of ``tier`` was refused."""
    return not Machine.here().missing(tier) and not failures(tier)


def failures(tier: str) -> list[str]:
    """The attacks on the wall of ``tier`` that were not refused, in words. For a tier that this machine can have."""
    return [f"{one.attack}: {one.how}" for one in self_test(tier) if not one.refused]


def strongest() -> str:
    """The strongest tier that passed the self-test; SandboxUnavailable if there is none."""
    reasons = []
    for tier in ("sandbox", "landlock"):  # not a container: an engine is asked for by its name
        if holds(tier):
            return tier
        lacks = Machine.here().missing(tier)
        why = f"needs {'; '.join(lacks)}" if lacks else f"did not hold: {'; '.join(failures(tier))}"
        reasons.append(f"{tier}: {why}")
    raise SandboxUnavailable(f"No wall holds on this machine. {'. '.join(reasons)}. See: paddock doctor.")


@functools.lru_cache(maxsize=32)
def _findings(_pid: int, tier: str, layers: frozenset[str] | None, backend: Backend | None) -> tuple[Finding, ...]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-canary-"))
        Path(folder, "canary").write_text("a secret of this machine")
        Path(folder).chmod(0o777)  # by its own permissions anyone may
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        near, far = socket.socketpair()
        stack.enter_context(near)
        call = Call("paddock.sandbox.inside.probe:main", (folder, listener.getsockname()[1], os.getpid()))
        policy = Policy(tier=tier)  # type: ignore[arg-type]
        try:
            with far:
                child = launch(call, policy, socket_fd=far.fileno(), layers=layers, backend=backend)
        except SandboxUnavailable as error:
            return (Finding(PUT_UP, False, str(error)),)
        with child:
            near.settimeout(_PROBE_S)
            report = b""
            try:
                while piece := near.recv(65536):
                    report += piece
            except OSError:  # it hangs: what it has reported so far does not count
                report = b""
            if not report:
                words = child.last_words()
                why = child.wall_failure or f"the probe {words}: {child.output.strip()[-500:]}"
                return (Finding(PUT_UP, False, why),)
        connected = is_readable(listener.fileno())
        reached = {"write a file": Path(folder, "written").exists(), "connect to this machine": connected}
        findings = []
        for line in report.decode().splitlines():
            attack, _, refusal = line.partition("\t")
            # The probe's word alone counts against the wall. For it, this side must not have noticed anything either.
            refused = bool(refusal) and not reached.get(attack, False)
            findings.append(Finding(attack, refused, refusal or "succeeded"))
        return tuple(findings)
