"""Attacks on and by processes: forks that stay, signals to others, programs run, namespaces entered.

Numbers are small, and a process that is killed was started for that.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attack import CONTAINED, LIVES, STAY_S
from paddock.bench.hostile.attacks.attempt import (
    NULL,
    WALL,
    Hostile,
    HostileWrapper,
    attack,
    call,
    first_that_works,
    name_of,
)
from paddock.bench.hostile.attacks.files import stack_of

_NEWUSER = 0x10000000
_SEIZE, _DETACH = 0x4206, 17


def in_child(attempt: Callable[[], str]) -> str:
    """The attempt in a forked child, which has no other threads; where forking is denied, here."""
    try:
        read, write = os.pipe()
        pid = os.fork()
    except OSError:
        return attempt()
    if pid == 0:
        try:
            try:
                answer = attempt()
            except OSError as error:
                answer = f"!{error.errno}"
            os.write(write, answer.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        answer = answers.read()
    os.waitpid(pid, 0)
    if answer.startswith("!"):
        raise OSError(int(answer[1:]), "in the child")
    return answer


@attack("P01", "forks without end", "claim", neighbour=True, expected={"denied", "raised"})
def fork_bomb(count: int = 20, seconds: int = 8) -> str:
    for _ in range(count):
        if os.fork() == 0:
            time.sleep(seconds)
            os._exit(0)
    return f"forked {count}"


_ABANDONED: dict[str, Any] = {"calls": ("reset", "step", "abandon"), "expected": LIVES, "needs": "ends-with-us"}
_GONE = "leaves processes behind when its program is gone"


@attack("P32", _GONE, "left", {"seconds": STAY_S}, policy={"processes": 4}, **_ABANDONED)
@attack("P02", "leaves a daemon behind", "left", {"seconds": STAY_S})
class Daemon(Hostile):
    """Forks twice, leaves session and group, and stays when the environment is closed."""

    started = False

    def attempt(self) -> str:
        if self.started:
            return "is there"
        child = os.fork()
        if child == 0:
            with suppress(OSError):
                os.setsid()
            if os.fork() == 0:
                for fd in range(64):  # nothing that could tell it that its parent has gone
                    with suppress(OSError):
                        os.close(fd)
                time.sleep(self.arguments["seconds"])
            os._exit(0)
        os.waitpid(child, 0)
        self.started = True
        return "is there"


@attack("P03", "leaves its session", "claim", needs="neighbours-safe")
def leave_session() -> str:
    """Leaves its process group and session, by which a plain parent would end it."""

    def leave() -> str:
        os.setsid()
        return "reached: a session of its own"

    return in_child(leave)


@attack("P04", "kills another process", "bystander", needs="neighbours-safe")
def kill(bystander: int) -> str:
    os.kill(bystander, signal.SIGKILL)
    return "killed"


@attack("P05", "signals everyone", "claim", needs="neighbours-safe")
def signal_all(parent: int) -> str:
    """Signals every process that it may. With a signal that does nothing: killing would end this machine's work."""
    os.kill(parent, 0)
    os.kill(-1, signal.SIGCONT)
    return "reached: everyone"


@attack("P06", "signals its parent", "signal", needs="neighbours-safe")
def signal_parent(parent: int) -> str:
    """Sends its parent a signal that the judge counts."""
    os.kill(parent, signal.SIGURG)
    return "sent"


@attack("P07", "has the kernel signal its parent", "signal", expected=LIVES, needs="neighbours-safe")
def signal_by_file(parent: int) -> str:
    """Has the kernel signal the parent: it names the parent as the owner of a pipe, and writes into the pipe."""
    import fcntl

    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, parent)
    fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGURG)
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(write, b"x")
    return "asked the kernel"


def seize(pid: int) -> str:
    """Become the debugger of a process, for a moment."""
    call("ptrace", _SEIZE, pid, NULL, NULL)
    with suppress(OSError):
        call("ptrace", _DETACH, pid, NULL, NULL)
    return f"reached: traced {pid}"


def copy_memory(pid: int, at: int, size: int) -> bytes:
    """Copy a process's memory by process_vm_readv, which needs no file."""
    buffer = ctypes.create_string_buffer(size)
    ours = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), size)
    theirs = (ctypes.c_uint64 * 2)(at, size)
    size = call("process_vm_readv", pid, ours, 1, theirs, 1, 0)
    return buffer.raw[:size]


@attack("P08", "traces another process", "claim", needs="neighbours-safe")
def trace(bystander: int) -> str:
    return seize(bystander)


@attack("P09", "copies another's memory", "secret", needs="secrets-hidden")
def copy_others_memory(bystander: int) -> str:
    try:
        end = stack_of(bystander)[1]
    except OSError:
        end = 0x7FFF_FFFF_F000  # it tries all the same: the call itself must be denied
    return copy_memory(bystander, end - 16384, 16384).decode("latin-1")


@attack("P10", "becomes root of a namespace", "claim", needs="no-privileges")
def make_namespace() -> str:
    """Makes a user namespace, in which it would be root and reach more of the kernel."""

    def unshare() -> str:
        call("unshare", _NEWUSER)
        return "reached: root of a namespace"

    return in_child(unshare)


@attack("P11", "the same by clone3", "claim", needs="no-privileges")
def clone_namespace() -> str:
    """The same by clone3, whose flags lie where no filter sees them."""
    pid = call("clone3", (ctypes.c_uint64 * 11)(_NEWUSER, 0, 0, 0, signal.SIGCHLD), 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "reached: a child in a namespace"


@attack("P15", "runs a setuid program", "claim", needs="no-programs")
def run_setuid_program() -> str:
    """Runs a program that the system lends root's rights; it is only asked for its version."""

    def run(program: str) -> str:
        if not Path(program).stat().st_mode & 0o4000:
            raise FileNotFoundError(errno.ENOENT, "not a setuid program")
        done = subprocess.run([program, "--version"], capture_output=True, timeout=5, check=False)  # noqa: S603
        return f"reached: {program}: {done.stdout[:40]!r}"

    return first_that_works(run, ("/usr/bin/su", "/usr/bin/mount", "/bin/su"))


@attack("P16", "runs a shell", "file", needs="no-programs")
def run_shell(marker: str) -> str:
    argv = ["/bin/sh", "-c", 'echo hostile > "$1"', "sh", marker]
    if subprocess.run(argv, timeout=5, check=False).returncode:  # noqa: S603
        raise PermissionError(errno.EACCES, "the shell could not write")
    return "the shell ran"


@attack("P17", "runs a program from memory", "file", needs="no-programs")
def run_from_memory(marker: str) -> str:
    """Runs a program that was never a file: it lies in memory only."""
    pid = os.fork()
    if pid == 0:
        try:
            fd = os.memfd_create("program", 0)
            os.write(fd, Path("/bin/sh").read_bytes())
            os.execve(fd, ["sh", "-c", f"echo hostile > {marker}"], {})  # noqa: S606
        except OSError as error:
            os._exit(min(error.errno or 1, 255))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, "in the child")
    return "the program ran"


@attack("P18", "becomes root", "claim", control_root=True, needs="no-privileges")
def become_root() -> str:
    """Takes root's number, by every way that there is."""
    denial: OSError | None = None
    for way in (os.setuid, os.seteuid, lambda uid: os.setresuid(uid, uid, uid)):
        try:
            way(0)
        except OSError as error:
            denial = error
    if os.geteuid() == 0:  # the name alone is worth nothing: what follows needs a right of root's
        os.setgroups(os.getgroups())
        return "reached: root"
    raise denial or PermissionError(errno.EPERM, "not root")


@attack("P19", "takes precedence over all", "claim", control_root=True, needs="no-privileges")
def take_precedence() -> str:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return "reached: real time"
    except OSError:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -10)
            return "reached: a higher priority"
        raise


@attack("P20", "outlives its parent", "left", **_ABANDONED)
def outlive_parent(seconds: int = STAY_S) -> str:
    """Frees itself from whatever would end it with its parent, and has a thread that never ends."""
    import fcntl

    with suppress(OSError):
        call("prctl", 1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG, none
    for fd in range(3, 64):
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
    threading.Thread(target=time.sleep, args=(seconds,)).start()
    return "has freed itself"


@attack("P21", "names the handler of crashes", "claim", control_root=True, needs="files-kept")
def name_core_handler() -> str:
    """Opens the file that names the program which the kernel runs as root after a crash, and writes nothing."""
    try:
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    except OSError as error:
        if error.errno in (*WALL, errno.ENOENT, errno.EROFS):
            raise
        return f"reached: {name_of(error)}"
    return "reached: core_pattern"


@attack("P22", "a wrapper runs a shell", "file", base=HostileWrapper, needs="no-programs")
def run_shell_in_wrapper(marker: str) -> str:
    if os.system(f"echo hostile > {marker}"):  # noqa: S605
        raise PermissionError("the shell did not run")
    return "the shell ran"


attack(
    "P23",
    "the programs that start workers are killed meanwhile",
    "left",
    calls=("killed starts", "close"),
    expected=CONTAINED,
    no_control="without a wall, nothing can be left half built",
    needs="ends-with-us",
)(Hostile)
attack(
    "P30",
    "its template is killed while workers start",
    "left",
    calls=("killed templates", "close"),
    expected={"contained", "signal"},
    no_control="without a wall there is no template",
    needs="ends-with-us",
)(Hostile)
attack(
    "P31",
    "workers start and end beside each other",
    "neighbour",
    calls=("raced starts", "close"),
    expected=CONTAINED,
    neighbour=True,
    no_control="without a wall, no worker is forked beside another",
    needs="neighbours-safe",
)(Hostile)

# ── Attacks on those that were forked from the same template, and on the template itself ──

_SECRET = re.compile(rb"secret [0-9a-f]{32}")  # what the neighbour was told
_PIECE = 1 << 20
_UNREADABLE = (errno.EIO, errno.EFAULT)


def on_family(code: str, title: str, canary: str, **more: Any) -> Callable[[Any], Any]:
    """``attack`` with the function on each of the family in turn, and on the first process of its namespace."""

    def decorate(way: Any) -> Any:
        def attempt(family: list[int]) -> str:
            return first_that_works(way, (*family, *([1] if os.getppid() == 1 else [])))

        attempt.__name__ = way.__name__
        hostile = way if isinstance(way, type) else attempt
        return attack(code, title, canary, neighbour=True, needs="neighbours-safe", **more)(hostile)

    return decorate


def search_memory(pid: int, read: Callable[[int, int], bytes]) -> str:
    """The neighbour's secret, by ``read`` from what the process ``pid`` may write to.

    If its map is not shown, from where this process has its own objects: forks of one template are laid out alike.
    """
    try:
        with Path(f"/proc/{pid}/maps").open() as maps:
            places = [fields[0].split("-") for line in maps if (fields := line.split())[1].startswith("rw")]
        regions = [(int(begin, 16), int(end, 16)) for begin, end in places]
    except OSError:
        own = id(_SECRET) & -_PIECE
        regions = [(own, own + _PIECE)]
    for begin, end in regions:
        for at in range(begin, end, _PIECE):
            try:
                found = _SECRET.search(read(at, min(_PIECE, end - at)))
            except OSError as error:
                if error.errno not in _UNREADABLE:
                    raise
                break
            if found:
                return found[0].decode()
    raise FileNotFoundError(errno.ENOENT, "its secret was not found")


@on_family("P24", "traces its neighbour and its template", "claim")
def trace_family(pid: int) -> str:
    return seize(pid)


@on_family("P25", "copies the memory of its neighbour and its template", "secret")
def copy_family_memory(pid: int) -> str:
    return search_memory(pid, partial(copy_memory, pid))


@on_family("P26", "reads the memory of its neighbour and its template", "secret")
def read_family_memory(pid: int) -> str:
    """Searches it by its file in /proc."""
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        return search_memory(pid, lambda at, size: os.pread(memory, size, at))
    finally:
        os.close(memory)


@on_family("P27", "takes descriptors of its neighbour and its template", "claim")
def take_family_descriptors(pid: int) -> str:
    """Takes a descriptor out of a running process, such as the socket that its requests come from."""
    process = call("pidfd_open", pid, 0)
    try:
        os.close(call("pidfd_getfd", process, 0, 0))
    finally:
        os.close(process)
    return f"reached: a descriptor of {pid}"


@on_family("P29", "the same, where it may send signals", "neighbour", expected=LIVES, policy={"processes": 4})
@on_family("P28", "kills its neighbour and its template", "neighbour")
def kill_family(pid: int) -> str:
    os.kill(pid, signal.SIGKILL)
    return f"killed {pid}"
