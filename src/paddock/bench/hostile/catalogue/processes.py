"""Attacks on and by processes: forks that stay, signals to others, programs run, namespaces entered."""

from __future__ import annotations

from paddock.bench.hostile.catalogue.rows import LIVES, STAY_S, row

PROCESSES = (
    row(
        "P01",
        "forks without end",
        "env processes:ForkBomb",
        "claim",
        {"count": 20, "seconds": 8},
        neighbour=True,
        expected=frozenset({"denied", "raised"}),
        needs="no-processes",
    ),
    row("P02", "leaves a daemon behind", "env processes:Daemon", "left", {"seconds": STAY_S}, needs="no-processes"),
    row("P03", "leaves its session", "env processes:LeaveGroup", "claim", needs="neighbours-safe"),
    row(
        "P04",
        "kills another process",
        "env processes:Kill",
        "bystander",
        {"bystander": "$bystander"},
        needs="neighbours-safe",
    ),
    row("P05", "signals everyone", "env processes:KillAll", "claim", {"parent": "$parent"}, needs="neighbours-safe"),
    row(
        "P06",
        "signals its parent",
        "env processes:SignalParent",
        "signal",
        {"parent": "$parent"},
        needs="neighbours-safe",
    ),
    row(
        "P07",
        "has the kernel signal its parent",
        "env processes:SignalByFile",
        "signal",
        {"parent": "$parent"},
        expected=LIVES,
        needs="neighbours-safe",
    ),
    row(
        "P08",
        "traces another process",
        "env processes:Trace",
        "claim",
        {"bystander": "$bystander"},
        needs="neighbours-safe",
    ),
    row(
        "P09",
        "copies another's memory",
        "env processes:ReadMemory",
        "secret",
        {"bystander": "$bystander"},
        needs="secrets-hidden",
    ),
    row("P10", "becomes root of a namespace", "env processes:NestedNamespaces", "claim", needs="no-privileges"),
    row("P11", "the same by clone3", "env processes:NestedByClone", "claim", needs="no-privileges"),
    row("P12", "mounts", "env processes:Mount", "claim", control_root=True, needs="no-privileges"),
    row("P13", "changes its root folder", "env processes:Chroot", "claim", control_root=True, needs="no-privileges"),
    row("P14", "swaps its root folder", "env processes:PivotRoot", "claim", control_root=True, needs="no-privileges"),
    row("P15", "runs a setuid program", "env processes:SetuidProgram", "claim", needs="no-programs"),
    row("P16", "runs a shell", "env processes:Shell", "file", {"marker": "$marker"}, needs="no-programs"),
    row("P17", "runs a program from memory", "env processes:Memfd", "file", {"marker": "$marker"}, needs="no-programs"),
    row("P18", "becomes root", "env processes:BecomeRoot", "claim", control_root=True, needs="no-privileges"),
    row(
        "P19", "takes precedence over all", "env processes:RealTime", "claim", control_root=True, needs="no-privileges"
    ),
    row(
        "P20",
        "outlives its parent",
        "env processes:OutliveParent",
        "left",
        {"seconds": STAY_S},
        calls=("reset", "step", "abandon"),
        expected=LIVES,
        needs="ends-with-us",
    ),
    row(
        "P21",
        "names the handler of crashes",
        "env processes:CoreHandler",
        "claim",
        control_root=True,
        needs="files-kept",
    ),
    row("P22", "a wrapper runs a shell", "wrapper wrappers:Shell", "file", {"marker": "$marker"}, needs="no-programs"),
)
