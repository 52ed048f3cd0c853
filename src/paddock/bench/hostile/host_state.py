"""The host seen from outside: processes that descend from one, and what a sandbox may leave behind it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_GROUPS = Path("/sys/fs/cgroup")
_SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not written to


def _processes() -> Iterator[tuple[int, int, str, str]]:
    """All there are: number, parent, state, name."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - hot: asked every few milliseconds
        if entry.isdigit():
            with suppress(OSError, ValueError):
                text = Path(f"/proc/{entry}/stat").read_text()
                name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
                yield int(entry), int(rest[1]), rest[0], name


def dead_children() -> set[int]:
    """Children of this process that have ended and that nobody has waited for."""
    own = os.getpid()
    return {pid for pid, parent, state, _ in _processes() if parent == own and state == "Z"}


def reap(pids: set[int]) -> None:
    """Let these dead children go."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def descendants(pid: int) -> dict[int, str]:
    """The live processes below ``pid``, by number, with their names."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for child, parent, state, name in _processes():
        if state not in "ZX":
            parents.setdefault(parent, []).append((child, name))
    found: dict[int, str] = {}
    ahead = [pid]
    while ahead:
        for child, name in parents.get(ahead.pop(), ()):
            found[child] = name
            ahead.append(child)
    return found


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Within, whatever descends from this process stays below it, however often it forks and whoever dies."""
    if sys.platform != "linux":
        yield
        return
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_SUBREAPER, 0, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """From now on this process is killed when ``parent``, who started it, ends, however that ends."""
    if sys.platform == "linux":
        from paddock.sandbox.inside.syscalls import PR_SET_PDEATHSIG, prctl

        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os.kill(os.getpid(), signal.SIGKILL)


def end_all(pids: dict[int, str]) -> None:
    """Kill these processes of ours, and reap those that became our children."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    ends = time.monotonic() + 2.0
    for pid in pids:
        while time.monotonic() < ends:
            try:
                if os.waitpid(pid, os.WNOHANG) != (0, 0):
                    break
            except ChildProcessError:
                break
            time.sleep(0.005)


def shared_memory(name: str) -> list[str]:
    """Files of shared memory of that name."""
    return [f"shared memory {path}" for path in _below(_SHARED) if name in path.name]


def control_groups(owner: int) -> list[Path]:
    """The control groups that the process ``owner`` made."""
    return [
        Path(folder, name)
        for folder, names, _ in os.walk(_GROUPS)
        for name in names
        if name.startswith(f"paddock-{owner}-")
    ]


def remove_empty(groups: list[Path]) -> list[Path]:
    """Of these, those that hold processes. Who was killed can't tidy up: the next program of ours does, and we do."""
    busy = []
    for group in groups:
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            busy.append(group)
    return busy


def _below(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
