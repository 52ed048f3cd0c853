"""The namespaces, by bubblewrap: its command line. As root without a user namespace: in one, uid 0 stays uid 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

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
