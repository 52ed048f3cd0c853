"""The namespaces, by bubblewrap: its command line. As root without a user namespace: in one, uid 0 stays uid 0."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from paddock.sandbox.boot_line import BOOT_END
from paddock.sandbox.view import Mount

HOSTNAME = "paddock"


def command(
    bwrap: str,
    mounts: Sequence[Mount],
    argv: Sequence[str],
    *,
    root: bool,
    scratch_bytes: int,
    info_fd: int,
) -> list[str]:
    """The arguments to run ``argv`` with a view of ``mounts``."""
    options = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not root:
        options += ["--unshare-user", "--disable-userns"]
    # The new session: without it, input can be pushed into this terminal.
    options += ["--die-with-parent", "--new-session", "--hostname", HOSTNAME, "--info-fd", str(info_fd)]
    for one, folders in with_parents(mounts):
        for folder in folders:
            options += ["--perms", "0755", "--dir", folder]  # those that it makes by itself are 0700
        options += _mount(one, scratch_bytes)
    for one in mounts:
        if one.how == "empty":
            options += ["--remount-ro", one.target]  # now that what lies in it is mounted
    # The root is a tmpfs without a limit; as an ordinary user it would be the worker's own.
    options += ["--remount-ro", "/", "--chdir", "/"]
    return [bwrap, *options, "--", *argv]


def end_orphans() -> list[int]:
    """End what bubblewrap left behind when whoever started it was killed in the middle of that; the processes' numbers.

    bubblewrap's child waits for a word of its parent, and for ever if the parent was killed before it could say it.
    """
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names are all that is wanted
        if _is_orphan(pid):
            with suppress(OSError):
                process = os.pidfd_open(int(pid))
                try:
                    if _is_orphan(pid):  # still: the number could have been given to another process
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                        found.append(int(pid))
                finally:
                    os.close(process)
    return found


def _is_orphan(pid: str) -> bool:
    """Whether it is the first process of a worker of this user's, without the bubblewrap that watches over it."""
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if BOOT_END.encode() not in command_line or b"--unshare-pid" not in command_line:
            return False
        # Bytes: what runs behind a wall chooses its own name, which need not be text.
        facts = dict(line.split(b":", 1) for line in Path(f"/proc/{pid}/status").read_bytes().split(b"\n") if line)
        numbers = facts[b"NSpid"].split()  # here, and in each namespace below
        if len(numbers) < 2 or int(numbers[-1]) != 1 or int(facts[b"Uid"].split()[1]) != os.geteuid():
            return False
        # As long as its parent lives, both have the same command line.
        return Path(f"/proc/{int(facts[b'PPid'])}/cmdline").read_bytes() != command_line
    except (OSError, KeyError, ValueError, IndexError):  # none of a stranger's words may end this look
        return False


def with_parents(mounts: Sequence[Mount]) -> Iterable[tuple[Mount, list[str]]]:
    """Each mount with the folders above it that are not there yet, outermost first."""
    there: set[str] = set()
    for one in mounts:
        above = [str(folder) for folder in reversed(PurePosixPath(one.target).parents)][1:]
        while above and above[0] in there:
            above.pop(0)
        there.update(above, (one.target,))
        yield one, above


def _mount(one: Mount, scratch_bytes: int) -> list[str]:
    if one.how == "scratch":
        return ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", one.target]
    if one.how == "empty":
        return ["--perms", "0755", "--tmpfs", one.target]
    if one.how == "proc":
        return ["--proc", one.target]
    option = {"ro": "--ro-bind", "rw": "--bind", "dev": "--dev-bind", "link": "--symlink"}[one.how]
    return [option, one.source, one.target]
