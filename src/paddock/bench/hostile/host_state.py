"""The host from outside: the processes below one, what a sandbox may leave behind, what a user's processes share."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attacks.attempt import NULL, call

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_GROUPS = Path("/sys/fs/cgroup")
_SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not written to
_TIMERS = 2000  # the limit of this process: an attack that takes them all harms no other
_PIPE_BYTES = 1 << 16
_F_GETPIPE_SZ = 1032
_FILES = 40_000
# A program that starts workers without end, or a single one ("once").
_STARTS = """
import json, socket, sys, threading
from paddock.sandbox import Call, Policy, launch

def start():
    near, far = socket.socketpair()
    with near, far:
        call, policy = Call("paddock.sandbox.inside.probe:main", ("/", 1, 1)), Policy.from_dict(json.loads(sys.argv[1]))
        launch(call, policy, socket_fd=far.fileno(), backend=sys.argv[2] or None).kill()

def go_on():
    while True:
        start()

print("ready", flush=True)
if sys.argv[3] == "once":
    start()
else:
    for _ in range(3):
        threading.Thread(target=go_on).start()
"""


def awake_s() -> float:
    """A clock that leaves out the time for which this thread was ready to run and had no core."""
    waited_ns = 0
    with suppress(OSError):
        waited_ns = int(Path("/proc/thread-self/schedstat").read_text().split()[1])  # Linux
    return time.monotonic() - waited_ns / 1e9


def _processes() -> Iterator[tuple[int, int, str, str]]:
    """Every process: number, parent, state, name."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - hot: asked every few milliseconds
        if entry.isdigit():
            with suppress(OSError, ValueError):
                text = Path(f"/proc/{entry}/stat").read_text(errors="replace")  # a name is any bytes
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
    below: dict[int, str] = {}
    ahead = [pid]
    while ahead:
        for child, name in parents.get(ahead.pop(), ()):
            below[child] = name
            ahead.append(child)
    return below


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Within, all descendants of this process stay below it, however often they fork and whichever dies."""
    if sys.platform != "linux":
        yield
        return
    from paddock.sandbox.inside.syscalls import prctl

    prctl(_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0)


def die_with_parent(parent: int) -> None:
    """Have this process killed when ``parent``, which started it, ends, however it ends."""
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


def kill_while_starting(policy: str, times: int, backend: str | None = None) -> None:
    """Kill programs that start workers, each at some moment of that; then let one program start a worker and end."""
    argv = [sys.executable, "-c", _STARTS, policy, backend or ""]
    for number in range(times):
        with subprocess.Popen([*argv, "without end"], stdout=subprocess.PIPE) as program:  # noqa: S603
            assert program.stdout is not None
            program.stdout.readline()
            time.sleep(0.05 + 0.25 * number / times)
            program.kill()
    subprocess.run([*argv, "once"], stdout=subprocess.DEVNULL, check=True)  # noqa: S603


def prepare(share: str) -> int:
    """Prepare for an attack on what all processes of a user share; pass the result to ``shortage``."""
    if share == "timers":
        import resource

        resource.setrlimit(resource.RLIMIT_SIGPENDING, (_TIMERS, _TIMERS))
    return _files_in_memory()


def shortage(share: str, arguments: Mapping[str, Any], before: int) -> str:
    """What this process can't get while an attack holds it, in words; "" if it gets everything."""
    if share == "timers":
        number = ctypes.c_int()
        try:
            call("timer_create", 1, NULL, ctypes.byref(number))
        except OSError as error:
            return f"the host gets no timer: {error.strerror}"
        call("timer_delete", number.value)
    elif share == "pipes":
        size = _size_of_a_pipe()
        return f"a pipe of the host's has {size} bytes" if size < _PIPE_BYTES else ""
    elif share == "lock":
        import fcntl

        with Path(arguments["path"]).open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "the host can't lock its file"
    elif share == "files":
        more = _files_in_memory() - before
        return f"the kernel holds {more} more files" if more > _FILES else ""
    return ""


def _size_of_a_pipe() -> int:
    """What an ordinary process of this user gets: root itself is not limited."""
    import fcntl

    from paddock.sandbox.inside.lock import become

    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(None)
            os.write(writes, b"%d" % fcntl.fcntl(os.pipe()[0], _F_GETPIPE_SZ))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        return int(answer.read() or 0)


def _files_in_memory() -> int:
    return int(Path("/proc/sys/fs/inode-nr").read_text().split()[0]) if sys.platform == "linux" else 0


def shared_memory(name: str) -> list[str]:
    """Files of shared memory of that name."""
    return [f"shared memory {path}" for path in _SHARED.glob(f"*{name}*")]


def control_groups(owner: int) -> list[Path]:
    """The control groups that the process ``owner`` made."""
    return [
        Path(folder, name)
        for folder, names, _ in os.walk(_GROUPS)
        for name in names
        if name.startswith(f"paddock-{owner}-")
    ]


def remove_empty(groups: list[Path]) -> list[Path]:
    """Remove empty groups, which a killed process can't; return those that hold processes."""
    busy = []
    for group in groups:
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            busy.append(group)
    return busy
