"""What each tier promises on this machine, as data. ``doctor`` prints it, and hostile environments are scored by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paddock.sandbox.machine import Machine
from paddock.sandbox.plan import TIERS
from paddock.sandbox.policy import DEFAULT, Policy

_TCP_ABI, _SCOPES_ABI = 4, 6  # from which Landlock knows ports, and signals and abstract sockets


@dataclass(frozen=True)
class Promise:
    """Something that code behind the wall can't do. ``by``: the layers that see to it; ``but``: what is left open."""

    key: str
    words: str
    held: bool
    by: tuple[str, ...] = ()
    but: str = ""


def promises(tier: str, machine: Machine | None = None, policy: Policy = DEFAULT) -> list[Promise]:
    """What ``tier`` promises with ``policy`` on ``machine`` (this one). None are held where the tier can't be had."""
    machine = machine or Machine.here()
    lacks = machine.missing(tier)
    if lacks:
        return [Promise(key, words, False, but=f"this machine lacks {lacks[0]}") for key, words, _ in _TABLE]
    kept = []
    for key, words, judge in _TABLE:
        held, by, but = judge(_Case(tier, machine, policy))
        kept.append(Promise(key, words, held, by if held else (), but))
    return kept


@dataclass(frozen=True)
class _Case:
    tier: str
    machine: Machine
    policy: Policy

    def by(self, *layers: str) -> tuple[str, ...]:
        """Those of ``layers`` that the tier has here."""
        return tuple(one for one in layers if one in TIERS[self.tier] and (one != "identity" or self.machine.root))

    @property
    def apart(self) -> bool:
        """Whether it has files, processes and a network of its own."""
        return self.tier == "sandbox"

    def cgroup(self, name: str) -> bool:
        return any(one.name == name for one in self.machine.cgroups)


_Judged = tuple[bool, tuple[str, ...], str]


def _files_hidden(case: _Case) -> _Judged:
    but = "" if case.apart else "names, sizes and dates of files can be asked for"
    return True, case.by("namespaces", "landlock"), but


def _files_kept(case: _Case) -> _Judged:
    return True, case.by("namespaces", "landlock", "identity"), "but those to write" if case.policy.write else ""


def _scratch(case: _Case) -> _Judged:
    if not case.apart:
        return False, (), "the scratch folder is one of this machine's disk; only the size of each file is limited"
    if case.machine.counts_files(case.machine.launcher):
        return True, case.by("namespaces"), ""
    return False, (), "bubblewrap can't limit the number of files, and this user may make no cgroup for memory"


def _network(case: _Case) -> _Judged:
    if case.policy.hosts:
        return case.apart, case.by("namespaces", "landlock"), "the policy's hosts, through the proxy"
    layers = ["namespaces", "seccomp", *(["landlock"] if case.machine.landlock_abi >= _TCP_ABI else [])]
    return True, case.by(*layers), ""


def _processes(case: _Case) -> _Judged:
    most = case.policy.processes
    return True, case.by("seccomp", "cgroup" if most > 1 and case.cgroup("pids") else "limits"), ""


def _programs(case: _Case) -> _Judged:
    if case.policy.programs:
        # Their loader runs any file that it may read, and no rule for files holds for a program in memory.
        return False, (), "one that may run programs at all can run whatever it can read or write"
    return True, case.by("seccomp", "landlock"), ""


def _neighbours(case: _Case) -> _Judged:
    if case.apart:
        return True, case.by("namespaces", "identity", "seccomp"), ""
    seen = "which processes there are, and whose, can be asked for"
    if case.machine.landlock_abi < _SCOPES_ABI:
        return False, (), f"signals reach other processes of this user, and {seen}"
    return True, case.by("landlock", "seccomp"), seen


def _memory(case: _Case) -> _Judged:
    if case.cgroup("memory"):
        return True, case.by("cgroup"), ""
    alone = case.policy.processes == 1
    but = "address space, not memory" + ("" if alone else ", and of each process by itself")
    return alone, case.by("limits", "seccomp"), but  # without files in memory, which are no address space


def _tasks(case: _Case) -> _Judged:
    if case.cgroup("pids"):
        return True, case.by("cgroup", *(["limits"] if case.apart else [])), ""
    return case.apart, case.by("limits"), "" if case.apart else "threads would be counted with all of this user's"


def _cpu(case: _Case) -> _Judged:
    counted = any(one.version == 2 or one.name == "cpuacct" for one in case.machine.cgroups)
    if case.policy.processes > 1 and not counted:
        return False, (), "without a cgroup, time of children that ended and were not waited for is not counted"
    if case.policy.cpu_s is None:
        return True, ("launch",), f"{case.policy.call_cpu_s:g} s in each call; the policy sets no limit for all of them"
    return True, case.by("limits"), "of each process by itself" if case.policy.processes > 1 else ""


def _share(case: _Case) -> _Judged:
    return case.cgroup("cpu"), case.by("cgroup"), "" if case.cgroup("cpu") else "no cgroup for the CPU may be made here"


def _descriptors(case: _Case) -> _Judged:
    return True, case.by("limits"), ""


def _shares(case: _Case) -> _Judged:
    alone = case.apart and case.machine.root
    return (
        True,
        case.by("limits", "seccomp"),
        "" if alone else "those that it has, within its limits, count as this user's",
    )


def _kernel(case: _Case) -> _Judged:
    return True, case.by("seccomp"), ""


def _privileges(case: _Case) -> _Judged:
    root = case.machine.root and not case.apart
    return True, ("lock",), "it stays root by name, without any of root's rights" if root else ""


def _secrets(case: _Case) -> _Judged:
    return True, ("launch",), "but the policy's variables" if case.policy.variables else ""


def _ends(case: _Case) -> _Judged:
    if case.apart:
        return True, case.by("namespaces"), ""
    alone = case.policy.processes == 1
    return alone, ("lock",), "" if alone else "if this process is killed, only the worker itself ends with it"


_TABLE: tuple[tuple[str, str, Callable[[_Case], _Judged]], ...] = (
    ("files-hidden", "It can't read files that the policy does not name.", _files_hidden),
    ("files-kept", "It can't change files of this machine.", _files_kept),
    ("scratch-limited", "Its scratch folder can't fill the disk.", _scratch),
    ("no-network", "It can't reach any network, this machine's own services included.", _network),
    ("no-processes", "It can't start more processes than allowed.", _processes),
    ("no-programs", "It can't run other programs.", _programs),
    ("neighbours-safe", "It can't see, signal or trace other processes.", _neighbours),
    ("memory-limited", "It can't take more memory than allowed.", _memory),
    ("tasks-limited", "It can't start more threads than allowed.", _tasks),
    ("cpu-limited", "It can't use more CPU time than allowed.", _cpu),
    ("cpu-shared", "It can't take its neighbours' share of the CPU.", _share),
    ("descriptors-limited", "It can't open more files than allowed.", _descriptors),
    ("shares-kept", "It can't use up the timers and pipes of its user.", _shares),
    ("kernel-narrow", "It can't call rarely used parts of the kernel.", _kernel),
    ("no-privileges", "It can't gain rights.", _privileges),
    ("secrets-hidden", "It can't see this process's environment variables and descriptors.", _secrets),
    ("ends-with-us", "It can't outlive the process that started it.", _ends),
)
