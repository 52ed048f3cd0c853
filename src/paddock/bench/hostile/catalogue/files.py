"""Attacks on files: secrets read, files left or changed, disks filled. Only planted files are ever touched."""

from __future__ import annotations

from paddock.bench.hostile.catalogue.rows import GREEDY, LIVES, row

_SMALL = {"scratch_mb": 16, "memory_mb": 512}

FILES = (
    row("F01", "reads the shadow file", "env files:ReadFile", "secret", {"path": "/etc/shadow"}, control_root=True),
    row("F02", "reads a file in the user's home", "env files:ReadFile", "secret", {"path": "$secret"}),
    row("F03", "reads the user's ssh key", "env files:ReadFile", "secret", {"path": "$key"}),
    row("F04", "reads a neighbour's scratch file", "env files:ReadFile", "secret", {"path": "$scratch"}),
    row(
        "F05",
        "searches the disk for a key",
        "env files:ReadEverywhere",
        "secret",
        {"name": "id_ed25519", "places": ["$home"]},
    ),
    row("F06", "climbs out by .. and by links", "env files:Traverse", "secret", {"path": "$secret"}),
    row(
        "F07",
        "reads through the root of other processes",
        "env files:OthersRoot",
        "secret",
        {"path": "$secret", "bystander": "$bystander"},
    ),
    row("F08", "reads others' variables", "env files:OthersEnvironment", "secret", {"bystander": "$bystander"}),
    row("F09", "reads another process's memory", "env files:OthersMemory", "secret", {"bystander": "$bystander"}),
    row("F10", "reads descriptors left open", "env files:InheritedDescriptors", "secret", control="none"),
    row("F11", "leaves a file", "env files:WriteFile", "file", {"folders": ["$out"], "name": "$name"}),
    row("F12", "changes the user's file", "env files:ChangeFile", "file", {"path": "$secret"}),
    row(
        "F13",
        "swaps a folder for a link out of it",
        "env files:SwapLink",
        "file",
        {"shared": "$shared", "outside": "$outside", "name": "$name"},
        policy={"write": ["$shared"]},
    ),
    row("F14", "gives a secret a second name", "env files:HardLink", "file", {"path": "$secret", "name": "$name"}),
    row(
        "F15",
        "makes a device file",
        "env files:MakeDevice",
        "claim",
        {"folder": "$out", "name": "$name"},
        control_root=True,
    ),
    row(
        "F16", "opens a file by its number", "env files:OpenByHandle", "secret", {"path": "$secret"}, control_root=True
    ),
    row(
        "F17",
        "fills the disk",
        "env files:FillDisk",
        "claim",
        {"folders": ["$out"], "name": "$name", "megabytes": 48},
        policy=_SMALL,
        expected=GREEDY,
        needs="disk",
    ),
    row(
        "F18",
        "makes thousands of files",
        "env files:ManyFiles",
        "file",
        {"folder": "$out", "name": "$name", "count": 3000},
        expected=LIVES,
    ),
    row(
        "F19",
        "makes a file of a terabyte that is not there",
        "env files:SparseFile",
        "claim",
        {"folder": "$out", "name": "$name", "gigabytes": 1024},
        expected=frozenset({"denied", "signal"}),
        needs="disk",
    ),
    row("F20", "a wrapper reads a secret", "wrapper wrappers:ReadFile", "secret", {"path": "$secret"}),
    row(
        "F21",
        "opens the kernel's settings for writing",
        "env files:OpenForWriting",
        "claim",
        {"paths": ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"]},
        control_root=True,
    ),
)
