"""A Policy in plain words, so that who grants it knows what for. Names in it are a stranger's: odd ones are quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from paddock.sandbox.policy import Policy

# nothing: no more than computing. limit: how much of it. grant: reaches what is outside. weaker: so is the wall.
Weight = Literal["nothing", "limit", "grant", "weaker"]

_PLAIN = re.compile(r"[\w./+@:*\[\]-]+", re.ASCII)
TIERS = {
    "sandbox": "namespaces, Landlock, a list of allowed system calls, limits; not started where one is missing",
    "auto": "the strongest that this machine has, which may be Landlock alone",
    "landlock": "Landlock, a list of allowed system calls, limits; no namespaces: it sees the host's processes",
}


@dataclass(frozen=True)
class Line:
    """One topic of a policy. ``fields`` are the names of the Policy's fields that it tells."""

    topic: str
    text: str
    weight: Weight
    fields: tuple[str, ...]


def explain(policy: Policy) -> list[Line]:
    """Every field of the policy, in words; a workspace's after those of whom it serves.

    >>> [line.text for line in explain(Policy(hosts=("api.example.com:443",))) if line.topic == "network"]
    ['may reach api.example.com:443, nothing else']
    """
    lines = [
        Line(
            "wall", f"{policy.tier}: {TIERS[policy.tier]}", "limit" if policy.tier == "sandbox" else "weaker", ("tier",)
        ),
        _files(policy),
        _network(policy),
        _programs(policy),
        Line("memory", f"at most {amount('memory_mb', policy.memory_mb)}", "limit", ("memory_mb",)),
        _time(policy),
        _variables(policy),
        _devices(policy),
        _rest(policy),
        _results(policy),
        _workspaces(policy),
    ]
    if policy.workspaces and policy.workspace is not None:
        inner = explain(policy.workspace)
        lines += [Line(f"workspace: {line.topic}", line.text, line.weight, ("workspace",)) for line in inner]
    return lines


def quoted(text: str) -> str:
    """The name as it is, or in quotes with escapes if it could be taken for other words."""
    return text if _PLAIN.fullmatch(text) else ascii(text)


def listed(names: Iterable[str]) -> str:
    """Names with commas between them."""
    return ", ".join(map(quoted, names))


def amount(field: str, value: float | None) -> str:
    """A limit with its unit: the field's name tells which."""
    if value is None:
        return "no limit"
    return number(value) + {"mb": " MB", "kb": " kB", "s": " s"}.get(field.rpartition("_")[2], "")


def number(value: float) -> str:
    """All digits that tell it from other numbers, and no more."""
    return f"{value:,}".removesuffix(".0")


def _files(policy: Policy) -> Line:
    fields = ("read", "write", "scratch_mb")
    scratch = f"{amount('scratch_mb', policy.scratch_mb)} of scratch, which is gone at the end"
    if not policy.read and not policy.write:
        return Line("files", f"none of yours; {scratch}", "nothing", fields)
    read = f"may read {listed(policy.read)}; " if policy.read else ""
    if policy.write:
        return Line(
            "files", f"{read}may read and change {listed(policy.write)} on this machine; {scratch}", "grant", fields
        )
    return Line("files", f"{read}may write nothing but {scratch}", "grant", fields)


def _network(policy: Policy) -> Line:
    fields = ("hosts", "cassette")
    kept = None if policy.cassette is None else quoted(policy.cassette)
    if not policy.hosts:
        return Line("network", "none" if kept is None else f"none; answers come from {kept}", "nothing", fields)
    cassette = "" if kept is None else f"; their answers are kept in {kept}, which answers for them once it exists"
    named = [host for host in policy.hosts if not host.startswith("*:")]
    every = [f"every host on port {host[2:]}" for host in policy.hosts if host.startswith("*:")]
    reached = ", ".join([*every, *map(quoted, named)])
    return Line("network", f"may reach {reached}, nothing else{cassette}", "grant", fields)


def _programs(policy: Policy) -> Line:
    fields = ("programs", "processes", "threads")
    others = policy.processes - 1
    count = "one process" if others == 0 else f"{policy.processes:,} processes"
    run = f"may run {listed(policy.programs)}" if policy.programs else "may run none"
    text = f"{run}; {count} with at most {policy.threads:,} threads"
    return Line("programs", text, "grant" if policy.programs or others else "nothing", fields)


def _time(policy: Policy) -> Line:
    core = "as long as it likes" if policy.cpu_s is None else f"at most {amount('cpu_s', policy.cpu_s)} in all"
    call, start = amount("call_s", policy.call_s), amount("start_s", policy.start_s)
    cpu = amount("call_cpu_s", policy.call_cpu_s)
    text = f"{start} to start, {call} for each call with {cpu} of CPU time, then it is ended; computes {core}"
    return Line("time", text, "limit", ("start_s", "call_s", "call_cpu_s", "cpu_s"))


def _variables(policy: Policy) -> Line:
    if not policy.variables:
        return Line("variables", "none of your environment variables", "nothing", ("variables",))
    given = ", ".join(f"{name}={quoted(value)}" for name, value in sorted(policy.variables.items()))
    return Line("variables", f"sees {given}, and none of your own", "grant", ("variables",))


def _devices(policy: Policy) -> Line:
    if not policy.devices:
        return Line("devices", "none", "nothing", ("devices",))
    return Line(
        "devices", f"may use {listed(policy.devices)}: their drivers become part of the wall", "weaker", ("devices",)
    )


def _rest(policy: Policy) -> Line:
    output = amount("output_kb", policy.output_kb)
    text = f"at most {policy.descriptors:,} open files; {output} of what it prints is kept"
    return Line("handles", text, "limit", ("descriptors", "output_kb"))


def _results(policy: Policy) -> Line:
    low, high = policy.reward_range
    text = f"rewards from {number(low)} to {number(high)}, infos of at most {amount('info_kb', policy.info_kb)}"
    return Line("results", text, "limit", ("reward_range", "info_kb"))


def _workspaces(policy: Policy) -> Line:
    fields = ("workspaces", "workspace")
    if not policy.workspaces:
        return Line("workspaces", "none: it can't have programs run beside it", "nothing", fields)
    text = f"may have {policy.workspaces:,} started beside it, each behind a wall of its own, as follows"
    return Line("workspaces", text, "grant", fields)
