"""Attacks on the kernel's rarely used doors. All arguments are invalid: being looked at is already a hit."""

from __future__ import annotations

from paddock.bench.hostile.catalogue.rows import call, row

_NO_MODULES = "this kernel may have been built without it, and then answers as a wall does"

KERNEL = (
    call("K01", "asks for an io_uring", "io_uring_setup"),
    call("K02", "loads a program for the kernel (bpf)", "bpf"),
    call("K03", "reads the session's keys", "keyctl"),
    call("K04", "listens to the processor (perf_event_open)", "perf_event_open"),
    call("K05", "handles page faults (userfaultfd)", "userfaultfd"),
    call("K06", "loads another kernel", "kexec_load", control=None, not_shown=_NO_MODULES),
    call("K07", "loads a module", "init_module", control=None, not_shown=_NO_MODULES),
    call("K08", "sets the clock", "clock_settime"),
    call("K09", "adds swap space", "swapon", control_root=True),
    call("K10", "reboots", "reboot", control_root=True),
    row(
        "K11", "types for the user", "env kernel:TypeForUser", "terminal", {"terminal": "$terminal"}, control_root=True
    ),
    call("K12", "enters another's namespace", "setns"),
    call("K13", "reads the kernel's messages", "syslog", control_root=True),
    call("K14", "writes accounts of all processes", "acct", control_root=True),
    call("K15", "watches all files (fanotify)", "fanotify_init", control_root=True),
    call("K16", "changes quotas", "quotactl"),
    call("K17", "renames the host", "sethostname", control_root=True),
    row(
        "K18",
        "makes 32-bit calls",
        "env kernel:OtherInstructionSet",
        "claim",
        expected=frozenset({"denied", "signal"}),
    ),
    row(
        "K19",
        "makes x32 calls",
        "env kernel:LongNumbers",
        "claim",
        expected=frozenset({"denied", "signal"}),
        control=None,
        not_shown="most kernels are built without x32, and then answer as a wall does",
    ),
    row(
        "K20",
        "opens the kernel's devices",
        "env kernel:OpenDevice",
        "claim",
        {"paths": ["/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/fuse", "/proc/kcore", "/dev/net/tun"]},
        control_root=True,
    ),
    row("K21", "sets up a ring of its own", "env kernel:Ring", "claim"),
)
